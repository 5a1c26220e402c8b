"""The kubelet API that the API server calls: logs, exec, attach, port-forward, usage.

Every node of the embedded cluster registers a `Kubelet` under its name. The API server finds the
one of a pod's node and forwards the request; the node implements it.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum
from typing import Protocol

from kilonova.api.gpu.metrics import GpuReading
from kilonova.api.json import JsonObject
from kilonova.local.apimachinery.errors import ApiError


@dataclass(frozen=True, slots=True)
class LogRequest:
    """Options of a log request."""

    container: str
    follow: bool
    previous: bool
    timestamps: bool
    tail: int | None
    since_seconds: int | None
    since: datetime | None = None
    limit_bytes: int | None = None


class OutputStream(IntEnum):
    """Standard output or standard error of a process."""

    STDOUT = 1
    STDERR = 2


class RemoteProcess(Protocol):
    """A process in a container, for exec and attach."""

    def output(self) -> AsyncIterator[tuple[OutputStream, bytes]]:
        """Its output as it arrives, until both streams are closed."""
        ...

    async def send(self, data: bytes) -> None:
        """Write to its standard input; waits while it does not read."""
        ...

    async def close_input(self) -> None:
        """Close its standard input."""
        ...

    async def resize(self, columns: int, rows: int) -> None:
        """Set the size of its terminal."""
        ...

    async def wait(self) -> int:
        """Its exit code; 128 + n for signal n."""
        ...

    async def detach(self) -> None:
        """The client has disconnected: terminate a process started by exec, leave one found by
        attach."""
        ...


@dataclass(frozen=True, slots=True)
class ContainerUsage:
    """Resource usage of a container."""

    name: str
    cpu_nanocores: int
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class PodUsage:
    """Resource usage of a pod."""

    namespace: str
    name: str
    containers: tuple[ContainerUsage, ...]


@dataclass(frozen=True, slots=True)
class NodeUsage:
    """Resource usage of a node, measured at `time` over the `window` seconds before it."""

    time: datetime
    window: float
    cpu_nanocores: int
    memory_bytes: int
    pods: tuple[PodUsage, ...]
    gpus: tuple[GpuReading, ...] = ()
    """Of the GPUs that are measured."""


class Kubelet(Protocol):
    """The node's side. Pods are passed as stored. Rejections are `ApiError`."""

    def logs(self, pod: JsonObject, options: LogRequest, /) -> AsyncIterator[bytes]: ...

    async def execute(
        self, pod: JsonObject, container: str, command: Sequence[str], *, stdin: bool, tty: bool
    ) -> RemoteProcess: ...

    async def attach(
        self, pod: JsonObject, container: str, *, stdin: bool, tty: bool
    ) -> RemoteProcess: ...

    async def dial(
        self, pod: JsonObject, port: int
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]: ...

    async def usage(self) -> NodeUsage | None:
        """The current usage; None while there is none yet."""
        ...


GpuReader = Callable[[str], tuple[GpuReading, ...] | None]
"""What is measured of the GPUs of a node, by its name; None if that is not known."""


class Kubelets:
    """The registered kubelets, by node name."""

    def __init__(self) -> None:
        self._kubelets: dict[str, Kubelet] = {}
        self.read_gpus: GpuReader = lambda node: None
        """What an agent measures takes precedence over what the kubelet of a node reports."""

    def register(self, node: str, kubelet: Kubelet) -> None:
        self._kubelets[node] = kubelet

    def unregister(self, node: str) -> None:
        """The node is gone."""
        self._kubelets.pop(node, None)

    def get(self, node: str) -> Kubelet:
        """The kubelet of a node; 500 if there is none, as when a kubelet is unreachable."""
        found = self._kubelets.get(node)
        if found is None:
            raise ApiError(500, "InternalError", f'node "{node}" is not reachable')
        return found

    def items(self) -> list[tuple[str, Kubelet]]:
        """All registered kubelets."""
        return list(self._kubelets.items())
