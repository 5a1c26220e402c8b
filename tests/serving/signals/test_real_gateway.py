"""The figures of a real Envoy with the configuration of a gateway."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator

import pytest
from aiohttp import web

from kilonova.serving.signals.http_reader import HttpReader
from kilonova.serving.signals.service_poll import ServicePoll
from tests.serving.gateway.support.clients import call, open_channel, open_session
from tests.serving.gateway.support.envoy_gateway import run_gateway
from tests.serving.gateway.support.services import build_gateway, build_spec, build_state
from tests.serving.gateway.support.upstreams import run_upstream
from tests.serving.gateway.support.waiting import wait_until
from tests.serving.signals.pods import gateway_pod


@contextlib.asynccontextmanager
async def reading() -> AsyncGenerator[HttpReader]:
    reader = HttpReader()
    try:
        yield reader
    finally:
        reader.close()


async def test_requests_of_both_protocols_are_counted_while_and_after_they_run() -> None:
    spec = build_spec(gateway=build_gateway())
    async with run_upstream() as upstream, reading() as reader:
        go_on = asyncio.Event()

        async def slow(_: web.Request, __: bytes) -> web.StreamResponse:
            await go_on.wait()
            return web.Response(text="done")

        upstream.http_answer = slow
        upstream.grpc_gate.clear()
        async with (
            run_gateway(spec, build_state([upstream.endpoint])) as gateway,
            open_channel(spec.gateway.grpc_port) as channel,
            open_session(spec.gateway.http_port) as session,
            asyncio.TaskGroup() as group,
        ):
            poll, pods = ServicePoll(reader, gateway.stats_port), [gateway_pod()]
            before = await poll.read(spec, pods, 0.0)
            assert before.problems == ()
            assert before.is_complete
            assert before.groups["main"].in_flight == 0
            assert poll.active_at is None
            for _ in range(3):
                group.create_task(call(channel))
            for _ in range(2):
                group.create_task(_post(session))
            await wait_until(lambda: len(upstream.received) == 5)
            during = (await poll.read(spec, pods, 1.0)).groups["main"]
            assert (during.in_flight, during.demand) == (5, 5)
            assert poll.active_at == 1.0
            await asyncio.sleep(0.1)
            upstream.grpc_gate.set()
            go_on.set()
            await wait_until(lambda: upstream.in_flight == 0)
            await _settle(gateway)
            after = (await poll.read(spec, pods, 2.0)).groups["main"]
            assert after.in_flight == 0
            assert after.requests_per_second == pytest.approx(5 / 2)
            assert after.arrivals_per_second == pytest.approx(5 / 2)
            assert after.errors_per_second == 0
            assert after.latency.p50 is not None
            assert 0.07 <= after.latency.p50 < 5
            assert after.mean_latency is not None
            assert 0.07 <= after.mean_latency < 5


async def test_errors_of_servers_are_counted() -> None:
    spec = build_spec(gateway=build_gateway())
    async with run_upstream() as upstream, reading() as reader:

        async def fail(_: web.Request, __: bytes) -> web.StreamResponse:
            return web.Response(status=500)

        upstream.http_answer = fail
        async with (
            run_gateway(spec, build_state([upstream.endpoint])) as gateway,
            open_session(spec.gateway.http_port) as session,
        ):
            poll, pods = ServicePoll(reader, gateway.stats_port), [gateway_pod()]
            await poll.read(spec, pods, 0.0)
            for _ in range(4):
                await _post(session)
            await _settle(gateway)
            figures = (await poll.read(spec, pods, 2.0)).groups["main"]
            assert figures.errors_per_second is not None
            assert figures.errors_per_second >= 2


async def test_gateway_that_is_away_is_a_problem_and_no_zero() -> None:
    spec = build_spec(gateway=build_gateway())
    async with run_upstream() as upstream, reading() as reader:
        async with run_gateway(spec, build_state([upstream.endpoint])) as gateway:
            poll, pods = ServicePoll(reader, gateway.stats_port), [gateway_pod()]
            assert (await poll.read(spec, pods, 0.0)).is_complete
        signals = await poll.read(spec, pods, 1.0)
        assert signals.problems == ("gateway web-gateway-0: connection refused",)
        assert not signals.is_complete
        assert signals.groups["main"].in_flight is None
        assert signals.groups["main"].demand is None


async def _post(session) -> int:
    async with session.post("/v2/models/m/infer", data=b"{}") as reply:
        await reply.read()
        return reply.status


async def _settle(gateway) -> None:
    """Envoy counts a request when its stream is closed, a moment after the client has it."""
    for _ in range(200):
        if not await gateway.read_stat("cluster.server/main.upstream_rq_active"):
            return
        await asyncio.sleep(0.01)
