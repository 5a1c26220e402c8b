"""The metrics of the node's GPUs, on a port of their own."""

from collections.abc import Callable, Sequence
from datetime import datetime

from kilonova.component.failure import CommandFailed
from kilonova.gpu.agent.local_agent import LocalAgent
from kilonova.gpu.agent.node_readings import LocalReadings
from kilonova.gpu.exporter.server import build_exporter_server
from kilonova.gpu.process.options import AgentOptions
from kilonova.kube import Runnable
from kilonova.kube.serving.http_server import format_bind_error


def build_exporter(
    options: AgentOptions, port: int, local: LocalAgent, now: Callable[[], datetime]
) -> Sequence[Runnable]:
    """What has to run; `CommandFailed` where no port is free."""
    readings = LocalReadings(local, now)
    try:
        server = build_exporter_server(readings.read, port)
    except OSError as error:
        raise CommandFailed(
            f"--exporter-port {port} and those after it cannot be used for the metrics of "
            f"{options.node} ({format_bind_error(error)}): choose another (0 for any free), or use "
            "--no-exporter"
        ) from error
    return readings, server
