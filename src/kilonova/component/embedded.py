"""Components inside of `kilonova up`: what they get, and what they provide."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Protocol, runtime_checkable

from prometheus_client import CollectorRegistry

from kilonova.api.gpu.metrics import GpuReading
from kilonova.component.health import ComponentProblems
from kilonova.component.registration import FlagValue
from kilonova.kube import Client, Runnable
from kilonova.kube.admission.in_process import InProcessWebhook


class Clock(Protocol):
    """The wall clock and a monotonic clock."""

    def now(self) -> datetime: ...

    def monotonic(self) -> float: ...


class ClusterAccess(Protocol):
    """The cluster that a component runs in."""

    @property
    def name(self) -> str:
        """The name by which people know it."""
        ...

    @property
    def clock(self) -> Clock: ...

    @property
    def url(self) -> str:
        """The address of its API; empty if it does not listen."""
        ...

    @property
    def data_path(self) -> Path | None:
        """The data directory; None for a cluster in memory."""
        ...

    def client(self, user: str) -> Client:
        """An in-process client, acting as `user`."""
        ...

    def new_id(self) -> str:
        """A random suffix, for names of Events."""
        ...

    def component_registry(self, name: str) -> CollectorRegistry:
        """A new registry for metrics, which the API server exposes; it replaces that of the
        component's previous run."""
        ...

    def provide_gpu_readings(self, read: Callable[[str], tuple[GpuReading, ...] | None]) -> None:
        """Have the NodeMetrics of nodes show what is measured of their GPUs; `read` is given the
        name of a node, and answers None for one that it does not measure."""
        ...


@dataclass(frozen=True, slots=True)
class EmbeddedContext:
    """What a component is built from."""

    name: str
    """The name of the component."""
    cluster: ClusterAccess
    flags: Mapping[str, FlagValue]
    """The flags of its registration, by name."""
    selected: frozenset[str] = frozenset()
    """The names of all components that run in the cluster."""
    problems: ComponentProblems = field(default_factory=ComponentProblems)
    """Which of them are degraded."""

    @property
    def user(self) -> str:
        """The user of its requests: its ServiceAccount on a cluster."""
        return f"system:serviceaccount:kilonova-system:kilonova-{self.name}"

    @property
    def directory(self) -> Path:
        """The folder for its files, such as logs of child processes; it need not exist."""
        if self.cluster.data_path is None:
            raise ValueError(f"{self.name} keeps files, and this cluster is in memory only")
        return self.cluster.data_path / "components" / self.name

    @property
    def client(self) -> Client:
        """A client that acts as its ServiceAccount."""
        return self.cluster.client(self.user)


@runtime_checkable
class ReadyRunnable(Protocol):
    """A runnable that takes time to be of use; its component is starting until then."""

    async def wait_ready(self) -> None: ...


def _nothing() -> None:
    pass


def _no_webhooks() -> Sequence[InProcessWebhook]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedComponent:
    """A component to run in the cluster."""

    build_runnables: Callable[[], Sequence[Runnable]]
    """Builds the runnables, for the start and for each restart after a failure."""
    build_webhooks: Callable[[], Sequence[InProcessWebhook]] = _no_webhooks
    """Its admission webhooks; called once, before the API is served."""
    claim_ports: Callable[[], None] = _nothing
    """Binds its ports, before anything is created; `OSError` or `CommandFailed` ends the start."""
    link: Callable[[], str | None] = _nothing
    """A page to open in a browser, once the ports are claimed."""
