"""Ports, protocols, and clients that speak neither well."""

import asyncio

import aiohttp
import grpc
import pytest
from aiohttp import web

from kilonova.api.serving import Gateway
from tests.harness.server_process import find_free_port
from tests.serving.gateway.support.clients import (
    build_infer,
    call,
    open_channel,
    open_session,
    try_call,
)
from tests.serving.gateway.support.envoy_gateway import run_gateway
from tests.serving.gateway.support.services import (
    GRPC_ONLY,
    HTTP_ONLY,
    build_gateway,
    build_group,
    build_spec,
    build_state,
)
from tests.serving.gateway.support.upstreams import run_upstream


async def test_both_protocols_are_served_at_one_port():
    port = find_free_port()
    async with run_upstream() as upstream:
        spec = build_spec(gateway=Gateway(http_port=port, grpc_port=port))
        async with (
            run_gateway(spec, build_state([upstream.endpoint])),
            open_channel(port) as channel,
            open_session(port) as session,
        ):
            assert await call(channel) == b"main-0"
            async with session.get("/v2/models/m") as reply:
                assert (reply.status, reply.version) == (200, aiohttp.HttpVersion11)


async def test_listener_takes_connections_at_the_address_of_the_service():
    async with run_upstream() as upstream:
        spec = build_spec(gateway=build_gateway())
        state = build_state([upstream.endpoint], listen_addresses=("127.96.0.7",))
        async with run_gateway(spec, state):
            target = f"127.96.0.7:{spec.gateway.grpc_port}"
            async with grpc.aio.insecure_channel(target) as channel:
                assert await channel.unary_unary("/a.B/C")(b"") == b"main-0"


async def test_unknown_path_at_the_grpc_port_is_not_found():
    async with run_upstream() as upstream:
        for ports in (None, GRPC_ONLY):
            group = build_group() if ports is None else build_group(ports=ports)
            spec = build_spec(group, gateway=build_gateway())
            async with (
                run_gateway(spec, build_state([upstream.endpoint])),
                open_session(spec.gateway.grpc_port) as session,
            ):
                async with session.get("/unknown") as reply:
                    assert reply.status == 404
                async with session.get("/unknown/health", allow_redirects=False) as reply:
                    assert reply.status == 404


async def test_protocol_that_no_server_speaks_is_refused():
    async with run_upstream() as upstream:
        spec = build_spec(build_group(ports=HTTP_ONLY), gateway=build_gateway())
        async with (
            run_gateway(spec, build_state([upstream.endpoint])),
            open_channel(spec.gateway.grpc_port) as channel,
        ):
            assert await try_call(channel) == (
                grpc.StatusCode.UNIMPLEMENTED,
                "no server of main speaks gRPC",
            )


async def test_timeout_of_a_route_ends_a_request():
    async with run_upstream() as upstream:
        upstream.grpc_gate.clear()
        spec = build_spec(gateway=build_gateway(timeout="200ms"))
        async with (
            run_gateway(spec, build_state([upstream.endpoint])),
            open_channel(spec.gateway.grpc_port) as channel,
        ):
            assert (await try_call(channel))[0] is grpc.StatusCode.DEADLINE_EXCEEDED


async def test_answer_streams_as_it_is_written():
    async with run_upstream() as upstream:
        gate = asyncio.Event()

        async def answer(request: web.Request, body: bytes) -> web.StreamResponse:
            response = web.StreamResponse(headers={"content-type": "text/event-stream"})
            await response.prepare(request)
            await response.write(b"data: first\n\n")
            await gate.wait()
            await response.write(b"data: second\n\n")
            return response

        upstream.http_answer = answer
        spec = build_spec(build_group(protocol="OpenAI"), gateway=build_gateway())
        async with (
            run_gateway(spec, build_state([upstream.endpoint])),
            open_session(spec.gateway.http_port) as session,
            session.post("/v1/completions", json={}) as reply,
        ):
            assert await reply.content.readuntil(b"\n\n") == b"data: first\n\n"
            gate.set()
            assert await reply.content.readuntil(b"\n\n") == b"data: second\n\n"


@pytest.mark.parametrize(
    "junk",
    [
        b"\x00\x01\x02\x03 nonsense\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n",
        b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        b"GET / HTTP/1.1\r\nhost: x\r\n" + b"a: " + b"b" * 200_000 + b"\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff\xff\xff\xff\xff\xff\xff\xff\xff",
    ],
    ids=["bytes", "version", "smuggling", "chunk", "headers", "http2"],
)
async def test_malformed_request_ends_its_connection_alone(junk):
    async with run_upstream() as upstream:
        spec = build_spec(gateway=build_gateway())
        async with (
            run_gateway(spec, build_state([upstream.endpoint])) as gateway,
            open_channel(spec.gateway.grpc_port) as channel,
        ):
            reader, writer = await asyncio.open_connection("127.0.0.1", spec.gateway.http_port)
            writer.write(junk)
            first = await asyncio.wait_for(reader.read(100), 20)
            assert not first.startswith(b"HTTP/1.1 2")
            writer.close()
            assert await call(channel, message=build_infer("m")) == b"main-0"
            assert gateway.process.is_running()
            assert len(upstream.received) == 1


async def test_slow_client_costs_others_nothing():
    async with run_upstream() as upstream:
        spec = build_spec(gateway=build_gateway())
        async with (
            run_gateway(spec, build_state([upstream.endpoint])),
            open_channel(spec.gateway.grpc_port) as channel,
        ):
            reader, writer = await asyncio.open_connection("127.0.0.1", spec.gateway.http_port)
            head = b"POST /v2/models/m/infer HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\n"
            for part in (head[:20], head[20:], b"01234"):
                writer.write(part)
                await writer.drain()
                assert await call(channel) == b"main-0"
            writer.write(b"56789")
            assert (await reader.readline()).startswith(b"HTTP/1.1 200")
            writer.close()


async def test_clients_do_not_command_envoy_by_headers():
    async with run_upstream() as upstream:

        async def answer(request: web.Request, body: bytes) -> web.StreamResponse:
            await asyncio.sleep(0.1)
            return web.Response(text="late")

        upstream.http_answer = answer
        spec = build_spec(gateway=build_gateway())
        headers = {"x-envoy-upstream-rq-timeout-ms": "1", "x-request-id": "mine"}
        async with (
            run_gateway(spec, build_state([upstream.endpoint])),
            open_session(spec.gateway.http_port) as session,
            session.get("/v2/models/m", headers=headers) as reply,
        ):
            assert await reply.text() == "late"
            received = {name.lower(): value for name, value in upstream.received[0].headers.items()}
            assert received["x-request-id"] == "mine"
            assert "x-envoy-upstream-rq-timeout-ms" not in received
