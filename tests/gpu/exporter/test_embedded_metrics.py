"""The metrics of `kilonova up`: claimed before the cluster starts, and only on demand."""

import socket

import pytest

from kilonova.cli.up.components.assembly import ClusterAssembly, assemble_cluster
from kilonova.component.failure import CommandFailed
from kilonova.local.cluster import ClusterSettings
from tests.gpu.agent.agent_cluster import gpu_fleet


def assemble(**flags: int) -> ClusterAssembly:
    settings = ClusterSettings(port=None, data=None, fleet=gpu_fleet())
    found = {name.replace("_", "-"): value for name, value in flags.items()}
    return assemble_cluster(("scheduler", "gpu"), settings, flags=found)


def test_port_that_is_taken_ends_the_start_and_names_the_flag() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(CommandFailed, match=f"--gpu-metrics-port {port} cannot be used"):
            assemble(gpu_metrics_port=port).claim_ports()


async def test_cluster_without_the_flag_serves_no_metrics() -> None:
    assembly = assemble()
    assembly.claim_ports()
    await assembly.cluster.start()
    await assembly.cluster.stop()
