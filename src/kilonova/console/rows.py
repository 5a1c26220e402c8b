"""What the page shows of each object. `frontend/src/rows.ts` says the same in its language.

Camel case on the wire; a field that has its default is left out. Times are seconds since the epoch,
None where they are not known.
"""

import re

import msgspec
from msgspec.structs import force_setattr

from kilonova.api.times import parse_time

Amounts = dict[str, int | float]
"""Plain numbers by the name of a resource: `{"nvidia.com/gpu": 8}`."""


ENDED = ("Succeeded", "Failed")
"""Phases of pods that will not run again."""

_BROKEN = re.compile(r"BackOff|Err|OOMKilled|Invalid|Failed|Lost|Evicted|Unexpected", re.ASCII)


class Row(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """What all rows have: an id that is unique in its table."""

    id: str


class NodeRow(Row, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """A node. `problem` says in words why it is not ready, or what else is wrong with it."""

    ready: bool
    unknown: bool = False
    """Whether its kubelet does not report."""
    state: str = ""
    """`Ready`, `NotReady` or `Unknown`, and then what else it is: `Ready,GPULost,Cordoned`. Follows
    from the rest."""
    cpu: float
    """Cores that can be given to pods."""
    ram: int
    """Bytes that can be given to pods."""
    zone: str = ""
    block: str = ""
    rack: str = ""
    kind: str = ""
    product: str = ""
    clique: str = ""
    """The NVLink domain."""
    fabric: str = ""
    """`NVSwitch` or `NVLink`, by which its GPUs are joined."""
    gpus: int = 0
    memory: int = 0
    """MiB of one GPU."""
    lost: tuple[int, ...] = ()
    """Indices of GPUs that are not healthy."""
    cordoned: bool = False
    problem: str = ""
    taints: tuple[str, ...] = ()
    max_pods: int = 0
    price: float | None = None
    """USD per GPU and hour."""
    created: float | None = None

    def __post_init__(self) -> None:
        words = ["Ready" if self.ready else "Unknown" if self.unknown else "NotReady"]
        words += ["GPULost"] if self.lost else []
        words += ["Cordoned"] if self.cordoned else []
        force_setattr(self, "state", ",".join(words))


class PodRow(Row, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """A pod. `state` is one word, as in `kubectl get pods`."""

    phase: str
    state: str
    workload: str
    """Whom it belongs to in people's eyes: `PodCliqueSet/default/disagg`, `Job/team/train`."""
    node: str = ""
    ready: bool = False
    reason: str = ""
    message: str = ""
    gang: str = ""
    set: str = ""
    clique: str = ""
    queue: str = ""
    scheduler: str = "default-scheduler"
    """The one that is to place it."""
    gpus: int = 0
    devices: tuple[tuple[int, float], ...] = ()
    """Index and share, 0 to 1, of each device that it was given."""
    held: float = 0.0
    """GPUs that it holds, parts of devices included: none before it has a node and once it has
    ended. Follows from the rest."""
    broken: bool = False
    """Whether it failed or cannot run, rather than being late. Follows from the rest."""
    cpu: float = 0.0
    ram: int = 0
    restarts: int = 0
    created: float | None = None
    scheduled: float | None = None
    started: float | None = None
    ready_at: float | None = None
    finished: float | None = None

    def __post_init__(self) -> None:
        if self.node and self.phase not in ENDED:
            shares = sum(share for _, share in self.devices)
            force_setattr(self, "held", shares if self.devices else float(self.gpus))
        broken = self.phase == "Failed" or _BROKEN.search(self.state) is not None
        force_setattr(self, "broken", broken)


class GangGroup(msgspec.Struct, frozen=True, gc=False):
    """Pods of one role in a gang, by their ids."""

    name: str
    min: int
    pods: tuple[str, ...]


class GangRow(Row, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """A gang. `waits` says why it has no place."""

    phase: str
    groups: tuple[GangGroup, ...]
    set: str = ""
    queue: str = ""
    priority: str = ""
    waits: str = ""
    reason: str = ""
    score: float | None = None
    pack: str = ""
    """Label in one value of which it must stand."""
    prefers: str = ""
    base: str = ""
    created: float | None = None
    scheduled: float | None = None
    ready_at: float | None = None


class SetClique(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True):
    """A role in every replica of a set; `gpus` of one pod."""

    name: str
    replicas: int
    min: int
    role: str = ""
    after: tuple[str, ...] = ()
    gpus: int = 0


class SetRow(Row, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """A PodCliqueSet. `problem` is the newest thing that is wrong with it."""

    replicas: int
    cliques: tuple[SetClique, ...]
    available: int = 0
    scheduled: int = 0
    updated: int = 0
    startup: str = ""
    problem: str = ""
    updating: bool = False
    deleting: bool = False
    created: float | None = None


class CliqueRow(Row, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """A PodClique: how many of its pods are how far."""

    replicas: int
    min: int
    set: str = ""
    gang: str = ""
    role: str = ""
    ready: int = 0
    scheduled: int = 0
    created: float | None = None


class ConditionRow(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True):
    """A condition of an object, and since when it is so."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    since: float | None = None


class OwnerRow(Row, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """A Deployment, StatefulSet or Job. `problem` is what keeps it from having its pods."""

    kind: str
    replicas: int
    """Pods that it should have; of a Job, those that have to succeed."""
    finished: str = ""
    """Of a Job that is decided: `Completed` or `Failed`."""
    suspended: bool = False
    updating: bool = False
    deleting: bool = False
    stuck: bool = False
    """Whether a rollout makes no progress."""
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
    created: float | None = None


class WorkloadRow(Row, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """What somebody runs, and how it is. Its id is `Kind/namespace/name`."""

    state: str
    pods: int = 0
    """Pods that it should have."""
    ready: int = 0
    """Pods that are ready, or have succeeded."""
    gpus: float = 0.0
    """Asked for; where only parts of devices are, those that are held."""
    queue: str = ""
    why: str = ""
    """Why it is not running as it should, in words."""
    created: float | None = None


class QueueRow(Row, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """A queue. `message` says what to repair while it is not ready. One that is `new` no scheduler
    has looked at."""

    weight: int
    ready: bool
    parent: str = ""
    priority: int = 0
    deserved: Amounts = {}
    limit: Amounts = {}
    used: Amounts = {}
    requested: Amounts = {}
    fair_share: Amounts = {}
    waiting: int = 0
    message: str = ""
    new: bool = False
    created: float | None = None


class EventRow(Row, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """An event. `object` is what it is about: `Pod/default/x`, `Node/n1`."""

    type: str
    reason: str
    object: str
    message: str
    last: float
    count: int = 0
    first: float | None = None
    source: str = ""


class UsageRow(Row, frozen=True, gc=False, kw_only=True):
    """What a node uses: shares, 0 to 1, of what it has for pods."""

    cpu: float
    memory: float


def moment(text: str | None) -> float | None:
    """A time of the API in seconds since the epoch; None where there is none that can be read."""
    if not text:
        return None
    try:
        return parse_time(text).timestamp()
    except ValueError:
        return None
