"""Where the operator works: a cluster with nodes, and how much the operator uses there."""

import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from bench.cluster.worlds import fleet_file
from bench.home.servers import NAMESPACE
from tests.harness.access import Access
from tests.harness.controlplane import ControlPlane
from tests.harness.embedded import EmbeddedServer
from tests.harness.process import ServerProcess
from tests.workloads.process.operator_process import operator_process

PLAIN_NAMESPACE = "plain"


@dataclass(frozen=True, slots=True)
class Stage:
    """A cluster, with an operator or about to have one."""

    title: str
    access: Access
    operator: Callable[[], AbstractContextManager[psutil.Process]]
    """Starts the operator, or tells in which process it has been all the time."""
    is_alone: bool
    """Whether it has a process of its own, and the server tells what requests are about."""


Staging = Callable[[Path, int], AbstractContextManager[Stage]]
"""Sets up a cluster with so many nodes in an empty folder."""


@contextmanager
def on_kubernetes(folder: Path, nodes: int) -> Generator[Stage]:
    """All of a Kubernetes; its nodes and the operator are processes of ours."""
    with ControlPlane.start(
        folder / "control-plane", controllers="*", with_scheduler=True, durable=True
    ) as plane:
        kubeconfig = plane.access.kubeconfig
        install = ["-m", "kilonova.cli", "install", "--kubeconfig", str(kubeconfig)]
        subprocess.run([sys.executable, *install], check=True, stdout=subprocess.DEVNULL)
        _make_namespaces(plane.access)
        play = ["-m", "bench.cluster.player", str(kubeconfig), str(fleet_file(folder, nodes))]
        player = ServerProcess("nodes", [sys.executable, *play], folder / "nodes.log")

        @contextmanager
        def operator() -> Generator[psutil.Process]:
            options = ("--no-leader-elect", "--no-webhooks")
            with operator_process(kubeconfig, folder, *options) as running:
                yield psutil.Process(running.process.pid)

        try:
            yield Stage("Kubernetes", plane.access, operator, is_alone=True)
        finally:
            player.stop()


@contextmanager
def on_embedded(folder: Path, nodes: int) -> Generator[Stage]:
    """`kilonova up`, where all is one process."""
    fleet = str(fleet_file(folder, nodes))
    options = ("--port", "0", "--operator", "--scheduler", "--nodes", fleet)
    with EmbeddedServer.start(folder / "data", *options) as server:
        _make_namespaces(server.access)

        @contextmanager
        def operator() -> Generator[psutil.Process]:
            yield psutil.Process(server.process.pid)

        yield Stage("kilonova up", server.access, operator, is_alone=False)


def _make_namespaces(access: Access) -> None:
    for name in (NAMESPACE, PLAIN_NAMESPACE):
        status, answer = access.ask("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        if status != 201:
            raise RuntimeError(f"the namespace {name} was refused: {answer}")


def cpu_seconds(process: psutil.Process) -> float:
    """Processor time used so far."""
    times = process.cpu_times()
    return times.user + times.system


def peak_megabytes(process: psutil.Process) -> float:
    """The most memory that was resident at a time."""
    for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024 / 1e6
    raise RuntimeError("the kernel does not tell how much memory a process has had")
