"""The two servers that are compared, behind one type: started on an empty folder, ended surely."""

from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.harness.access import Access
from tests.harness.controlplane import ControlPlane
from tests.harness.embedded import EmbeddedServer

NAMESPACE = "bench"


@dataclass(frozen=True, slots=True)
class Memory:
    """Megabytes of all processes: resident, and with shared pages counted in proportion."""

    rss: float
    pss: float


@dataclass(frozen=True, slots=True)
class Server:
    """A running API server; `processes` is all that it consists of."""

    access: Access
    processes: Sequence[psutil.Process]

    def memory(self) -> Memory:
        infos = [process.memory_full_info() for process in self.processes]
        return Memory(
            rss=sum(info.rss for info in infos) / 1e6, pss=sum(info.pss for info in infos) / 1e6
        )

    def cpu_seconds(self) -> float:
        """Processor time used so far, of all its threads and processes."""
        times = [process.cpu_times() for process in self.processes]
        return sum(time.user + time.system for time in times)

    def make_namespace(self) -> None:
        """Make the namespace that loads are put in."""
        body = {"metadata": {"name": NAMESPACE}}
        status, answer = self.access.ask("POST", "/api/v1/namespaces", body)
        if status != 201:
            raise RuntimeError(f"the namespace {NAMESPACE} was refused: {answer}")


Start = Callable[[Path], AbstractContextManager[Server]]
"""Starts a server on an empty folder; it is ready when the context is entered."""


def ours(durability: str = "full") -> Start:
    """The embedded API with its built-in controllers, as `kilonova up` starts it."""

    @contextmanager
    def start(folder: Path) -> Generator[Server]:
        options = ("--port", "0", "--durability", durability)
        with EmbeddedServer.start(folder / "data", *options) as server:
            yield Server(server.access, [psutil.Process(server.process.pid)])

    return start


def peer(*, durable: bool = True) -> Start:
    """kube-apiserver and etcd, which waits for the disk if `durable`."""

    @contextmanager
    def start(folder: Path) -> Generator[Server]:
        with ControlPlane.start(folder / "control-plane", durable=durable) as plane:
            processes = [psutil.Process(process.pid) for process in plane.processes]
            yield Server(plane.access, processes)

    return start
