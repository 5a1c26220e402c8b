"""Limits of connections, clients and sizes."""

import asyncio
import contextlib
import hashlib
from collections.abc import AsyncGenerator

import aiohttp
import grpc
import pytest
from aiohttp import web

from kilonova.api.serving import (
    ApiKeys,
    Auth,
    ClientLimit,
    ConnectionRate,
    InferenceServiceSpec,
    Limits,
    RateLimit,
)
from kilonova.serving.gateway.config import render_gateway
from kilonova.serving.gateway.model import GatewaySecrets
from tests.serving.gateway.support.clients import (
    build_infer,
    call,
    open_channel,
    open_session,
    try_call,
)
from tests.serving.gateway.support.envoy_gateway import KEY, EnvoyGateway, run_gateway
from tests.serving.gateway.support.services import (
    build_gateway,
    build_group,
    build_spec,
    build_state,
)
from tests.serving.gateway.support.upstreams import Upstream, run_upstream
from tests.serving.gateway.support.waiting import wait_until_answer

PATH = "/v2/models/m"
EXHAUSTED = (grpc.StatusCode.RESOURCE_EXHAUSTED, "the limit of this client is reached")
SECRETS = GatewaySecrets(
    api_keys=tuple((each, hashlib.sha256(each.encode()).hexdigest()) for each in ("a", "b", "vip"))
)
AUTH = Auth(api_keys=ApiKeys(secret="keys"))


@contextlib.asynccontextmanager
async def run_limited(
    limits: Limits, *, auth: Auth | None = None, protocol: str = "V2"
) -> AsyncGenerator[tuple[InferenceServiceSpec, Upstream, EnvoyGateway]]:
    """A gateway with limits before one server."""
    async with run_upstream() as upstream:
        group = build_group(protocol=protocol)
        spec = build_spec(group, limits=limits, auth=auth, gateway=build_gateway())
        async with run_gateway(spec, build_state([upstream.endpoint], secrets=SECRETS)) as gateway:
            yield spec, upstream, gateway


async def connect(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection that has asked once."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {PATH} HTTP/1.1\r\nhost: x\r\n\r\n".encode())
    return reader, writer


async def is_served(port: int) -> bool:
    reader, writer = await connect(port)
    try:
        return (await reader.readline()).startswith(b"HTTP/1.1 200")
    except ConnectionError:
        return False
    finally:
        writer.close()


async def test_connections_are_limited_at_the_same_time_and_not_for_ever():
    async with run_limited(Limits(connections=3)) as (spec, _, gateway):
        ports = (spec.gateway.http_port, spec.gateway.grpc_port)
        for _ in range(8):
            assert await is_served(ports[0]), "one after the other, as many as you like"
        active = "http.ingress_grpc.downstream_cx_active"
        await wait_until_answer(lambda: gateway.read_stat(active), 0)
        opened = [await connect(ports[i % 2]) for i in range(3)]
        for reader, _ in opened:
            assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        assert not await is_served(ports[0]), "both ports count together"
        assert not await is_served(ports[1])
        opened[0][1].close()
        await wait_until_answer(lambda: is_served(ports[1]), True)
        for _, writer in opened[1:]:
            writer.close()


async def test_rate_of_connections_is_limited():
    rate = ConnectionRate(burst=5, per_fill=1, fill_interval="12s")
    async with run_limited(Limits(connection_rate=rate)) as (spec, _, _):
        served = [await is_served(spec.gateway.grpc_port) for _ in range(8)]
        assert served == [True] * 5 + [False] * 3


async def test_requests_of_each_client_are_limited():
    limits = Limits(
        requests=RateLimit(per_minute=6, burst=2),
        clients=(ClientLimit(client="vip", requests=RateLimit(per_minute=60, burst=5)),),
    )
    async with (
        run_limited(limits, auth=AUTH) as (spec, upstream, _),
        open_channel(spec.gateway.grpc_port) as channel,
        open_session(spec.gateway.http_port) as session,
    ):

        async def count_served(client: str) -> int:
            answers = [await try_call(channel, metadata=[("x-api-key", client)]) for _ in range(8)]
            served = answers.count((grpc.StatusCode.OK, "main-0"))
            assert answers[served:] == [EXHAUSTED] * (8 - served)
            return served

        assert await count_served("a") == 2
        assert await count_served("b") == 2
        assert await count_served("vip") == 5
        assert len(upstream.received) == 9
        async with session.get(PATH, headers={"x-api-key": "a"}) as reply:
            assert (reply.status, reply.headers["retry-after"]) == (429, "10")
            assert await reply.json() == {"error": "the limit of this client is reached"}
        with pytest.raises(grpc.aio.AioRpcError) as refusal:
            await call(channel, metadata=[("x-api-key", "a")])
        assert dict(refusal.value.trailing_metadata() or ())["grpc-retry-pushback-ms"] == "10000"
        async with session.get(PATH) as reply:
            assert reply.status == 401, "who is anonymous takes nothing from anybody"


async def test_bucket_of_a_client_fills_again():
    limits = Limits(requests=RateLimit(per_minute=600, burst=1))
    async with (
        run_limited(limits) as (spec, _, _),
        open_channel(spec.gateway.grpc_port) as channel,
    ):
        assert (await try_call(channel))[0] is grpc.StatusCode.OK
        await wait_until_answer(lambda: try_call(channel), EXHAUSTED)
        await wait_until_answer(lambda: try_call(channel), (grpc.StatusCode.OK, "main-0"))


async def test_without_names_a_client_is_an_address():
    limits = Limits(requests=RateLimit(per_minute=1, burst=2))
    async with run_limited(limits) as (spec, _, _):
        statuses: dict[str, list[int]] = {}
        for address in ("127.0.0.1", "127.0.0.2"):
            connector = aiohttp.TCPConnector(local_addr=(address, 0))
            async with aiohttp.ClientSession(connector=connector) as session:
                for spoofed in ("1.1.1.1", "2.2.2.2", "3.3.3.3"):
                    url = f"http://127.0.0.1:{spec.gateway.http_port}{PATH}"
                    headers = {"x-forwarded-for": spoofed, "x-kilonova-client": spoofed}
                    async with session.get(url, headers=headers) as reply:
                        statuses.setdefault(address, []).append(reply.status)
        assert statuses == {"127.0.0.1": [200, 200, 429], "127.0.0.2": [200, 200, 429]}


def test_gateways_share_the_limits_of_clients():
    limits = Limits(requests=RateLimit(per_minute=100, burst=10), connections=9)
    listener = render_gateway(KEY, build_spec(limits=limits), build_state(gateways=4)).listeners[
        "gateway"
    ]
    filters = listener["filter_chains"][0]["filters"]
    assert filters[0]["typed_config"]["max_connections"] == 3
    limiter = filters[1]["typed_config"]["http_filters"][0]["typed_config"]
    assert limiter["descriptors"][0]["token_bucket"] == {
        "max_tokens": 3,
        "tokens_per_fill": 25,
        "fill_interval": "60s",
    }


async def test_tokens_of_answers_are_limited():
    async def answer(request: web.Request, body: bytes) -> web.StreamResponse:
        usage = {"prompt_tokens": 10, "completion_tokens": 30, "total_tokens": 40}
        return web.json_response({"choices": [{"text": '"total_tokens": 9'}], "usage": usage})

    limits = Limits(tokens=RateLimit(per_minute=1, burst=100))
    async with run_limited(limits, protocol="OpenAI") as (spec, upstream, gateway):
        upstream.http_answer = answer
        async with open_session(spec.gateway.http_port) as session:

            async def ask() -> int:
                async with session.post("/v1/completions", json={"prompt": "x"}) as reply:
                    await reply.read()
                    return reply.status

            # Each takes what the one before it cost: 1, 40, 40, and 40 of the 19 that are left.
            assert [await ask() for _ in range(5)] == [200, 200, 200, 429, 429], gateway.read_log()
            assert len(upstream.received) == 3
            async with session.get("/v1/models") as reply:
                assert reply.status == 200, "only what costs tokens is limited"


async def test_tokens_of_streams_are_limited_with_and_without_usage():
    async def answer(request: web.Request, body: bytes) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        for _ in range(50):
            await response.write(b'data: {"choices": [{"text": "a"}]}\n\n')
        if b"usage" in body:
            await response.write(b'data: {"usage": {"total_tok')
            await asyncio.sleep(0.01)
            await response.write(b'ens": 1000}}\n\n')
        await response.write(b"data: [DONE]\n\n")
        return response

    limits = Limits(
        tokens=RateLimit(per_minute=1, burst=120),
        clients=(ClientLimit(client="vip", tokens=RateLimit(per_minute=1, burst=1500)),),
    )
    async with run_limited(limits, auth=AUTH, protocol="OpenAI") as (spec, upstream, gateway):
        upstream.http_answer = answer
        async with open_session(spec.gateway.http_port) as session:

            async def ask(client: str, prompt: str) -> int:
                headers = {"x-api-key": client}
                body = {"prompt": prompt}
                async with session.post("/v1/completions", json=body, headers=headers) as reply:
                    await reply.read()
                    return reply.status

            # 50 events and a quarter of the bytes, each.
            statuses = [await ask("a", "x") for _ in range(5)]
            assert statuses == [200, 200, 200, 429, 429], gateway.read_log()
            assert [await ask("vip", "usage") for _ in range(4)] == [200, 200, 429, 429]


async def test_request_that_fails_costs_no_tokens():
    async def answer(request: web.Request, body: bytes) -> web.StreamResponse:
        return web.json_response({"error": "no"}, status=500)

    limits = Limits(tokens=RateLimit(per_minute=1, burst=100))
    async with run_limited(limits, protocol="OpenAI") as (spec, upstream, _):
        upstream.http_answer = answer
        async with open_session(spec.gateway.http_port) as session:
            for _ in range(5):
                async with session.post("/v1/completions", data=b"x" * 1000) as reply:
                    assert reply.status == 500


@pytest.mark.parametrize("chunked", [False, True])
async def test_body_above_the_limit_is_refused(chunked):
    async with (
        run_limited(Limits(max_body_bytes=100_000)) as (spec, upstream, _),
        open_session(spec.gateway.http_port) as session,
        open_channel(spec.gateway.grpc_port) as channel,
    ):

        async def produce():
            for _ in range(11):
                yield bytes(10_000)

        body = produce() if chunked else bytes(110_000)
        async with session.post(PATH, data=body) as reply:
            assert reply.status == 413
            assert await reply.json() == {"error": "the request is larger than the gateway takes"}
        assert await try_call(channel, message=build_infer("m", 110_000)) == (
            grpc.StatusCode.RESOURCE_EXHAUSTED,
            "the request is larger than the gateway takes",
        )
        assert await try_call(channel, message=build_infer("m", 90_000)) == (
            grpc.StatusCode.OK,
            "main-0",
        )
        assert len(upstream.received) == 1


async def test_body_of_200_megabytes_streams_through():
    size = 200_000_000
    async with (
        run_limited(Limits()) as (spec, upstream, gateway),
        open_session(spec.gateway.http_port) as session,
    ):

        async def answer(request: web.Request, body: bytes) -> web.StreamResponse:
            return web.Response(text=str(len(body)))

        upstream.http_answer = answer

        async def produce():
            for _ in range(size // 1_000_000):
                yield bytes(1_000_000)

        async with session.post(PATH, data=produce()) as reply:
            assert await reply.text() == str(size)
        upstream.received.clear()
        assert await gateway.read_stat("server.memory_allocated") < 40_000_000
