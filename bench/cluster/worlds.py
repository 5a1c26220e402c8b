"""The two clusters that are compared: servers, controllers, and nodes that play."""

import sys
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import psutil

from bench.home.servers import Server
from tests.harness.controlplane import ControlPlane
from tests.harness.embedded import EmbeddedServer
from tests.harness.process import ServerProcess

World = Callable[[Path, int], AbstractContextManager[Server]]
"""Starts a cluster with so many nodes in an empty folder; they may still be registering."""


def fleet_file(folder: Path, nodes: int) -> Path:
    """Eight-GPU machines, sixteen to a rack, in four zones."""
    racks = max(4, nodes // 16)
    path = folder / "fleet.yaml"
    path.write_text(
        f"nodes: [{{name: n, count: {nodes}, zones: [a, b, c, d], racks: {racks}, "
        "gpu: {model: NVIDIA-H100-80GB-HBM3, count: 8}, start: 100ms, stop: 100ms}]\n"
    )
    return path


@contextmanager
def our_world(folder: Path, nodes: int) -> Generator[Server]:
    """The embedded cluster, in one process."""
    options = ("--port", "0", "--scheduler", "--nodes", str(fleet_file(folder, nodes)))
    with EmbeddedServer.start(folder / "data", *options) as server:
        yield Server(server.access, [psutil.Process(server.process.pid)])


@contextmanager
def peer_world(folder: Path, nodes: int) -> Generator[Server]:
    """Kubernetes with all its controllers, on which another process plays the nodes."""
    with ControlPlane.start(folder / "control-plane", controllers="*", durable=True) as plane:
        processes = [psutil.Process(process.pid) for process in plane.processes]
        player = ServerProcess(
            "nodes",
            [
                sys.executable,
                "-m",
                "bench.cluster.player",
                str(plane.access.kubeconfig),
                str(fleet_file(folder, nodes)),
            ],
            folder / "nodes.log",
        )
        try:
            yield Server(plane.access, processes)
        finally:
            player.stop()
