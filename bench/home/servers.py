"""The two servers that are compared, behind one type."""

from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.harness.access import ServerAccess
from tests.harness.control_plane import ControlPlane
from tests.harness.embedded_server import EmbeddedServer

NAMESPACE = "bench"


@dataclass(frozen=True, slots=True)
class MemoryUsage:
    """Megabytes of all processes: resident, and proportional set size."""

    rss: float
    pss: float


@dataclass(frozen=True, slots=True)
class Server:
    """A running API server and all of its processes."""

    access: ServerAccess
    processes: Sequence[psutil.Process]

    def measure_memory(self) -> MemoryUsage:
        infos = [process.memory_full_info() for process in self.processes]
        return MemoryUsage(
            rss=sum(info.rss for info in infos) / 1e6, pss=sum(info.pss for info in infos) / 1e6
        )

    def cpu_seconds(self) -> float:
        """CPU time used so far by all processes."""
        times = [process.cpu_times() for process in self.processes]
        return sum(time.user + time.system for time in times)

    def create_namespace(self) -> None:
        """Create the namespace of the load."""
        body = {"metadata": {"name": NAMESPACE}}
        status, answer = self.access.request("POST", "/api/v1/namespaces", body)
        if status != 201:
            raise RuntimeError(f"namespace {NAMESPACE} not created: {answer}")


StartServer = Callable[[Path], AbstractContextManager[Server]]
"""Starts a server on an empty directory; it is ready when the context is entered."""


def start_embedded(durability: str = "full") -> StartServer:
    """The embedded API with its built-in controllers, as in `kilonova up`."""

    @contextmanager
    def start(folder: Path) -> Generator[Server]:
        options = ("--port", "0", "--durability", durability)
        with EmbeddedServer.start(folder / "data", *options) as server:
            yield Server(server.access, [psutil.Process(server.process.pid)])

    return start


def start_peer(*, durable: bool = True) -> StartServer:
    """kube-apiserver and etcd, which syncs to disk if `durable`."""

    @contextmanager
    def start(folder: Path) -> Generator[Server]:
        with ControlPlane.start(folder / "control-plane", durable=durable) as plane:
            processes = [psutil.Process(process.pid) for process in plane.processes]
            yield Server(plane.access, processes)

    return start
