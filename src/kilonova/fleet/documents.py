"""The documents in the store of a fleet: what the manager decides, and what members observe.

- `desired/CLUSTER`: what a member is to run. The manager writes it, with its epoch.
- `observed/CLUSTER`: what a member runs, with a heartbeat. The member's agent writes it.
- `objects/KIND/NAMESPACE/NAME`: a Release or Deployment of the hub, with the state of its rollout,
  so that a manager with another hub can continue it.
- `journal/SEGMENT`: the latest decisions, the oldest overwritten first.
- `fleet`: the generation of the store, and the last epoch that a leader claimed.

An **epoch** orders leaders, a **sequence** the documents of one writer. Times are for people: no
clock is compared with that of another machine.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import msgspec

from kilonova.api.fleet import AcceleratorCount
from kilonova.api.inference_engine import EngineSpec
from kilonova.api.json import JsonObject
from kilonova.api.times import Time

T = TypeVar("T", bound=msgspec.Struct)

JOURNAL_SEGMENTS = 64
"""How many segments the journal has; a new one takes the place of the oldest."""


class Relocation(msgspec.Struct, frozen=True, gc=False):
    """Instances that their cluster could not place, and that were moved to another one."""

    number: int
    """Grows with each relocation of the deployment."""
    instances: int
    target: str
    """The clusters that they were moved to."""


class DesiredDeployment(msgspec.Struct, frozen=True, gc=False, rename="camel", kw_only=True):
    """An InferenceEngineDeployment that a member is to have."""

    namespace: str
    name: str
    global_deployment: str
    """The name of the Deployment of the fleet that it belongs to."""
    release: str
    """The name of the release that its template comes from."""
    template: EngineSpec
    replicas: int = 0
    """The number of instances; 0 asks only how many the member could place."""
    reason: str = ""
    """Why it is this number."""
    relocation: Relocation | None = None
    """The last relocation from this cluster, which the member reports on the instances."""


class Desired(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """All that a member is to run: a deployment of the fleet that is not in it is to be deleted."""

    cluster: str
    epoch: int
    sequence: int
    """Grows with each change within an epoch."""
    time: Time = ""
    deployments: tuple[DesiredDeployment, ...] = ()


class ReleaseCount(msgspec.Struct, frozen=True, gc=False):
    """Instances of one release."""

    release: str
    replicas: int = 0
    ready: int = 0


class ObservedDeployment(
    msgspec.Struct, frozen=True, gc=False, rename="camel", kw_only=True, omit_defaults=True
):
    """The state of an InferenceEngineDeployment in its cluster."""

    namespace: str
    name: str
    global_deployment: str = ""
    release: str = ""
    """The release of its template."""
    releases: tuple[ReleaseCount, ...] = ()
    """The releases that its instances run."""
    replicas: int = 0
    ready: int = 0
    updated: int = 0
    """The number of instances of the current template."""
    placed: int = 0
    """The number of instances whose agents have nodes."""
    failing: int = 0
    """The number of instances that failed after they were placed, or are being repaired."""
    unallocatable: int = 0
    """The number of instances that cannot be placed."""
    additional_replicas: int | None = None
    """How many more instances could be placed; None if that is not known."""
    message: str = ""
    """Why there could not be more."""
    problems: tuple[str, ...] = ()
    """What is wrong with it."""


class Observed(msgspec.Struct, frozen=True, rename="camel", kw_only=True, omit_defaults=True):
    """What a member runs."""

    cluster: str
    sequence: int
    """Grows with each report: a member whose sequence does not change is not reachable."""
    region: str = ""
    """Where it is, for a manager that registers members by themselves."""
    console: str = ""
    """The address of its console, likewise."""
    time: Time = ""
    accepted_epoch: int = 0
    """The highest epoch that the member has accepted: it refuses lower ones."""
    accepted_sequence: int = 0
    """The sequence of the desired document, of that epoch, that was applied last."""
    nodes: int = 0
    accelerators: tuple[AcceleratorCount, ...] = ()
    deployments: tuple[ObservedDeployment, ...] = ()
    reason: str = ""
    """Why the agent cannot observe its cluster: Api, Authentication. What it reports is then what
    it observed before."""
    problems: tuple[str, ...] = ()
    """What keeps the agent from applying what is desired."""


class SavedObject(msgspec.Struct, frozen=True, rename="camel", kw_only=True, omit_defaults=True):
    """An object of the hub's API, as another hub needs it to continue."""

    kind: str
    """`Release`, `Deployment` or `Cluster`."""
    namespace: str
    """Empty for a Cluster."""
    name: str
    epoch: int
    sequence: int = 0
    """Grows with each change within an epoch."""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    spec: JsonObject = {}
    state: JsonObject = {}
    """The status, with the state of the rollout."""
    deleted: bool = False
    """Whether it was deleted: a hub that still has it deletes it, too."""


class JournalEntry(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One decision."""

    time: Time
    epoch: int
    what: str
    """What was decided: "move 2 instances of chat from a to b"."""
    why: str
    cluster: str = ""
    object: str = ""
    """The Deployment concerned: `namespace/name`."""


class JournalSegment(msgspec.Struct, frozen=True):
    """Successive decisions; `number` grows from segment to segment."""

    number: int
    entries: tuple[JournalEntry, ...] = ()


class FleetRecord(msgspec.Struct, frozen=True, gc=False, rename="camel", kw_only=True):
    """The leaders of a store."""

    epoch: int
    """The epoch of the last leader."""
    holder: str = ""
    """The identity of that leader."""
    endpoint: str = ""
    """The endpoint of this store, as that leader was given it."""
    moved_to: str = ""
    """The endpoint that replaced this one."""
    copy_from: str = ""
    """The endpoint that documents are still to be copied from."""
    reclaimed: bool = False
    """Whether the store is to be used again although another one has replaced it."""
    nonce: str = ""
    time: Time = ""


@dataclass(frozen=True, slots=True)
class DocumentKind(Generic[T]):
    """Documents of one type, and the key of each."""

    prefix: str
    type: type[T]
    key_parts: Callable[[T], tuple[str, ...]]

    def key(self, *parts: str) -> str:
        """The key in the store, without an ending."""
        return "/".join((self.prefix, *(part or "-" for part in parts)))


DESIRED = DocumentKind("desired", Desired, lambda each: (each.cluster,))
OBSERVED = DocumentKind("observed", Observed, lambda each: (each.cluster,))
SAVED_OBJECTS = DocumentKind(
    "objects", SavedObject, lambda each: (each.kind.lower(), each.namespace, each.name)
)
JOURNAL = DocumentKind(
    "journal", JournalSegment, lambda each: (str(each.number % JOURNAL_SEGMENTS),)
)
FLEET = DocumentKind("fleet", FleetRecord, lambda each: ())
