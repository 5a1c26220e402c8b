"""Types of the rows. `frontend/src/data/rows.ts` is generated from this module.

Camel case on the wire; a field with its default value is omitted. Times are in seconds since the
epoch, None if unknown.
"""

import re

import msgspec
from msgspec.structs import force_setattr

from kilonova.api.gpu.annotations import Gpu
from kilonova.api.gpu.metrics import GpuReading
from kilonova.api.scheduling_names import DEFAULT_SCHEDULER_NAME
from kilonova.component.console import Row
from kilonova.component.console.values import ConditionRow

TERMINAL_PHASES = ("Succeeded", "Failed")
"""Phases of finished pods."""

_FAILURE_STATES = re.compile(
    r"BackOff|Err|OOMKilled|Invalid|Failed|Lost|Evicted|Unexpected", re.ASCII
)


class NodeRow(Row, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """A node. Its id is its name."""

    ready: bool
    unknown: bool = False
    """Whether its kubelet does not report."""
    state: str = ""
    """`Ready`, `NotReady` or `Unknown`, and further states: `Ready,GPULost,Cordoned`. Computed."""
    cpu: float
    """Allocatable CPU cores."""
    memory: int
    """Allocatable memory in bytes."""
    zone: str = ""
    block: str = ""
    rack: str = ""
    kind: str = ""
    """`sim` or `process`; empty for a node of another cluster."""
    product: str = ""
    nvlink_domain: str = ""
    """The NVLink domain."""
    fabric: str = ""
    """The interconnect of its GPUs: `NVSwitch` or `NVLink`."""
    gpus: int = 0
    gpu_memory: int = 0
    """Memory of one GPU in MiB."""
    gpu_sms: int = 0
    """Streaming multiprocessors of one GPU."""
    mig: bool = False
    """Whether MIG instances may be created on its GPUs."""
    devices: tuple[Gpu, ...] = ()
    """What its agent publishes of each GPU; what a GPU does not set is that of the node."""
    lost: tuple[int, ...] = ()
    """Indices of GPUs that are not healthy."""
    cordoned: bool = False
    problem: str = ""
    """Why it is not ready, pressure conditions, lost GPUs."""
    taints: tuple[str, ...] = ()
    max_pods: int = 0
    machine: str = ""
    """The machine type."""
    price: float | None = None
    """USD per GPU and hour."""
    node_price: float | None = None
    """USD per hour of the node, with its GPUs."""
    created: float | None = None

    def __post_init__(self) -> None:
        states = ["Ready" if self.ready else "Unknown" if self.unknown else "NotReady"]
        states += ["GPULost"] if self.lost else []
        states += ["Cordoned"] if self.cordoned else []
        force_setattr(self, "state", ",".join(states))


class PodRow(Row, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """A pod. Its id is `namespace/name`."""

    phase: str
    state: str
    """As the STATUS column of `kubectl get pods`."""
    workload: str
    """Its top-level controller: `PodCliqueSet/default/disagg`, `Job/team/train`."""
    node: str = ""
    ready: bool = False
    reason: str = ""
    message: str = ""
    gang: str = ""
    """The id of its PodGang."""
    set: str = ""
    """The id of its PodCliqueSet."""
    clique: str = ""
    """The id of its PodClique."""
    queue: str = ""
    """Empty for the default queue."""
    scheduler: str = DEFAULT_SCHEDULER_NAME
    """Its `schedulerName`."""
    gpus: int = 0
    devices: tuple[tuple[int, float], ...] = ()
    """Index and share, 0 to 1, of each allocated device."""
    mig_instances: tuple[tuple[int, str, int], ...] = ()
    """MIG instances among them: index of the device, profile, first memory slice."""
    allocated_gpus: float = 0.0
    """Allocated GPUs, with shares of devices: 0 before it is bound and after it has finished.
    Computed."""
    failing: bool = False
    """Whether it failed or cannot start. Computed."""
    cpu: float = 0.0
    memory: int = 0
    restarts: int = 0
    created: float | None = None
    scheduled: float | None = None
    started: float | None = None
    ready_at: float | None = None
    finished: float | None = None

    def __post_init__(self) -> None:
        if self.node and self.phase not in TERMINAL_PHASES:
            shares = sum(share for _, share in self.devices)
            force_setattr(self, "allocated_gpus", shares if self.devices else float(self.gpus))
        failing = self.phase == "Failed" or _FAILURE_STATES.search(self.state) is not None
        force_setattr(self, "failing", failing)


class GangGroup(msgspec.Struct, frozen=True, gc=False):
    """A pod group of a gang, with the ids of its pods."""

    name: str
    min: int
    pods: tuple[str, ...]


class GangRow(Row, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """A PodGang. Its id is `namespace/name`."""

    phase: str
    groups: tuple[GangGroup, ...]
    set: str = ""
    queue: str = ""
    priority: str = ""
    pending_reason: str = ""
    """Why it is not placed."""
    reason: str = ""
    score: float | None = None
    required_topology: str = ""
    """The topology label of its required pack constraint."""
    preferred_topology: str = ""
    """The topology label of its preferred pack constraint."""
    base: str = ""
    """The id of the base gang that a scaled gang waits for."""
    created: float | None = None
    scheduled: float | None = None
    ready_at: float | None = None


class SetClique(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True):
    """A clique of a PodCliqueSet's template."""

    name: str
    replicas: int
    min: int
    role: str = ""
    after: tuple[str, ...] = ()
    gpus: int = 0
    """Of one pod."""


class SetRow(Row, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """A PodCliqueSet. Its id is `namespace/name`."""

    replicas: int
    cliques: tuple[SetClique, ...]
    available: int = 0
    scheduled: int = 0
    updated: int = 0
    startup: str = ""
    problem: str = ""
    """The most recent problem."""
    updating: bool = False
    deleting: bool = False
    workload: str = ""
    """The workload of its pods, if that is another object: it is no workload of its own then."""
    created: float | None = None


class CliqueRow(Row, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """A PodClique. Its id is `namespace/name`."""

    replicas: int
    min: int
    set: str = ""
    gang: str = ""
    role: str = ""
    ready: int = 0
    scheduled: int = 0
    created: float | None = None


class OwnerRow(Row, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """A Deployment, StatefulSet, Job or GPUWorkload. Its id is `namespace/name`."""

    kind: str
    replicas: int
    """Desired pods; of a Job, desired completions."""
    finished: str = ""
    """The outcome of a finished Job: `Completed` or `Failed`."""
    suspended: bool = False
    updating: bool = False
    deleting: bool = False
    stalled: bool = False
    """Whether its rollout makes no progress."""
    parallelism: int = 0
    ready: int = 0
    updated: int = 0
    available: int = 0
    active: int = 0
    succeeded: int = 0
    failed: int = 0
    gpus: int = 0
    """Of one pod."""
    queue: str = ""
    problem: str = ""
    conditions: tuple[ConditionRow, ...] = ()
    workload: str = ""
    """The workload of its pods, if that is another object: it is no workload of its own then."""
    created: float | None = None


class WorkloadRow(Row, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """A workload. Its id is `Kind/namespace/name`."""

    state: str
    pods: int = 0
    """Desired pods."""
    ready: int = 0
    """Pods that are ready or have succeeded."""
    gpus: float = 0.0
    """Requested GPUs; for shares of devices, the allocated ones."""
    queue: str = ""
    why: str = ""
    """Why it is not in its desired state."""
    created: float | None = None


class EventRow(Row, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """An event. Its id is `namespace/name`."""

    type: str
    reason: str
    object: str
    """The involved object: `Pod/default/x`, `Node/n1`."""
    message: str
    last: float
    count: int = 0
    first: float | None = None
    source: str = ""


class GpuMetricsRow(Row, frozen=True, gc=False, kw_only=True):
    """Live metrics of a node's GPUs, where they exist. Its id is the node's name."""

    gpus: tuple[GpuReading, ...]
    """Of those GPUs that are measured."""


class UsageRow(Row, frozen=True, gc=False, kw_only=True):
    """Usage of a node: shares, 0 to 1, of its allocatable resources. Its id is the node's name."""

    cpu: float
    memory: float
