"""The metrics of simulated GPUs, on a port of `kilonova up`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kilonova.component.embedded import EmbeddedContext
from kilonova.component.failure import CommandFailed
from kilonova.gpu.agent.simulated.fleet import SimulatedAgents
from kilonova.kube import Runnable
from kilonova.kube.serving.http_server import format_bind_error

if TYPE_CHECKING:
    from kilonova.gpu.agent.simulated.node_readings import SimulatedReadings
    from kilonova.gpu.exporter import ExporterReading
    from kilonova.kube.serving.web_server import WebServer

_FLAG = "gpu-metrics-port"
_HOST = "127.0.0.1"


class EmbeddedMetrics:
    """Serves the metrics of all simulated nodes; nothing without the flag."""

    def __init__(self, context: EmbeddedContext) -> None:
        port = context.flags.get(_FLAG)
        self._port = port if isinstance(port, int) else None
        self._now = context.cluster.clock.now
        self._server: WebServer | None = None
        self._readings: SimulatedReadings | None = None

    def claim_port(self) -> None:
        """Bind the port before the cluster starts; `CommandFailed` if it is not available."""
        if self._port is not None:
            self._server = self._bind(self._port)
            self._port = self._server.bind()

    def build_runnables(self, agents: SimulatedAgents) -> Sequence[Runnable]:
        """What has to run; after a failure, on the same port."""
        if self._port is None:
            return ()
        from kilonova.gpu.agent.simulated.node_readings import SimulatedReadings

        self._readings = SimulatedReadings(agents, self._now)
        server, self._server = self._server or self._bind(self._port), None
        return self._readings, server

    def _bind(self, port: int) -> WebServer:
        from kilonova.gpu.exporter.server import build_exporter_server

        try:
            return build_exporter_server(self._read, port, host=_HOST, tries=0)
        except OSError as error:
            raise CommandFailed(
                f"--{_FLAG} {port} cannot be used ({format_bind_error(error)}): choose another "
                "(0 for any free)"
            ) from error

    async def _read(self) -> ExporterReading:
        assert self._readings is not None  # requests are answered once the server runs
        return await self._readings.read()
