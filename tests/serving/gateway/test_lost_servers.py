"""A server that is lost under load costs no request."""

import asyncio
import contextlib
import sys
from collections import Counter
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path

import grpc
import pytest
from aiohttp import web

from kilonova.api.serving import HealthCheck, Retries
from kilonova.serving.gateway.model import Endpoint
from tests.harness.http_probe import is_serving
from tests.harness.server_process import ServerProcess, find_free_port
from tests.serving.gateway.support import server_program
from tests.serving.gateway.support.clients import build_infer, open_channel, open_session, try_call
from tests.serving.gateway.support.envoy_gateway import run_gateway
from tests.serving.gateway.support.services import (
    build_endpoint,
    build_gateway,
    build_spec,
    build_state,
)
from tests.serving.gateway.support.upstreams import run_upstream
from tests.serving.gateway.support.waiting import wait_until, wait_until_answer

CLIENTS = 8
ENOUGH = 200
"""Calls before and after the loss."""


@dataclass
class Server:
    process: ServerProcess
    endpoint: Endpoint


@contextlib.asynccontextmanager
async def run_servers(folder: Path) -> AsyncGenerator[list[Server]]:
    """Two servers in processes of their own."""
    servers: list[Server] = []
    for i in range(2):
        http_port, grpc_port = find_free_port(), find_free_port()
        command = [sys.executable, server_program.__file__, f"main-{i}", grpc_port, http_port]
        process = ServerProcess(f"main-{i}", [*map(str, command)], folder / f"{i}.log")
        endpoint = build_endpoint(
            f"main-{i}", address="127.0.0.1", http_port=http_port, grpc_port=grpc_port
        )
        servers.append(Server(process, endpoint))
    try:
        for each in servers:
            url = f"http://127.0.0.1:{each.endpoint.http_port}/"
            each.process.wait_until(lambda url=url: is_serving(url))
        yield servers
    finally:
        for each in servers:
            each.process.kill()


async def test_killing_one_of_two_servers_under_load_fails_no_request(tmp_path):
    async with run_servers(tmp_path) as servers:
        spec = build_spec(gateway=build_gateway())
        state = build_state([each.endpoint for each in servers])
        results: Counter[object] = Counter()
        is_over = asyncio.Event()

        async def call_always(port: int) -> None:
            async with open_channel(port) as channel:
                while not is_over.is_set():
                    results[await try_call(channel, message=build_infer("m", 10_000))] += 1

        async def request_always(port: int) -> None:
            async with open_session(port) as session:
                while not is_over.is_set():
                    async with session.post("/v2/models/m/infer", data=bytes(10_000)) as reply:
                        results[(reply.status, await reply.text())] += 1

        async with run_gateway(spec, state) as gateway:
            clients = [
                asyncio.ensure_future(load(port))
                for load, port in (
                    (call_always, spec.gateway.grpc_port),
                    (request_always, spec.gateway.http_port),
                )
                for _ in range(CLIENTS)
            ]
            await wait_until(lambda: results.total() > ENOUGH)
            before = results.total()
            servers[0].process.kill()
            await wait_until(lambda: results.total() > before + 3 * ENOUGH)
            is_over.set()
            await asyncio.gather(*clients)
            assert set(results) <= {
                (grpc.StatusCode.OK, "main-0"),
                (grpc.StatusCode.OK, "main-1"),
                (200, "main-0"),
                (200, "main-1"),
            }, results
            assert await gateway.read_stat("cluster.server/main.upstream_rq_retry_success") > 0


@pytest.mark.parametrize(("idempotent", "statuses"), [(True, {200}), (False, {200, 503})])
async def test_request_that_a_server_has_begun_is_only_repeated_if_it_may_be(idempotent, statuses):
    async with run_upstream("main-0") as losing, run_upstream("main-1") as other:

        async def close(request: web.Request, body: bytes) -> web.Response:
            assert request.transport is not None
            request.transport.abort()
            return web.Response()

        losing.http_answer = close
        spec = build_spec(gateway=build_gateway(retries=Retries(idempotent=idempotent)))
        state = build_state([losing.endpoint, other.endpoint])
        async with run_gateway(spec, state), open_session(spec.gateway.http_port) as session:
            found: set[int] = set()
            for _ in range(10):
                async with session.post("/v2/models/m/infer", data=bytes(5_000_000)) as reply:
                    found.add(reply.status)
            assert found == statuses
            begun = len(losing.received) + len(other.received)
            assert begun > 10 if idempotent else begun == 10


async def test_server_that_hangs_is_left_alone_once_its_checks_fail():
    async with run_upstream("main-0") as hanging, run_upstream("main-1") as other:
        check = HealthCheck(interval="100ms", timeout="100ms", unhealthy_threshold=1)
        spec = build_spec(gateway=build_gateway(health_check=check))
        async with (
            run_gateway(spec, build_state([hanging.endpoint, other.endpoint])),
            open_channel(spec.gateway.grpc_port) as channel,
        ):

            async def ask_often() -> set[tuple[grpc.StatusCode, str]]:
                return {await try_call(channel) for _ in range(20)}

            both = {(grpc.StatusCode.OK, each) for each in ("main-0", "main-1")}
            await wait_until_answer(ask_often, both)
            hanging.is_healthy = False
            await wait_until_answer(ask_often, {(grpc.StatusCode.OK, "main-1")})
            hanging.is_healthy = True
            await wait_until_answer(ask_often, both)


async def test_gateway_tries_all_servers_if_none_passes_its_checks():
    async with run_upstream() as upstream:
        upstream.is_healthy = False
        spec = build_spec(gateway=build_gateway())
        async with (
            run_gateway(spec, build_state([upstream.endpoint])),
            open_channel(spec.gateway.grpc_port) as channel,
        ):
            assert await try_call(channel) == (grpc.StatusCode.OK, "main-0")
