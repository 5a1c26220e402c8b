"""Clients that do not read: what is pending for them is bounded, each and in total."""

import asyncio
import contextlib
import gc
import json
import tracemalloc
from collections.abc import AsyncGenerator
from socket import SO_RCVBUF, SOL_SOCKET
from typing import Any

import pytest

from kilonova.kube.serving import response_writer
from kilonova.local.apiserver.server.connection import ApiConnection
from tests.local.apiserver.bad_input.test_over_the_wire import CONFIG_MAPS, Wire, status_of, wire

__all__ = ["wire"]

SIZE = 1_000_000
OBJECTS = 6  # the system buffers some megabytes per connection
WATCH = f"{CONFIG_MAPS}?watch=1&resourceVersion=0&timeoutSeconds=600"
WEBSOCKET = (
    "Connection: Upgrade",
    "Upgrade: websocket",
    "Sec-WebSocket-Version: 13",
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
)
COUNT = 30
LIMIT = 100_000
EACH = 1_000_000
"""Bytes for a client that does not read, in this process that is both of its ends: far less than
the object, and more than the buffers of two TLS connections."""


async def post(wire: Wire, path: str, obj: Any) -> None:
    body = json.dumps(obj).encode()
    response = await wire.say(wire.head("POST", path, f"Content-Length: {len(body)}") + body)
    assert status_of(response) == 201


async def store_something_large(wire: Wire) -> None:
    for number in range(OBJECTS):
        obj = {"metadata": {"name": f"large-{number}"}, "data": {"a": "x" * SIZE}}
        await post(wire, CONFIG_MAPS, obj)


async def metric(wire: Wire, name: str) -> float:
    reader, writer = await wire.connect()
    writer.write(wire.head("GET", "/metrics"))
    text = (await reader.read()).decode()
    writer.close()
    return next(float(line.split()[1]) for line in text.splitlines() if line.startswith(name))


async def wait_until(wire: Wire, name: str, least: float) -> None:
    async with asyncio.timeout(60):
        while await metric(wire, name) < least:
            await asyncio.sleep(0.02)


@contextlib.asynccontextmanager
async def not_reading(
    wire: Wire, path: str, count: int, *headers: str
) -> AsyncGenerator[list[asyncio.StreamReader]]:
    """Clients that have sent a request and do not read."""
    clients = [await wire.connect() for _ in range(count)]
    try:
        for _, writer in clients:
            transport: asyncio.Transport = writer.transport  # pyright: ignore[reportAssignmentType]
            transport.pause_reading()
            transport.get_extra_info("socket").setsockopt(SOL_SOCKET, SO_RCVBUF, 4096)
            writer.write(wire.head("GET", path, *headers))
        yield [reader for reader, _ in clients]
    finally:
        for _, writer in clients:
            writer.transport.abort()


@contextlib.contextmanager
def memory_below(limit: int):
    """Assert that the memory allocated by the body is below the limit at its end."""
    gc.collect()
    tracemalloc.start()
    try:
        yield
        gc.collect()
        now, _ = tracemalloc.get_traced_memory()
        assert now < limit
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("path", "headers"),
    [(WATCH, ()), (WATCH, WEBSOCKET), (CONFIG_MAPS, ())],
    ids=["watch", "websocket", "list"],
)
async def test_stalled_client_uses_little_memory(
    wire: Wire, path: str, headers: tuple[str, ...]
) -> None:
    await store_something_large(wire)
    # A list is encoded per client; the bytes of a watch belong to the store.
    each = EACH if path == WATCH else EACH + 2 * SIZE
    with memory_below(COUNT * each):
        async with not_reading(wire, path, COUNT, *headers):
            await wait_until(wire, "apiserver_blocked_clients", COUNT)
            gc.collect()
            now, _ = tracemalloc.get_traced_memory()
            assert now < COUNT * each
            assert await metric(wire, "apiserver_pending_response_bytes") > 0


@pytest.mark.parametrize("version", ["v1", "v2"], ids=["stored", "converted"])
async def test_watches_of_several_versions_share_encoded_events(wire: Wire, version: str) -> None:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    names = ("v1", "v2")
    definition = {
        "metadata": {"name": "things.slow.example"},
        "spec": {
            "group": "slow.example",
            "scope": "Namespaced",
            "names": {"kind": "Thing", "plural": "things"},
            "versions": [
                {
                    "name": name,
                    "served": True,
                    "storage": name == "v1",
                    "schema": {"openAPIV3Schema": schema},
                }
                for name in names
            ],
        },
    }
    await post(wire, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
    things = f"/apis/slow.example/{version}/namespaces/default/things"
    for number in range(4):
        thing = {
            "apiVersion": f"slow.example/{version}",
            "kind": "Thing",
            "metadata": {"name": f"large-{number}"},
            "data": "x" * 2 * SIZE,
        }
        await post(wire, things, thing)
    watch = f"{things}?watch=1&resourceVersion=0&timeoutSeconds=600"
    with memory_below(COUNT * EACH):
        async with not_reading(wire, watch, COUNT):
            await wait_until(wire, "apiserver_blocked_clients", COUNT)
            gc.collect()
            now, _ = tracemalloc.get_traced_memory()
            assert now < COUNT * EACH


async def test_read_watch_frees_its_events(wire: Wire) -> None:
    await store_something_large(wire)
    clients = [await wire.connect() for _ in range(COUNT)]
    with memory_below(COUNT * EACH):
        for reader, writer in clients:
            writer.write(wire.head("GET", WATCH))
            taken = 0
            while taken < OBJECTS * SIZE:
                taken += len(await reader.read(1 << 16))
    for _, writer in clients:
        writer.transport.abort()


@pytest.mark.parametrize("headers", [(), WEBSOCKET], ids=["plain", "websocket"])
async def test_stalled_client_is_disconnected(
    wire: Wire, monkeypatch: pytest.MonkeyPatch, headers: tuple[str, ...]
) -> None:
    monkeypatch.setattr(response_writer, "STALLED_SECONDS", 1.0)
    await store_something_large(wire)
    async with not_reading(wire, WATCH, 3, *headers):
        await wait_until(wire, "apiserver_stalled_clients_disconnected_total", 3)
    assert await metric(wire, "apiserver_pending_response_bytes") == 0


async def test_slowest_clients_are_disconnected_under_pressure(
    wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(response_writer, "PENDING_BYTES_LIMIT", LIMIT)
    await store_something_large(wire)
    async with not_reading(wire, CONFIG_MAPS, 20):
        await wait_until(wire, "apiserver_stalled_clients_disconnected_total", 1)
        async with asyncio.timeout(60):
            while await metric(wire, "apiserver_pending_response_bytes") > LIMIT:
                await asyncio.sleep(0.02)
        reader, writer = await wire.connect()
        writer.write(wire.head("GET", CONFIG_MAPS))
        response = await reader.read()
        assert status_of(response) == 200
        assert len(response) > OBJECTS * SIZE
        writer.close()


async def test_server_stops_despite_a_stalled_client(wire: Wire) -> None:
    await store_something_large(wire)
    async with not_reading(wire, WATCH, 1):
        await wait_until(wire, "apiserver_blocked_clients", 1)
        async with asyncio.timeout(60):
            await wire.cluster.stop()


@pytest.mark.parametrize("headers", [(), WEBSOCKET], ids=["plain", "websocket"])
async def test_closed_connection_is_freed_without_garbage_collection(
    wire: Wire, headers: tuple[str, ...]
) -> None:
    """It rarely runs in a long-lived process, and the buffers are large."""
    await store_something_large(wire)
    await wait_connected(0)
    gc.collect()
    gc.disable()
    try:
        async with not_reading(wire, WATCH, 5, *headers):
            await wait_connected(5)
        await wait_connected(0)
    finally:
        gc.enable()


async def wait_connected(count: int) -> None:
    """Wait until this many connections of servers in this process are in memory."""
    async with asyncio.timeout(20):
        while sum(isinstance(each, ApiConnection) for each in gc.get_objects()) != count:
            await asyncio.sleep(0.02)
