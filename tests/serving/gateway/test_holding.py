"""Requests of groups without a server are held, and only those."""

import asyncio

import grpc
import pytest

from kilonova.api.serving import Route, RouteBackend
from kilonova.serving.controlplane.holds.answer import HoldOutcome, build_check_answer
from kilonova.serving.gateway.config.listener.local_replies import HOLD_FAILED_MESSAGE
from kilonova.serving.gateway.control_plane_calls import TOKEN_HEADER, derive_call_token
from kilonova.serving.gateway.model import ControlPlaneAddress
from tests.serving.gateway.support.clients import build_infer, call, open_channel, open_session
from tests.serving.gateway.support.control_plane import run_control_plane
from tests.serving.gateway.support.envoy_gateway import run_gateway
from tests.serving.gateway.support.services import (
    TOKEN,
    build_gateway,
    build_group,
    build_spec,
    build_state,
)
from tests.serving.gateway.support.upstreams import run_upstream
from tests.serving.gateway.support.waiting import wait_until


async def test_request_is_held_until_the_first_server_is_ready():
    async with run_control_plane() as control_plane, run_upstream() as upstream:
        spec = build_spec(gateway=build_gateway())
        idle = build_state(control_plane=control_plane.address, starting=frozenset({"main"}))
        async with (
            run_gateway(spec, idle) as gateway,
            open_channel(spec.gateway.grpc_port) as channel,
            open_session(spec.gateway.http_port) as session,
        ):
            over_grpc = asyncio.ensure_future(call(channel, message=build_infer("m", 2_000_000)))
            over_http = asyncio.ensure_future(session.post("/v2/models/m/infer", data=b"{}"))
            await wait_until(lambda: len(control_plane.checks) == 2)
            assert control_plane.checks == [{"group": "main"}] * 2
            assert control_plane.metadata[TOKEN_HEADER] == derive_call_token(TOKEN)
            assert control_plane.metadata["x-kilonova-service"] == "default/web"
            assert await gateway.read_stat("cluster.hold/main.upstream_rq_active") == 2

            ready = build_state([upstream.endpoint], control_plane=control_plane.address)
            gateway.apply(spec, ready)
            await gateway.wait_for_endpoints()
            control_plane.release()
            assert await over_grpc == b"main-0"
            assert await (await over_http).read() == b"main-0"

            await gateway.wait_for_routes()
            await call(channel, message=build_infer("m"))
            assert len(control_plane.checks) == 2, "with a server nobody is asked"


@pytest.mark.parametrize(
    ("outcome", "status", "code"),
    [
        (HoldOutcome.TIMEOUT, 503, grpc.StatusCode.UNAVAILABLE),
        (HoldOutcome.FULL, 429, grpc.StatusCode.RESOURCE_EXHAUSTED),
    ],
)
async def test_hold_that_fails_says_when_to_try_again(outcome, status, code):
    async with run_control_plane() as control_plane:
        control_plane.release(build_check_answer(outcome, "main", 3))
        spec = build_spec(gateway=build_gateway())
        idle = build_state(control_plane=control_plane.address, starting=frozenset({"main"}))
        async with (
            run_gateway(spec, idle),
            open_channel(spec.gateway.grpc_port) as channel,
            open_session(spec.gateway.http_port) as session,
        ):
            async with session.get("/v2/models/m") as reply:
                assert (reply.status, reply.headers["retry-after"]) == (status, "3")
                assert "main" in (await reply.json())["error"]
            with pytest.raises(grpc.aio.AioRpcError) as refusal:
                await call(channel)
            assert refusal.value.code() is code
            assert "main" in (refusal.value.details() or "")
            assert dict(refusal.value.trailing_metadata() or ())["grpc-retry-pushback-ms"] == "3000"


async def test_hold_without_a_control_plane_says_so_and_when_to_try_again():
    # One that answers nothing at once; one that is away is asked again for some time before.
    server = grpc.aio.server()
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        spec = build_spec(gateway=build_gateway())
        idle = build_state(
            control_plane=ControlPlaneAddress("127.0.0.1", port), starting=frozenset({"main"})
        )
        async with (
            run_gateway(spec, idle),
            open_channel(spec.gateway.grpc_port) as channel,
            open_session(spec.gateway.http_port) as session,
        ):
            async with session.get("/v2/models/m") as reply:
                assert (reply.status, await reply.json()) == (503, {"error": HOLD_FAILED_MESSAGE})
                assert reply.headers["retry-after"] == "1"
            with pytest.raises(grpc.aio.AioRpcError) as failed:
                await call(channel, message=build_infer("m"))
            assert failed.value.code() is grpc.StatusCode.UNAVAILABLE
            assert failed.value.details() == HOLD_FAILED_MESSAGE
    finally:
        await server.stop(None)


async def test_group_without_a_server_that_is_not_starting_is_unavailable():
    spec = build_spec(gateway=build_gateway())
    async with (
        run_gateway(spec, build_state()),
        open_channel(spec.gateway.grpc_port) as channel,
        open_session(spec.gateway.http_port) as session,
    ):
        async with session.get("/v2/models/m") as reply:
            assert reply.status == 503
            assert reply.headers["retry-after"] == "5"
            assert await reply.json() == {
                "error": "no server of main is ready, and none is about to be"
            }
        with pytest.raises(grpc.aio.AioRpcError) as refusal:
            await call(channel)
        assert refusal.value.code() is grpc.StatusCode.UNAVAILABLE
        assert refusal.value.details() == "no server of main is ready, and none is about to be"


async def test_only_the_share_of_a_canary_without_a_server_is_held():
    async with run_control_plane() as control_plane, run_upstream() as upstream:
        spec = build_spec(
            build_group(),
            build_group("canary"),
            routes=(Route(backends=(RouteBackend("main", 1), RouteBackend("canary", 1))),),
            gateway=build_gateway(),
        )
        state = build_state(
            [upstream.endpoint],
            control_plane=control_plane.address,
            starting=frozenset({"canary"}),
        )
        async with run_gateway(spec, state), open_channel(spec.gateway.grpc_port) as channel:
            calls = [asyncio.ensure_future(call(channel)) for _ in range(60)]
            await wait_until(lambda: len(control_plane.checks) + len(upstream.received) == 60)
            assert 5 < len(upstream.received) < 55
            assert {each["group"] for each in control_plane.checks} == {"canary"}
            for each in calls:
                each.cancel()
            await asyncio.gather(*calls, return_exceptions=True)
