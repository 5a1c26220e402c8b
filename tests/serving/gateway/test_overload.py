"""While the load is high, clients are refused in their own language, and told when to come back."""

import asyncio

import grpc
import pytest
from aiohttp import web

from kilonova.api.serving import Limits, LoadLimit
from tests.serving.gateway.support.clients import (
    call,
    open_channel,
    open_session,
    try_call,
)
from tests.serving.gateway.support.envoy_gateway import run_gateway
from tests.serving.gateway.support.services import (
    build_gateway,
    build_group,
    build_spec,
    build_state,
)
from tests.serving.gateway.support.upstreams import run_upstream
from tests.serving.gateway.support.waiting import wait_until, wait_until_answer

_PENDING = "cluster.server/main.upstream_rq_pending_active"
OVERLOADED = frozenset({"main"})


async def test_overloaded_group_refuses_with_resource_exhausted():
    async with run_upstream() as upstream:
        limits = Limits(load=LoadLimit(in_flight_per_replica=1, retry_after="2s"))
        spec = build_spec(limits=limits, gateway=build_gateway())
        state = build_state([upstream.endpoint], overloaded=OVERLOADED)
        async with (
            run_gateway(spec, state),
            open_channel(spec.gateway.grpc_port) as channel,
            open_session(spec.gateway.http_port) as session,
        ):
            with pytest.raises(grpc.aio.AioRpcError) as refusal:
                await call(channel)
            assert refusal.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            assert refusal.value.details() == "the load of main is above its limit"
            trailers = dict(refusal.value.trailing_metadata() or ())
            assert trailers["grpc-retry-pushback-ms"] == "2000"
            assert not any(name.startswith("x-kilonova") for name in trailers)
            async with session.post("/v2/models/m/infer", data=b"{}") as reply:
                assert (reply.status, reply.headers["retry-after"]) == (429, "2")
                assert await reply.json() == {"error": "the load of main is above its limit"}
            assert upstream.received == [], "a refused request is not executed"


async def test_job_admission_refuses_the_repository_index_alone():
    async with run_upstream() as upstream:
        limits = Limits(load=LoadLimit(in_flight_per_replica=1, job_admission=True))
        spec = build_spec(limits=limits, gateway=build_gateway())
        state = build_state([upstream.endpoint], overloaded=OVERLOADED)
        async with run_gateway(spec, state), open_channel(spec.gateway.grpc_port) as channel:
            with pytest.raises(grpc.aio.AioRpcError) as refusal:
                await call(channel, "RepositoryIndex")
            assert refusal.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            assert await call(channel, "ModelInfer") == b"main-0"


async def test_full_queue_refuses_with_resource_exhausted():
    async with run_upstream() as upstream:
        spec = build_spec(build_group(max_in_flight=2, max_queued=1), gateway=build_gateway())
        async with (
            run_gateway(spec, build_state([upstream.endpoint])) as gateway,
            open_channel(spec.gateway.grpc_port) as channel,
        ):
            await call(channel)  # while its connection is made, a request waits, too
            upstream.grpc_gate.clear()
            calls = [asyncio.ensure_future(try_call(channel)) for _ in range(8)]
            await wait_until(lambda: sum(each.done() for each in calls) == 3)
            assert await gateway.read_stat(_PENDING) == 3
            with pytest.raises(grpc.aio.AioRpcError) as refusal:
                await call(channel)
            assert dict(refusal.value.trailing_metadata() or ())["grpc-retry-pushback-ms"] == "1000"
            assert upstream.in_flight == 2, "max_in_flight"
            for each in calls:
                if each.done():
                    assert each.result() == (
                        grpc.StatusCode.RESOURCE_EXHAUSTED,
                        "too many requests wait for a server",
                    )
            upstream.grpc_gate.set()
            answers = await asyncio.gather(*calls)
            assert answers.count((grpc.StatusCode.OK, "main-0")) == 5
            assert upstream.most_in_flight == 2


async def test_full_queue_of_http_refuses_with_429():
    async with run_upstream() as upstream:
        gate = asyncio.Event()

        async def answer(request: web.Request, body: bytes) -> web.Response:
            await gate.wait()
            return web.Response()

        upstream.http_answer = answer
        spec = build_spec(build_group(max_in_flight=1, max_queued=0), gateway=build_gateway())
        async with (
            run_gateway(spec, build_state([upstream.endpoint])) as gateway,
            open_session(spec.gateway.http_port) as session,
        ):
            first = asyncio.ensure_future(session.get("/v2/models/m"))
            await wait_until(lambda: len(upstream.received) == 1)
            waiting = asyncio.ensure_future(session.get("/v2/models/m"))
            await wait_until_answer(lambda: gateway.read_stat(_PENDING), 1)
            async with session.get("/v2/models/m") as reply:
                assert (reply.status, reply.headers["retry-after"]) == (429, "1")
                assert await reply.json() == {"error": "too many requests wait for a server"}
            gate.set()
            assert [(await each).status for each in (first, waiting)] == [200, 200]


async def test_queue_grows_with_the_servers_and_keeps_what_waits():
    async with run_upstream("main-0") as first, run_upstream("main-1") as second:
        spec = build_spec(build_group(max_in_flight=1, max_queued=4), gateway=build_gateway())
        async with (
            run_gateway(spec, build_state([first.endpoint])) as gateway,
            open_channel(spec.gateway.grpc_port) as channel,
        ):
            await call(channel)
            first.grpc_gate.clear()
            waiting = [asyncio.ensure_future(try_call(channel)) for _ in range(4)]
            await wait_until_answer(lambda: gateway.read_stat(_PENDING), 3)
            gateway.apply(spec, build_state([first.endpoint, second.endpoint]))
            await gateway.wait_for_endpoints()
            first.grpc_gate.set()
            assert {status for status, _ in await asyncio.gather(*waiting)} == {grpc.StatusCode.OK}
