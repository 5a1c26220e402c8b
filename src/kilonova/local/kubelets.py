"""What the API asks of nodes: logs, commands in containers, connections to pods, usage.

Every node of the embedded cluster registers a `Kubelet` under its name. The API finds the one of
a pod's node and passes on what a client asked for; how it is done is the node's affair.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum
from typing import Protocol

from kilonova.api.json import JsonObject
from kilonova.local.errors import ApiError


@dataclass(frozen=True, slots=True)
class LogRequest:
    """Which lines of a container's log are wanted."""

    container: str
    follow: bool
    previous: bool
    timestamps: bool
    tail: int | None
    since_seconds: int | None
    since: datetime | None = None
    limit_bytes: int | None = None


class Output(IntEnum):
    """Where a process has written to."""

    STDOUT = 1
    STDERR = 2


class RemoteProcess(Protocol):
    """A process in a container, as exec and attach see it."""

    def output(self) -> AsyncIterator[tuple[Output, bytes]]:
        """What it writes, as it comes, until it has closed both."""
        ...

    async def send(self, data: bytes) -> None:
        """Write to its standard input; waits while it does not read."""
        ...

    async def close_input(self) -> None:
        """The end of its standard input."""
        ...

    async def resize(self, columns: int, rows: int) -> None:
        """Its terminal has another size."""
        ...

    async def wait(self) -> int:
        """Its exit code; 128 + n for signal n."""
        ...

    async def detach(self) -> None:
        """The client has gone: end what exec started, leave alone what attach found."""
        ...


@dataclass(frozen=True, slots=True)
class ContainerUsage:
    """What a container uses."""

    name: str
    cpu_nanocores: int
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class PodUsage:
    """What a pod uses."""

    namespace: str
    name: str
    containers: tuple[ContainerUsage, ...]


@dataclass(frozen=True, slots=True)
class NodeUsage:
    """What a node uses, measured at `time` over the `window` seconds before it."""

    time: datetime
    window: float
    cpu_nanocores: int
    memory_bytes: int
    pods: tuple[PodUsage, ...]


class Kubelet(Protocol):
    """A node's side. Pods are given as stored. Refusals are `ApiError`."""

    def logs(self, pod: JsonObject, wanted: LogRequest) -> AsyncIterator[bytes]: ...

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
        """None while there is nothing to tell yet."""
        ...


class Kubelets:
    """The nodes that answer, by name."""

    def __init__(self) -> None:
        self._kubelets: dict[str, Kubelet] = {}

    def register(self, node: str, kubelet: Kubelet) -> None:
        self._kubelets[node] = kubelet

    def find(self, node: str) -> Kubelet:
        """The one of a node; 500 if nobody plays that node, as when a kubelet is away."""
        found = self._kubelets.get(node)
        if found is None:
            raise ApiError(500, "InternalError", f'node "{node}" does not answer')
        return found

    def all(self) -> list[tuple[str, Kubelet]]:
        """Every node that answers."""
        return list(self._kubelets.items())
