"""Small servers behind a gateway, in the event loop of the test."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, field

import grpc
import grpc.aio
from aiohttp import web

from kilonova.serving.gateway.model import Endpoint
from tests.harness.server_process import find_free_port
from tests.serving.gateway.support.services import build_endpoint

HEALTH_PATHS = ("/v2/health/ready", "/health")

HttpAnswer = Callable[[web.Request, bytes], Awaitable[web.StreamResponse]]


@dataclass
class ReceivedRequest:
    """What a server got."""

    path: str
    headers: dict[str, str]
    body: bytes = b""


@dataclass
class Upstream:
    """A server with both ports. It answers with its name."""

    name: str
    http_port: int
    grpc_port: int
    received: list[ReceivedRequest] = field(default_factory=list)
    http_answer: HttpAnswer | None = None
    """Instead of its name."""
    grpc_gate: asyncio.Event = field(default_factory=asyncio.Event)
    """Set, unless calls of gRPC are to wait."""
    is_healthy: bool = True
    in_flight: int = 0
    most_in_flight: int = 0

    @property
    def endpoint(self) -> Endpoint:
        return self.build_endpoint()

    def build_endpoint(self, **fields: object) -> Endpoint:
        """The endpoint by which a gateway knows it."""
        return build_endpoint(
            self.name,
            address="127.0.0.1",
            http_port=self.http_port,
            grpc_port=self.grpc_port,
            **fields,
        )

    def get_paths(self) -> list[str]:
        """The paths of the requests that it got."""
        return [each.path for each in self.received]


@contextlib.asynccontextmanager
async def run_upstream(name: str = "main-0") -> AsyncGenerator[Upstream]:
    """A server that answers any request with its name, over HTTP and gRPC."""
    upstream = Upstream(name, find_free_port(), find_free_port())
    upstream.grpc_gate.set()
    application = web.Application(client_max_size=1 << 30)

    async def answer(request: web.Request) -> web.StreamResponse:
        return await _answer(upstream, request)

    application.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", upstream.http_port).start()
    server = grpc.aio.server(
        options=[("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
    )
    server.add_generic_rpc_handlers((_GenericHandler(upstream),))
    server.add_insecure_port(f"127.0.0.1:{upstream.grpc_port}")
    await server.start()
    try:
        yield upstream
    finally:
        upstream.grpc_gate.set()
        await server.stop(None)
        await runner.cleanup()


async def _answer(upstream: Upstream, request: web.Request) -> web.StreamResponse:
    if request.path in HEALTH_PATHS:
        return web.Response(status=200 if upstream.is_healthy else 503)
    body = await request.read()
    upstream.received.append(ReceivedRequest(request.path_qs, dict(request.headers), body))
    if upstream.http_answer is not None:
        return await upstream.http_answer(request, body)
    if request.path.startswith("/unknown"):
        return web.Response(status=404)
    return web.Response(text=upstream.name)


class _GenericHandler(grpc.GenericRpcHandler):
    """Answers calls of any method: those of streams message by message."""

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        method = handler_call_details.method
        metadata = {n: str(v) for n, v in handler_call_details.invocation_metadata or ()}
        upstream = self._upstream

        async def answer(request: bytes, context: grpc.aio.ServicerContext) -> bytes:
            upstream.received.append(ReceivedRequest(method, metadata, request))
            upstream.in_flight += 1
            upstream.most_in_flight = max(upstream.most_in_flight, upstream.in_flight)
            try:
                await upstream.grpc_gate.wait()
            finally:
                upstream.in_flight -= 1
            return upstream.name.encode()

        async def answer_stream(requests, context):
            async for request in requests:
                yield await answer(request, context)

        if method.endswith("StreamInfer"):
            return grpc.stream_stream_rpc_method_handler(answer_stream)
        return grpc.unary_unary_rpc_method_handler(answer)
