"""Facts that `kilonova doctor` collects, without judgement. Times are Unix timestamps."""

from dataclasses import dataclass, field
from pathlib import Path

from kilonova.api.json import JsonObject
from kilonova.component import Component, find_components
from kilonova.component.finding import Finding

Version = tuple[int, int]
"""Major and minor."""


@dataclass(frozen=True, slots=True)
class KubectlFacts:
    """The kubectl on the PATH; `version` is empty if it reports none."""

    path: str
    version: str = ""


@dataclass(frozen=True, slots=True)
class DataDirectoryFacts:
    """The data directory of an embedded cluster."""

    path: Path
    exists: bool = False
    mode: int = 0o700
    free: int = 0
    """Free bytes on its disk."""
    in_use: bool = False
    url: str = ""
    """The API of the cluster that runs in it."""
    port_free: bool = True
    """Whether the default port is free."""


@dataclass(frozen=True, slots=True)
class MachineFacts:
    """This machine and this user."""

    python: tuple[int, int, int]
    kubectl: KubectlFacts | None
    data_directory: DataDirectoryFacts
    mounts: bool
    """Whether pods that run as processes can have their volumes mounted."""
    mounts_fix: str = ""


@dataclass(frozen=True, slots=True)
class TargetFacts:
    """The selected cluster, from the kubeconfig; `problem` states why there is none."""

    server: str = ""
    context: str = ""
    namespace: str = ""
    problem: str = ""
    configured: bool = True
    """Whether there is a kubeconfig at all."""
    absent: tuple[str, ...] = ()
    """Files that KUBECONFIG names and that do not exist, if KUBECONFIG is used."""


@dataclass(frozen=True, slots=True)
class Permission:
    """A permission, and the commands that need it."""

    verb: str
    group: str
    resource: str
    purpose: str

    def __str__(self) -> str:
        return f"{self.verb} {self.resource}{f'.{self.group}' if self.group else ''}"


@dataclass(frozen=True, slots=True)
class LeaseFacts:
    """Holder of a Lease, and when it was last renewed."""

    name: str
    holder: str
    renewed: float | None
    duration: float


@dataclass(frozen=True, slots=True)
class WebhookFacts:
    """An admission webhook."""

    configuration: str
    name: str
    failure_policy: str
    ca_pem: bytes
    service: str = ""
    """namespace/name; empty for a webhook with a URL."""
    endpoints: int | None = None
    """Ready endpoints of the Service; None if unknown."""


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """What the API answered; `problem` if it did not. A field that may not be read is None."""

    problem: str = ""
    fix: str = ""
    version: str = ""
    server_time: float | None = None
    """The server's clock when ours was `now`."""
    now: float = 0.0
    user: str = ""
    denied: tuple[Permission, ...] = ()
    definitions: dict[str, JsonObject] | None = None
    webhooks: tuple[WebhookFacts, ...] | None = None
    leaders: dict[str, LeaseFacts] | None = None
    nodes: tuple[str, ...] | None = None
    node_leases: tuple[LeaseFacts, ...] | None = None
    components: dict[str, str] | None = None
    problems: dict[str, str] = field(default_factory=dict[str, str])
    """Why components are degraded."""
    """Component states of an embedded cluster, if it runs on this machine, by status key."""
    contributed: tuple[Finding, ...] = ()
    """Findings of the components' own checks."""


@dataclass(frozen=True, slots=True)
class Facts:
    """All facts."""

    machine: MachineFacts
    target: TargetFacts
    cluster: ClusterFacts | None = None
    """None if no cluster is selected."""
    expected_definitions: tuple[JsonObject, ...] = field(default_factory=tuple)
    """The CustomResourceDefinitions of this version."""
    registered: tuple[Component, ...] = field(default_factory=find_components)
