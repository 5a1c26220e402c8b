"""Between the kubelet and what runs containers.

A container id is never used twice. `start` returns when the command has been executed, or raises
with the reason why it could not be. What a runtime was told survives a restart of the kubelet:
`containers` says what there is.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:  # the keeper imports this module, and little else
    from kilonova.local.kubelets import RemoteProcess


@dataclass(frozen=True, slots=True)
class Mount:
    """A file or folder of this machine, seen by the container at `target`."""

    source: Path
    target: str
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class Limits:
    """Kept by a cgroup where that is allowed; None is no limit."""

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
    """Where it starts."""
    log: Path
    """Its output goes there, a line each: `TIME stdout|stderr F|P TEXT`, as the CRI has it."""
    address: str
    """Of its pod; all containers of a pod share it."""
    mounts: tuple[Mount, ...] = ()
    hidden: tuple[str, ...] = ()
    """Folders of this machine that it does not see, but for what is mounted below them."""
    privileged: bool = False
    """It keeps the capabilities by which root gets at what is hidden."""
    hostname: str = ""
    limits: Limits = Limits()
    user: int | None = None
    group: int | None = None
    tty: bool = False
    stdin: bool = False
    stdin_once: bool = False


@dataclass(frozen=True, slots=True)
class ContainerState:
    """A container as the runtime knows it. Times are seconds since 1970."""

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
class Consumption:
    """What a container and all its descendants have used, and hold."""

    cpu_nanoseconds: int
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What this machine lets a runtime do."""

    mounts: bool
    """Files and folders can be seen elsewhere than where they are."""
    limits: bool
    """Cpu and memory limits are kept."""
    network: bool
    """Each pod has an address of its own."""


class UnknownContainer(LookupError):
    """No container has that id, or it has been forgotten."""

    def __init__(self, container: str) -> None:
        super().__init__(f'container "{container}" is not known')


class StartFailed(Exception):
    """The command could not be executed. `reason` is a kubelet's: `StartError`, …"""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


class Runtime(Protocol):
    """Runs containers."""

    async def containers(self) -> Sequence[ContainerState]: ...

    async def start(self, spec: ContainerSpec) -> ContainerState:
        """Run it; raise `StartFailed` if the command cannot be executed."""
        ...

    async def signal(self, container: str, number: int) -> None:
        """To its first process. Nothing happens if it has ended."""
        ...

    async def kill(self, container: str) -> None:
        """SIGKILL to all its processes, also to those that forked away."""
        ...

    async def wait(self, container: str) -> ContainerState:
        """Until it has ended."""
        ...

    async def forget(self, container: str) -> None:
        """Drop what is known of a container that has ended. The log stays."""
        ...

    async def execute(
        self, container: str, command: Sequence[str], *, stdin: bool, tty: bool
    ) -> "RemoteProcess":
        """Another process in a running container; `StartFailed` if it cannot be executed."""
        ...

    async def attach(self, container: str, *, stdin: bool) -> "RemoteProcess": ...

    async def consumption(self) -> Mapping[str, Consumption]:
        """By container, of those that run."""
        ...

    async def capabilities(self) -> Capabilities:
        """What this machine allows."""
        ...
