"""Servers that fail, or say that they are not healthy, get no further requests."""

import contextlib
from collections.abc import AsyncGenerator
from dataclasses import dataclass

import grpc
import grpc.aio
from aiohttp import web

from kilonova.api.serving import HealthCheck, LoadBalancing, OutlierDetection, Retries
from kilonova.serving.gateway.model import Endpoint
from tests.serving.gateway.support.clients import call, open_channel, open_session
from tests.serving.gateway.support.envoy_gateway import run_gateway
from tests.serving.gateway.support.services import (
    GRPC_ONLY,
    build_endpoint,
    build_gateway,
    build_group,
    build_spec,
    build_state,
)
from tests.serving.gateway.support.upstreams import run_upstream
from tests.serving.gateway.support.waiting import wait_until_answer

ROUND_ROBIN = LoadBalancing(policy="RoundRobin")
EJECTIONS = "cluster.server/main.outlier_detection.ejections_enforced_total"
SERVING, NOT_SERVING = b"\x08\x01", b"\x08\x02"
"""Answers of `grpc.health.v1.Health/Check`."""


async def test_server_that_fails_three_times_in_a_row_is_left_out():
    async with run_upstream("main-0") as good, run_upstream("main-1") as bad:
        status = 503

        async def fail(request: web.Request, body: bytes) -> web.StreamResponse:
            return web.Response(status=status)

        bad.http_answer = fail
        detection = OutlierDetection(interval="20ms", base_ejection_time="1h")
        gateway_spec = build_gateway(
            outlier_detection=detection,
            retries=Retries(attempts=0),
            # By turns, and left out by detection alone.
            load_balancing=ROUND_ROBIN,
            health_check=HealthCheck(disabled=True),
        )
        spec = build_spec(gateway=gateway_spec)
        async with (
            run_gateway(spec, build_state([good.endpoint, bad.endpoint])) as gateway,
            open_session(spec.gateway.http_port) as session,
        ):

            async def ask() -> int:
                async with session.get("/v2/models/m") as reply:
                    return reply.status

            # A model may well answer with an error 500.
            status = 500
            assert {await ask() for _ in range(20)} == {200, 500}
            assert await gateway.read_stat(EJECTIONS) == 0
            status = 503
            assert 503 in [await ask() for _ in range(8)]
            await wait_until_answer(lambda: gateway.read_stat(EJECTIONS), 1)
            seen = len(bad.received)
            assert [await ask() for _ in range(20)] == [200] * 20
            assert len(bad.received) == seen


async def test_server_without_http_is_asked_for_its_health_over_grpc():
    async with run_grpc_server("main-0") as first, run_grpc_server("main-1") as second:
        check = HealthCheck(interval="20ms", unhealthy_threshold=1)
        gateway_spec = build_gateway(health_check=check, load_balancing=ROUND_ROBIN)
        spec = build_spec(build_group(ports=GRPC_ONLY), gateway=gateway_spec)
        async with (
            run_gateway(spec, build_state([first.endpoint, second.endpoint])),
            open_channel(spec.gateway.grpc_port) as channel,
        ):

            async def list_servers() -> set[bytes]:
                return {await call(channel) for _ in range(4)}

            await wait_until_answer(list_servers, {b"main-0", b"main-1"})
            second.health = NOT_SERVING
            await wait_until_answer(list_servers, {b"main-0"})
            second.health = SERVING
            await wait_until_answer(list_servers, {b"main-0", b"main-1"})


@dataclass
class GrpcServer:
    """A server that speaks gRPC alone."""

    endpoint: Endpoint
    health: bytes = SERVING


@contextlib.asynccontextmanager
async def run_grpc_server(name: str) -> AsyncGenerator[GrpcServer]:
    """A server that answers with its name, or with its health."""
    server = grpc.aio.server()
    port = server.add_insecure_port("127.0.0.1:0")
    endpoint = build_endpoint(name, address="127.0.0.1", http_port=0, grpc_port=port)
    found = GrpcServer(endpoint)

    class Handler(grpc.GenericRpcHandler):
        def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
            is_check = handler_call_details.method == "/grpc.health.v1.Health/Check"

            async def answer(request: bytes, context: grpc.aio.ServicerContext) -> bytes:
                return found.health if is_check else name.encode()

            return grpc.unary_unary_rpc_method_handler(answer)

    server.add_generic_rpc_handlers((Handler(),))
    await server.start()
    try:
        yield found
    finally:
        await server.stop(None)
