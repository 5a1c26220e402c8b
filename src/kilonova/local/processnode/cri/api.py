"""The interface between the kubelet and the container runtime, after CRI's RuntimeService.

A container id is never reused. `start` returns when the command has been executed, or raises with
the reason why it could not be. Containers survive a restart of the kubelet: `list_containers`
returns all of them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

# the shim imports this module: it must load nothing outside of the standard library
if TYPE_CHECKING:
    from kilonova.local.kubelet_api import RemoteProcess

JsonObject: TypeAlias = dict[str, Any]
"""As `kilonova.api.json.JsonObject`, which the shim does not load."""


@dataclass(frozen=True, slots=True)
class Mount:
    """A file or directory of this machine, mounted into the container at `target`."""

    source: Path
    target: str
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class Limits:
    """Enforced by a cgroup where this machine allows one; None is no limit."""

    cpu_millis: int | None = None
    memory_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class ContainerSpec:
    """One run of a command."""

    id: str
    pod_uid: str
    name: str
    command: tuple[str, ...]
    env: Mapping[str, str]
    folder: str
    """Working directory."""
    log: Path
    """Log file in CRI format: `TIME stdout|stderr F|P TEXT` per line."""
    address: str
    """The pod's IP address, shared by all its containers."""
    mounts: tuple[Mount, ...] = ()
    hidden: tuple[str, ...] = ()
    """Directories of this machine that the container cannot see, except what is mounted below them.
    """
    privileged: bool = False
    """The process keeps the capabilities with which root can reach hidden directories."""
    hostname: str = ""
    limits: Limits = Limits()
    user: int | None = None
    group: int | None = None
    tty: bool = False
    stdin: bool = False
    stdin_once: bool = False


@dataclass(frozen=True, slots=True)
class ContainerState:
    """A container as the runtime reports it. Times are seconds since the epoch."""

    id: str
    pod_uid: str
    name: str
    pid: int
    started: float
    finished: float | None = None
    exit_code: int | None = None
    """128 + n for signal n."""
    reason: str = ""
    """`Completed`, `Error`, `OOMKilled`, `ContainerStatusUnknown`; empty while it runs."""
    message: str = ""


@dataclass(frozen=True, slots=True)
class ContainerStats:
    """CPU time used and memory held by a container and all its descendants."""

    cpu_nanoseconds: int
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What this machine allows a runtime to do."""

    mounts: bool
    """Files and directories can be mounted at other paths."""
    limits: bool
    """CPU and memory limits are enforced."""
    network: bool
    """Each pod has an address of its own."""


class UnknownContainer(LookupError):
    """No container has that id, or it has been removed."""

    def __init__(self, container: str) -> None:
        super().__init__(f'container "{container}" is not known')


class ContainerStartError(Exception):
    """The command could not be executed. `reason` is one of the kubelet's: `StartError`, …"""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


class Runtime(Protocol):
    """Runs containers."""

    async def list_containers(self) -> Sequence[ContainerState]: ...

    async def start(self, spec: ContainerSpec) -> ContainerState:
        """Run a container; raise `ContainerStartError` if the command cannot be executed."""
        ...

    async def signal(self, container: str, number: int) -> None:
        """Send a signal to its first process; no effect if the container has ended."""
        ...

    async def kill(self, container: str) -> None:
        """Send SIGKILL to all its processes, including those that were reparented."""
        ...

    async def wait(self, container: str) -> ContainerState:
        """Wait until it has ended."""
        ...

    async def remove_container(self, container: str) -> None:
        """Remove the record of a container that has ended. The log stays."""
        ...

    async def execute(
        self, container: str, command: Sequence[str], *, stdin: bool, tty: bool
    ) -> "RemoteProcess":
        """Start another process in a running container; may raise `ContainerStartError`."""
        ...

    async def attach(self, container: str, *, stdin: bool) -> "RemoteProcess": ...

    async def container_stats(self) -> Mapping[str, ContainerStats]:
        """Stats of running containers, by container id."""
        ...

    async def capabilities(self) -> Capabilities:
        """What this machine allows."""
        ...
