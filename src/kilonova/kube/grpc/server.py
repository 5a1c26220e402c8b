"""A gRPC server as a runnable: TLS, health, reflection, limits, graceful stop."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import grpc
import grpc.aio
from grpc_reflection.v1alpha import reflection

from kilonova.kube.grpc.health import SERVICE_NAME as HEALTH_SERVICE
from kilonova.kube.grpc.health import HealthService
from kilonova.kube.grpc.interceptor import RpcInterceptor
from kilonova.kube.grpc.limits import ServerLimits
from kilonova.kube.grpc.metrics import GrpcMetrics
from kilonova.kube.grpc.tls import LiveServerCredentials
from kilonova.kube.observability.structured_logging import get_logger

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class GrpcService:
    """A service and its handlers, as `echo_service(servicer)` of a generated module builds it."""

    name: str
    handlers: Mapping[str, grpc.RpcMethodHandler[Any, Any]]


class GrpcServer:
    """Serves services on `host:port`, `[::]:port` or `unix:path`, until `stop`.

    With them it serves gRPC's health service, for the server (the empty name) and for each service,
    and reflection, by which tools such as grpcurl know the services. A `GracefulRunnable`: after
    `stop` RPCs in flight finish within `grace` seconds, and streams end at once.
    """

    def __init__(
        self,
        name: str,
        services: Sequence[GrpcService],
        address: str,
        *,
        credentials: LiveServerCredentials | None = None,
        limits: ServerLimits | None = None,
        metrics: GrpcMetrics | None = None,
        grace: float = 20.0,
    ) -> None:
        self.name = name
        self._services = tuple(services)
        self._address = address
        self._credentials = credentials
        self._limits = limits or ServerLimits()
        self._grace = grace
        self._interceptor = RpcInterceptor(name, self._limits.max_unary_seconds, metrics)
        self.health = HealthService()
        self._server: grpc.aio.Server | None = None
        self._port = 0
        self._stopping = asyncio.Event()

    def bind(self) -> int:
        """Open the port and return its number (0 picks a free one). OSError if it is in use.

        Call it in the event loop that runs the server.
        """
        if self._server is None:
            _check_address(self._address)
            server = self._build_server()
            self._port = self._open_port(server)
            self._server = server
        return self._port

    async def run(self) -> None:
        """Serve until `stop`, or until cancelled."""
        self.bind()
        server = self._server
        assert server is not None
        await server.start()
        for name in ("", *(service.name for service in self._services)):
            await self.health.set_serving(name)
        _log.info("serving", server=self.name, port=self._port, tls=self._credentials is not None)
        try:
            await self._stopping.wait()
            await self.health.shut_down()
            self._interceptor.end_streams()
            await server.stop(self._grace)
        finally:
            self._server = None
            await server.stop(None)

    def stop(self) -> None:
        """Accept no more RPCs, end streams, finish the RPCs in flight, then let `run` return."""
        self._stopping.set()

    def _build_server(self) -> grpc.aio.Server:
        server = grpc.aio.server(
            interceptors=(self._interceptor,),
            options=self._limits.to_options(self._grace),
            maximum_concurrent_rpcs=self._limits.max_concurrent_rpcs,
        )
        for service in self._services:
            handlers = grpc.method_handlers_generic_handler(service.name, dict(service.handlers))
            server.add_generic_rpc_handlers((handlers,))
        self.health.add_to(server)
        names = (*(service.name for service in self._services), HEALTH_SERVICE)
        reflection.enable_server_reflection((*names, reflection.SERVICE_NAME), server)
        return server

    def _open_port(self, server: grpc.aio.Server) -> int:
        try:
            if self._credentials is None:
                return server.add_insecure_port(self._address)
            return server.add_secure_port(self._address, self._credentials.build())
        except RuntimeError as error:
            raise OSError(errno.EADDRINUSE, f"cannot listen on {self._address}") from error


def _check_address(address: str) -> None:
    """Raise OSError for a port that is in use; gRPC does not report why it cannot listen."""
    host, _, port = address.rpartition(":")
    if address.startswith("unix:") or port == "0":
        return
    host = host.strip("[]")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    socket.create_server((host, int(port)), family=family).close()
