"""The two clusters that are compared: servers, controllers and simulated nodes."""

import sys
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import psutil

from bench.home.servers import Server
from tests.harness.control_plane import ControlPlane
from tests.harness.embedded_server import EmbeddedServer
from tests.harness.server_process import ServerProcess

StartCluster = Callable[[Path, int], AbstractContextManager[Server]]
"""Starts a cluster with so many nodes in an empty directory; nodes may still be registering."""


def write_fleet_file(folder: Path, nodes: int) -> Path:
    """Eight-GPU machines, sixteen to a rack, in four zones."""
    racks = max(4, nodes // 16)
    path = folder / "fleet.yaml"
    path.write_text(
        f"nodes: [{{name: n, count: {nodes}, zones: [a, b, c, d], racks: {racks}, "
        "gpu: {model: NVIDIA-H100-80GB-HBM3, count: 8}, start: 100ms, stop: 100ms}]\n"
    )
    return path


@contextmanager
def start_embedded_cluster(folder: Path, nodes: int) -> Generator[Server]:
    """The embedded cluster, in one process."""
    options = ("--port", "0", "--scheduler", "--nodes", str(write_fleet_file(folder, nodes)))
    with EmbeddedServer.start(folder / "data", *options) as server:
        yield Server(server.access, [psutil.Process(server.process.pid)])


@contextmanager
def start_peer_cluster(folder: Path, nodes: int) -> Generator[Server]:
    """Kubernetes with all controllers; another process simulates the nodes."""
    with ControlPlane.start(folder / "control-plane", controllers="*", durable=True) as plane:
        processes = [psutil.Process(process.pid) for process in plane.processes]
        nodes_process = ServerProcess(
            "nodes",
            [
                sys.executable,
                "-m",
                "bench.cluster.simulated_nodes",
                str(plane.access.kubeconfig),
                str(write_fleet_file(folder, nodes)),
            ],
            folder / "nodes.log",
        )
        try:
            yield Server(plane.access, processes)
        finally:
            nodes_process.stop()
