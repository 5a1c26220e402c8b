"""A control plane that only holds requests and answers for the service."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from datetime import UTC, datetime

import grpc
import grpc.aio
from aiohttp import web

from kilonova.kube.serving.certificates import CertificateAuthority
from kilonova.serving.controlplane.ads.messages import decode_check, encode_check
from kilonova.serving.controlplane.holds.answer import CheckAnswer
from kilonova.serving.gateway.model import ControlPlaneAddress
from tests.harness.server_process import find_free_port
from tests.serving.gateway.support.upstreams import ReceivedRequest

CHECK = "/envoy.service.auth.v3.Authorization/Check"
ANSWER = b"of the control plane"


@dataclass
class ControlPlaneStub:
    """What it was asked. Checks are answered when `release` is called."""

    address: ControlPlaneAddress
    checks: list[dict[str, str]] = field(default_factory=list)
    """The context extensions of each."""
    answered: list[ReceivedRequest] = field(default_factory=list)
    """Other requests."""
    metadata: dict[str, str] = field(default_factory=dict)
    """Of the last check."""
    answer: CheckAnswer = field(default_factory=CheckAnswer)
    gate: asyncio.Event = field(default_factory=asyncio.Event)

    def release(self, answer: CheckAnswer | None = None) -> None:
        """Answer all checks, from now on."""
        self.answer = answer or CheckAnswer()
        self.gate.set()


@contextlib.asynccontextmanager
async def run_control_plane(
    host: str = "127.0.0.1", *, authority: CertificateAuthority | None = None
) -> AsyncGenerator[ControlPlaneStub]:
    """A control plane at free ports, with TLS if an authority is given."""
    grpc_port, http_port = find_free_port(), find_free_port()
    ca = authority.cert_pem.decode() if authority else ""
    stub = ControlPlaneStub(ControlPlaneAddress(host, grpc_port, ca, http_port))
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((_Handler(stub),))
    context: ssl.SSLContext | None = None
    if authority is None:
        server.add_insecure_port(f"127.0.0.1:{grpc_port}")
    else:
        pair = authority.issue_server([host], datetime.now(UTC))
        credentials = grpc.ssl_server_credentials([(pair.key_pem, pair.cert_pem)])
        server.add_secure_port(f"127.0.0.1:{grpc_port}", credentials)
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        pair.load_into(context)
    await server.start()
    application = web.Application()

    async def answer_http(request: web.Request) -> web.Response:
        received = ReceivedRequest(request.path, dict(request.headers), await request.read())
        stub.answered.append(received)
        return web.Response(body=ANSWER)

    application.router.add_route("*", "/{path:.*}", answer_http)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", http_port, ssl_context=context).start()
    try:
        yield stub
    finally:
        stub.gate.set()
        await server.stop(None)
        await runner.cleanup()


class _Handler(grpc.GenericRpcHandler):
    def __init__(self, stub: ControlPlaneStub) -> None:
        self._stub = stub

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        method = handler_call_details.method
        metadata = {n: str(v) for n, v in handler_call_details.invocation_metadata or ()}
        stub = self._stub

        async def check(request: bytes, context: grpc.aio.ServicerContext) -> bytes:
            stub.checks.append(decode_check(request))
            stub.metadata = metadata
            await stub.gate.wait()
            return encode_check(stub.answer)

        async def answer(request: bytes, context: grpc.aio.ServicerContext) -> bytes:
            stub.answered.append(ReceivedRequest(method, metadata, request))
            return ANSWER

        return grpc.unary_unary_rpc_method_handler(check if method == CHECK else answer)
