"""Latency of changes to many watches, at a constant rate of changes.

This process patches an annotation with the time of sending. Another process holds the watches and
searches for that annotation in their data. Both read the same monotonic clock, so the latency is a
subtraction. A delivery that never happens counts as infinite.
"""

import asyncio
import math
import multiprocessing
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import uvloop

from bench.home.inputs import Inputs
from bench.home.pods import build_minimal_pod, encode_pod
from bench.home.raw_http import Connection, encode_request, open_connections
from bench.home.servers import NAMESPACE, Server, StartServer
from bench.home.watch_process import SENT_ANNOTATION, Deliveries, hold_watches
from bench.report import Measurements, Quantity

_TARGET_MS = 100
_PODS = 100
_TIMEOUT_SECONDS = 30
_PODS_PATH = f"/api/v1/namespaces/{NAMESPACE}/pods"
_MERGE_PATCH = "application/merge-patch+json"


@dataclass(frozen=True, slots=True)
class WatchSetup:
    """The pods that change, and the selectors of the watches."""

    title: str
    pods: Sequence[bytes]
    selectors: Sequence[str]
    watches_per_change: int
    """How many watches receive each change."""


def measure(start: StartServer, folder: Path, inputs: Inputs) -> Measurements:
    """Latencies when every watch receives every change, and when each watches one node."""
    names = [f"watched-{number}" for number in range(inputs.watches)]
    every = WatchSetup(
        f"{inputs.watches:,} watches",
        [encode_pod(build_minimal_pod(name=name)) for name in names[:_PODS]],
        [""] * inputs.watches,
        inputs.watches,
    )
    own = WatchSetup(
        f"{inputs.watches:,} watches of one node each",
        [encode_pod(build_minimal_pod(node=f"node-{name}", name=name)) for name in names],
        [f"&fieldSelector=spec.nodeName%3Dnode-{name}" for name in names],
        1,
    )
    figures: Measurements = {}
    for number, setup in enumerate((every, own)):
        fresh = folder / str(number)
        fresh.mkdir()
        with start(fresh) as server:
            server.create_namespace()
            figures |= measure_delivery(server, setup, inputs)
    return figures


def measure_delivery(server: Server, setup: WatchSetup, inputs: Inputs) -> Measurements:
    """Create the pods, change them, and measure the latency of the watches."""
    version = uvloop.run(_create_pods(server, setup.pods))
    changes = inputs.events_per_second * inputs.watch_seconds
    expected = changes * setup.watches_per_change
    paths = [f"{_PODS_PATH}?watch=1{selector}" for selector in setup.selectors]
    spawn = multiprocessing.get_context("spawn")
    pipe, child_pipe = spawn.Pipe()
    watchers = spawn.Process(
        target=hold_watches,
        args=(server.access, paths, version, changes, expected, child_pipe),
        daemon=True,
    )
    watchers.start()
    child_pipe.close()
    try:
        pipe.recv()
    except EOFError:
        raise RuntimeError("the watch process could not open its watches") from None
    cpu = server.cpu_seconds()
    uvloop.run(_write_at_rate(server, len(setup.pods), changes, inputs))
    if not pipe.poll(_TIMEOUT_SECONDS):
        pipe.send("enough")
    deliveries: Deliveries = pipe.recv()
    cpu = server.cpu_seconds() - cpu
    watchers.join()
    latencies = sorted(deliveries.latencies)
    title = f"{setup.title} × {inputs.events_per_second} events/s"
    return {
        Quantity(f"{title}, p50", "ms"): _percentile(latencies, expected, 0.50) * 1e3,
        Quantity(f"{title}, p99", "ms", target=_TARGET_MS): _percentile(latencies, expected, 0.99)
        * 1e3,
        Quantity(f"{title}, delivered", "%", "more", target=100): 100 * len(latencies) / expected,
        Quantity(f"{title}, watches resumed", ""): deliveries.resumed,
        Quantity(f"{title}, CPU of the server per event", "µs"): cpu * 1e6 / changes,
        Quantity(f"{title}, CPU of the watchers per event", "µs"): deliveries.cpu * 1e6 / changes,
    }


async def _create_pods(server: Server, pods: Sequence[bytes]) -> str:
    """Create the pods that will change; returns the resourceVersion of the collection."""
    async with open_connections(server.access, 1) as (connection,):
        for body in pods:
            await connection.send(encode_request("POST", _PODS_PATH, body))
    _, listing = server.access.request("GET", f"{_PODS_PATH}?limit=1")
    return listing["metadata"]["resourceVersion"]


async def _write_at_rate(server: Server, pods: int, changes: int, inputs: Inputs) -> None:
    """Patch one pod after the other at a constant rate, without waiting for responses."""
    width, per_second = inputs.connections, inputs.events_per_second
    async with open_connections(server.access, width) as opened, asyncio.TaskGroup() as group:
        free: asyncio.Queue[Connection] = asyncio.Queue()
        for connection in opened:
            free.put_nowait(connection)
        began = time.monotonic()
        for number in range(changes):
            await asyncio.sleep(began + number / per_second - time.monotonic())
            sent = time.monotonic_ns()
            group.create_task(_patch(free, f"watched-{number % pods}", f"{number}-{sent}"))


async def _patch(idle_connections: "asyncio.Queue[Connection]", name: str, annotation: str) -> None:
    body = f'{{"metadata":{{"annotations":{{"{SENT_ANNOTATION}":"{annotation}"}}}}}}'.encode()
    message = encode_request("PATCH", f"{_PODS_PATH}/{name}", body, _MERGE_PATCH)
    connection = await idle_connections.get()
    await connection.send(message)
    idle_connections.put_nowait(connection)


def _percentile(ordered: Sequence[float], expected: int, share: float) -> float:
    position = math.ceil(expected * share) - 1
    return ordered[position] if position < len(ordered) else math.inf
