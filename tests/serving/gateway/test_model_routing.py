"""Requests go to the group of their model, by whichever protocol names it."""

import asyncio
import json
from urllib.parse import quote

import grpc
import pytest
from yarl import URL

from kilonova.api.serving import (
    HeaderMatch,
    Model,
    ModelPlacement,
    Route,
    RouteBackend,
)
from kilonova.serving.gateway.config import render_gateway
from kilonova.serving.gateway.model import GatewayState
from tests.serving.gateway.support.clients import (
    SERVICE,
    build_infer,
    call,
    open_channel,
    open_session,
    try_call,
)
from tests.serving.gateway.support.control_plane import run_control_plane
from tests.serving.gateway.support.envoy_gateway import KEY, run_gateway
from tests.serving.gateway.support.services import (
    build_gateway,
    build_group,
    build_spec,
    build_state,
)
from tests.serving.gateway.support.upstreams import run_upstream
from tests.serving.gateway.support.waiting import wait_until, wait_until_answer


def build_two_groups(**fields):
    return build_spec(
        build_group("first"),
        build_group("second"),
        routes=(Route(backends=(RouteBackend("second"),), models=("resnet", "bert/v2")),),
        gateway=build_gateway(**fields),
    )


async def test_model_of_each_protocol_chooses_the_group():
    async with run_upstream("first-0") as first, run_upstream("second-0") as second:
        spec = build_two_groups()
        state = build_state({"first": (first.endpoint,), "second": (second.endpoint,)})
        async with (
            run_gateway(spec, state),
            open_channel(spec.gateway.grpc_port) as channel,
            open_session(spec.gateway.http_port) as session,
        ):

            async def post(path: str, body: object) -> str:
                async with session.post(path, json=body) as reply:
                    return await reply.text()

            assert await call(channel, message=build_infer("resnet")) == b"second-0"
            assert await call(channel, message=build_infer("other")) == b"first-0"
            assert await call(channel, "ModelMetadata", b"\n\x06resnet") == b"second-0"
            assert await post("/v2/models/resnet/infer", {}) == "second-0"
            assert await post("/v2/models/resnet50/infer", {}) == "first-0"
            assert await post("/v2/models/bert%2Fv2/infer", {}) == "second-0"
            assert await post("/v1/chat/completions", {"model": "resnet"}) == "second-0"
            assert await post("/v1/chat/completions", {"model": "no"}) == "first-0"
            assert await post("/v1/chat/completions", {"model": "bert/v2"}) == "second-0"
            assert await post("/v1/chat/completions", ["no object"]) == "first-0"
            hidden = {
                "metadata": {"model": "resnet", "list": [{"model": "resnet"}, '"model": "resnet"']},
                "messages": [{"role": "user", "content": '{"model": "resnet", \\'}],
                "model": "other",
            }
            assert await post("/v1/chat/completions", hidden) == "first-0"
            assert await post("/v1/chat/completions", hidden | {"model": "resnet"}) == "second-0"
            assert json.loads(second.received[-1].body) == hidden | {"model": "resnet"}


async def test_clients_cannot_name_the_model_in_our_header():
    async with run_upstream("first-0") as first, run_upstream("second-0") as second:
        spec = build_two_groups()
        state = build_state({"first": (first.endpoint,), "second": (second.endpoint,)})
        async with run_gateway(spec, state), open_session(spec.gateway.http_port) as session:
            async with session.get("/v2", headers={"x-kilonova-model": "resnet"}) as reply:
                assert await reply.text() == "first-0"
            assert "x-kilonova-model" not in {name.lower() for name in first.received[-1].headers}


async def test_messages_of_a_stream_are_sent_on_one_by_one():
    async with run_upstream("first-0") as first, run_upstream("second-0") as second:
        spec = build_two_groups()
        state = build_state({"first": (first.endpoint,), "second": (second.endpoint,)})
        async with run_gateway(spec, state), open_channel(spec.gateway.grpc_port) as channel:
            stream = channel.stream_stream(f"{SERVICE}/ModelStreamInfer")(timeout=20)
            for _ in range(3):
                await stream.write(build_infer("resnet"))
                assert await stream.read() == b"second-0"
            await stream.done_writing()
            assert await stream.read() is grpc.aio.EOF


@pytest.mark.parametrize(
    "names",
    [
        [f"model-{number:03d}-{'x' * 240}" for number in range(256)],
        ["café", "模型/x", "\U0001f600", 'a"b\\u00e9', "\U0001f600" * 253],
    ],
    ids=["as many and long as allowed", "not ASCII"],
)
async def test_route_takes_models_of_any_name(names):
    async with run_upstream("first-0") as first, run_upstream("second-0") as second:
        route = Route(backends=(RouteBackend("second"),), models=tuple(names))
        groups = (build_group("first"), build_group("second"))
        spec = build_spec(*groups, routes=(route,), gateway=build_gateway())
        state = build_state({"first": (first.endpoint,), "second": (second.endpoint,)})
        async with (
            run_gateway(spec, state) as gateway,
            open_channel(spec.gateway.grpc_port) as channel,
            open_session(spec.gateway.http_port) as session,
        ):

            async def post(path: str, body: bytes = b"{}") -> str:
                headers = {"content-type": "application/json"}
                url = URL(f"http://127.0.0.1:{spec.gateway.http_port}{path}", encoded=True)
                async with session.post(url, data=body, headers=headers) as reply:
                    return await reply.text()

            for name in (names[0], *names[-4:]):
                answer = await call(channel, message=build_infer(name))
                assert answer == b"second-0", gateway.read_log()
                assert await post(f"/v2/models/{quote(name, safe='')}/infer") == "second-0"
                for as_ascii in (True, False):
                    body = json.dumps({"model": name}, ensure_ascii=as_ascii).encode()
                    assert await post("/v1/chat/completions", body) == "second-0", name
            assert await call(channel, message=build_infer(names[0] + "x")) == b"first-0"


async def test_compressed_message_is_refused_where_its_model_has_to_be_read():
    async with run_upstream("first-0") as first, run_upstream("second-0") as second:
        state = build_state({"first": (first.endpoint,), "second": (second.endpoint,)})
        plain = build_spec(build_group("first"), gateway=build_gateway())
        for spec in (build_two_groups(), plain):
            async with (
                run_gateway(spec, state),
                open_channel(spec.gateway.grpc_port) as channel,
            ):
                infer = channel.unary_unary(f"{SERVICE}/ModelInfer")(
                    build_infer("resnet", 10_000), compression=grpc.Compression.Gzip, timeout=20
                )
                if spec is plain:
                    assert await infer == b"first-0"
                    continue
                with pytest.raises(grpc.aio.AioRpcError) as refusal:
                    await infer
                assert refusal.value.code() is grpc.StatusCode.UNIMPLEMENTED
                assert "send them uncompressed" in (refusal.value.details() or "")
                assert await call(channel, message=build_infer("resnet")) == b"second-0"


async def test_large_message_of_a_model_reaches_its_group():
    async with run_upstream("first-0") as first, run_upstream("second-0") as second:
        spec = build_two_groups()
        state = build_state({"first": (first.endpoint,), "second": (second.endpoint,)})
        async with run_gateway(spec, state), open_channel(spec.gateway.grpc_port) as channel:
            message = build_infer("resnet", size=40_000_000)
            assert await call(channel, message=message) == b"second-0"
            assert second.received[-1].body == message


@pytest.mark.parametrize(
    "message",
    [b"\xff\xff\xff", b"\x0a\x05ab", b"\x08\x01", b""],
    ids=["junk", "cut", "type", "none"],
)
async def test_message_that_is_none_is_an_error_of_the_client(message):
    async with run_upstream("first-0") as first:
        spec = build_two_groups()
        async with (
            run_gateway(spec, build_state({"first": (first.endpoint,)})) as gateway,
            open_channel(spec.gateway.grpc_port) as channel,
        ):
            status, _ = await try_call(channel, message=message)
            assert status in (grpc.StatusCode.OK, grpc.StatusCode.INVALID_ARGUMENT)
            assert await call(channel, message=build_infer("other")) == b"first-0"
            assert gateway.process.is_running()


async def test_headers_choose_the_group():
    async with run_upstream("first-0") as first, run_upstream("second-0") as second:
        spec = build_spec(
            build_group("first"),
            build_group("second"),
            routes=(
                Route(backends=(RouteBackend("second"),), headers=(HeaderMatch("x-team", "a"),)),
                Route(backends=(RouteBackend("second"),), headers=(HeaderMatch("x-beta"),)),
            ),
            gateway=build_gateway(),
        )
        state = build_state({"first": (first.endpoint,), "second": (second.endpoint,)})
        async with run_gateway(spec, state), open_channel(spec.gateway.grpc_port) as channel:
            assert await call(channel, metadata=[("x-team", "a")]) == b"second-0"
            assert await call(channel, metadata=[("x-team", "b")]) == b"first-0"
            assert await call(channel, metadata=[("x-beta", "1")]) == b"second-0"


async def test_weights_split_the_requests():
    async with run_upstream("first-0") as first, run_upstream("second-0") as second:
        backends = (RouteBackend("first", 9), RouteBackend("second", 1))
        spec = build_spec(
            build_group("first"),
            build_group("second"),
            routes=(Route(backends=backends),),
            gateway=build_gateway(),
        )
        both = build_state({"first": (first.endpoint,), "second": (second.endpoint,)})
        async with (
            run_gateway(spec, both) as gateway,
            open_channel(spec.gateway.grpc_port) as channel,
        ):
            await asyncio.gather(*(call(channel) for _ in range(400)))
            assert 10 < len(second.received) < 90
            gateway.apply(spec, build_state({"second": (second.endpoint,)}))

            async def ask_often() -> set[bytes]:
                return set(await asyncio.gather(*(call(channel) for _ in range(20))))

            await wait_until_answer(ask_often, {b"second-0"})


async def test_placed_model_goes_to_a_server_that_has_it():
    async with run_upstream("a") as a, run_upstream("b") as b, run_control_plane() as control_plane:
        models = tuple(Model(name, min_copies=0) for name in ("x", "y", "z"))
        spec = build_spec(
            build_group(model_placement=ModelPlacement(models=models)), gateway=build_gateway()
        )

        def build(*models_of_b: str) -> GatewayState:
            return build_state(
                [
                    a.build_endpoint(models=frozenset({"x"})),
                    b.build_endpoint(models=frozenset(models_of_b)),
                ],
                control_plane=control_plane.address,
            )

        async with (
            run_gateway(spec, build("x", "y")) as gateway,
            open_channel(spec.gateway.grpc_port) as channel,
            open_session(spec.gateway.http_port) as session,
        ):
            for _ in range(10):
                assert await call(channel, message=build_infer("y")) == b"b"
                async with session.get("/v2/models/y") as reply:
                    assert await reply.text() == "b"
            served = await asyncio.gather(
                *(call(channel, message=build_infer("x")) for _ in range(20))
            )
            assert set(served) == {b"a", b"b"}
            unknown = await asyncio.gather(
                *(call(channel, message=build_infer("unknown")) for _ in range(20))
            )
            assert set(unknown) == {b"a", b"b"}, "any server says that it does not know it"

            held = asyncio.ensure_future(call(channel, message=build_infer("z")))
            await wait_until(lambda: bool(control_plane.checks))
            assert control_plane.checks == [{"group": "main", "model": "z"}]
            gateway.apply(spec, build("x", "y", "z"))
            await gateway.wait_for_endpoints()
            await gateway.wait_for_routes()
            control_plane.release()
            assert await held == b"b"
            assert await call(channel, message=build_infer("z")) == b"b"
            assert len(control_plane.checks) == 1


async def test_placed_model_is_waited_for_where_its_group_has_no_server():
    async with run_upstream("a") as a, run_control_plane() as control_plane:
        placement = ModelPlacement(models=(Model("x"),))
        spec = build_spec(build_group(model_placement=placement), gateway=build_gateway())

        def build(*models: str) -> GatewayState:
            endpoint = a.build_endpoint(models=frozenset(models))
            return build_state([endpoint], control_plane=control_plane.address)

        idle = build_state(control_plane=control_plane.address, starting=frozenset({"main"}))
        async with (
            run_gateway(spec, idle) as gateway,
            open_channel(spec.gateway.grpc_port) as channel,
        ):
            held = asyncio.ensure_future(call(channel, message=build_infer("x")))
            other = asyncio.ensure_future(call(channel, message=build_infer("unknown")))
            await wait_until(lambda: len(control_plane.checks) == 2)
            assert {"group": "main", "model": "x"} in control_plane.checks
            assert {"group": "main"} in control_plane.checks
            gateway.apply(spec, build("x"))
            await gateway.wait_for_endpoints()
            await gateway.wait_for_routes()
            control_plane.release()
            assert await asyncio.gather(held, other) == [b"a", b"a"]


async def test_service_without_models_in_its_routes_reads_no_bodies():
    listener = render_gateway(KEY, build_spec(), build_state()).listeners["gateway"]
    assert "lua" not in json.dumps(listener)
    assert "grpc_field_extraction" not in json.dumps(listener)
