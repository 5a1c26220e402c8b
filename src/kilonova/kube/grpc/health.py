"""gRPC's own health service (`grpc.health.v1.Health`), as probes of Kubernetes and load balancers
ask it."""

from typing import Any, cast

import grpc.aio
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

SERVICE_NAME = health.SERVICE_NAME


class HealthService:
    """The health of a server, under the empty name, and of each of its services."""

    def __init__(self) -> None:
        # The package is not typed.
        self._servicer: Any = cast("Any", health).aio.HealthServicer()

    def add_to(self, server: grpc.aio.Server) -> None:
        """Serve it."""
        cast("Any", health_pb2_grpc).add_HealthServicer_to_server(self._servicer, server)

    async def set_serving(self, service: str, serving: bool = True) -> None:
        """Set the health of a service."""
        status = health_pb2.HealthCheckResponse
        await self._servicer.set(service, status.SERVING if serving else status.NOT_SERVING)

    async def shut_down(self) -> None:
        """Let everything be NOT_SERVING from now on, whatever is set."""
        await self._servicer.enter_graceful_shutdown()
