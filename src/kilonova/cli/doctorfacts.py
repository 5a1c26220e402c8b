"""What `kilonova doctor` finds out, before anybody judges it. Times are seconds since 1970."""

from dataclasses import dataclass, field
from pathlib import Path

from kilonova.api.json import JsonObject

Version = tuple[int, int]
"""Major and minor."""


@dataclass(frozen=True, slots=True)
class Kubectl:
    """The kubectl on the PATH; no version where it does not tell one."""

    path: str
    version: str = ""


@dataclass(frozen=True, slots=True)
class Folder:
    """The folder of an embedded cluster."""

    path: Path
    exists: bool = False
    mode: int = 0o700
    free: int = 0
    """Bytes, on the disk that it is or would be on."""
    taken: bool = False
    url: str = ""
    """Where the cluster says that it answers."""
    port_free: bool = True
    """Whether the usual port could be had."""


@dataclass(frozen=True, slots=True)
class Machine:
    """This machine and this user."""

    python: tuple[int, int, int]
    kubectl: Kubectl | None
    folder: Folder
    mounts: bool
    """Whether a pod that is a process may see its volumes at their paths."""
    mounts_fix: str = ""


@dataclass(frozen=True, slots=True)
class Target:
    """The cluster that is meant, as the kubeconfig has it; `problem` where none is."""

    server: str = ""
    context: str = ""
    namespace: str = ""
    problem: str = ""
    configured: bool = True
    """Whether there is any kubeconfig at all."""
    absent: tuple[str, ...] = ()
    """Files that KUBECONFIG names, where it counts, and that are not there."""


@dataclass(frozen=True, slots=True)
class Right:
    """What one must be able to do, and for which commands."""

    verb: str
    group: str
    resource: str
    purpose: str

    def __str__(self) -> str:
        return f"{self.verb} {self.resource}{f'.{self.group}' if self.group else ''}"


@dataclass(frozen=True, slots=True)
class Lease:
    """Who holds what, and when it was last renewed."""

    name: str
    holder: str
    renewed: float | None
    duration: float


@dataclass(frozen=True, slots=True)
class Webhook:
    """Whom the API server asks before it stores something."""

    configuration: str
    name: str
    failure_policy: str
    ca_pem: bytes
    service: str = ""
    """namespace/name; empty where it is reached by a URL."""
    endpoints: int | None = None
    """Ready addresses behind the service; None where that is not known."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """What the cluster tells; `problem` where it tells nothing. What it did not let us see is
    None."""

    problem: str = ""
    fix: str = ""
    version: str = ""
    server_time: float | None = None
    """Its clock, when ours was `now`."""
    now: float = 0.0
    user: str = ""
    denied: tuple[Right, ...] = ()
    definitions: dict[str, JsonObject] | None = None
    webhooks: tuple[Webhook, ...] | None = None
    leaders: dict[str, Lease] | None = None
    nodes: tuple[str, ...] | None = None
    node_leases: tuple[Lease, ...] | None = None
    rooms: dict[str, str] | None = None
    """Of a cluster that `kilonova up` runs: how far each part of it is, if that is told here."""


@dataclass(frozen=True, slots=True)
class Facts:
    """All of it."""

    machine: Machine
    target: Target
    cluster: Cluster | None = None
    """None where none is meant."""
    wanted: tuple[JsonObject, ...] = field(default_factory=tuple)
    """The definitions of this version."""
