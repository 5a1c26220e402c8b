"""The clusters on which the operator runs, and its resource usage."""

import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import psutil

from bench.cluster.clusters import write_fleet_file
from bench.home.servers import NAMESPACE
from tests.harness.access import ServerAccess
from tests.harness.control_plane import ControlPlane
from tests.harness.embedded_server import EmbeddedServer
from tests.harness.server_process import ServerProcess
from tests.workloads.process.operator_process import operator_process

PLAIN_NAMESPACE = "plain"


@dataclass(frozen=True, slots=True)
class BenchmarkCluster:
    """A cluster with simulated nodes, and how to start its operator."""

    title: str
    access: ServerAccess
    operator: Callable[[], AbstractContextManager[psutil.Process]]
    """Starts the operator, or returns the process that it is part of."""
    has_own_process: bool
    """Whether it is a separate process, so that the server's metrics show its writes."""


StartCluster = Callable[[Path, int], AbstractContextManager[BenchmarkCluster]]
"""Starts a cluster with so many nodes in an empty directory."""


@contextmanager
def start_kubernetes(folder: Path, nodes: int) -> Generator[BenchmarkCluster]:
    """Kubernetes; its nodes and the operator are processes of ours."""
    with ControlPlane.start(
        folder / "control-plane", controllers="*", with_scheduler=True, durable=True
    ) as plane:
        kubeconfig = plane.access.kubeconfig
        install = [
            "-m",
            "kilonova.cli",
            "install",
            "--components",
            "operator",
            "--kubeconfig",
            str(kubeconfig),
        ]
        subprocess.run([sys.executable, *install], check=True, stdout=subprocess.DEVNULL)
        _create_namespaces(plane.access)
        arguments = [
            "-m",
            "bench.cluster.simulated_nodes",
            str(kubeconfig),
            str(write_fleet_file(folder, nodes)),
        ]
        nodes_process = ServerProcess("nodes", [sys.executable, *arguments], folder / "nodes.log")

        numbers = count()

        @contextmanager
        def operator() -> Generator[psutil.Process]:
            options = ("--no-leader-elect", "--no-webhooks")
            name = f"operator-{next(numbers)}"
            with operator_process(kubeconfig, folder, *options, name=name) as running:
                yield psutil.Process(running.process.pid)

        try:
            yield BenchmarkCluster("Kubernetes", plane.access, operator, has_own_process=True)
        finally:
            nodes_process.stop()


@contextmanager
def start_embedded(folder: Path, nodes: int) -> Generator[BenchmarkCluster]:
    """`kilonova up`, where everything is one process."""
    fleet = str(write_fleet_file(folder, nodes))
    options = ("--port", "0", "--operator", "--scheduler", "--nodes", fleet)
    with EmbeddedServer.start(folder / "data", *options) as server:
        _create_namespaces(server.access)

        @contextmanager
        def operator() -> Generator[psutil.Process]:
            yield psutil.Process(server.process.pid)

        yield BenchmarkCluster("kilonova up", server.access, operator, has_own_process=False)


def _create_namespaces(access: ServerAccess) -> None:
    for name in (NAMESPACE, PLAIN_NAMESPACE):
        status, answer = access.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        if status != 201:
            raise RuntimeError(f"namespace {name} not created: {answer}")


def get_cpu_seconds(process: psutil.Process) -> float:
    """CPU time used so far."""
    times = process.cpu_times()
    return times.user + times.system


def get_peak_megabytes(process: psutil.Process) -> float:
    """Peak resident memory."""
    for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024 / 1e6
    raise RuntimeError("VmHWM is missing in /proc/PID/status")
