"""What a definition says of a kind beside its schema: names, columns, subresources."""

from dataclasses import dataclass

import msgspec

from kilonova.api import grove, podgang, scheduling
from kilonova.api.json import JsonObject


@dataclass(frozen=True, slots=True)
class Column:
    """A column of `kubectl get`; a wide one is shown with `-o wide` only."""

    name: str
    type: str
    path: str
    wide: bool = False

    def json(self) -> JsonObject:
        """As it stands in the definition."""
        column = {"name": self.name, "type": self.type, "jsonPath": self.path}
        return {**column, "priority": 1} if self.wide else column


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind to define. `selector` is where `/scale` finds it; empty for what is not scaled."""

    type: type[msgspec.Struct]
    group: str
    version: str
    plural: str
    short: str
    columns: tuple[Column, ...]
    namespaced: bool = True
    selector: str = ""

    @property
    def name(self) -> str:
        """As in the code, so on the wire."""
        return self.type.__name__


_AGE = Column("Age", "date", ".metadata.creationTimestamp")
_PROGRESS = ".status.updateProgress."
_RESERVED = '.status.conditions[?(@.type=="Reserved")]'
_BREACHED = '.status.conditions[?(@.type=="MinAvailableBreached")].status'


def _count(name: str, path: str, *, wide: bool = False) -> Column:
    return Column(name, "integer", path, wide)


KINDS = (
    Kind(
        grove.PodCliqueSet,
        grove.GROUP,
        grove.VERSION,
        "podcliquesets",
        "pcs",
        (
            _count("Replicas", ".spec.replicas"),
            _count("Available", ".status.availableReplicas"),
            _count("Updated", ".status.updatedReplicas"),
            _count("PCLQs-Updated", _PROGRESS + "updatedPodCliquesCount"),
            _count("PCLQs-Total", _PROGRESS + "totalPodCliquesCount"),
            _count("PCSGs-Updated", _PROGRESS + "updatedPodCliqueScalingGroupsCount"),
            _count("PCSGs-Total", _PROGRESS + "totalPodCliqueScalingGroupsCount"),
            _AGE,
        ),
        selector=".status.hpaPodSelector",
    ),
    Kind(
        grove.PodClique,
        grove.GROUP,
        grove.VERSION,
        "podcliques",
        "pclq",
        (
            _count("MinAvail", ".spec.minAvailable"),
            _count("Replicas", ".spec.replicas"),
            _count("Ready", ".status.readyReplicas"),
            _count("Scheduled", ".status.scheduledReplicas"),
            _count("Updated", ".status.updatedReplicas"),
            _count("Gated", ".status.scheduleGatedReplicas", wide=True),
            Column("MinBreached", "string", _BREACHED, wide=True),
            _AGE,
        ),
        selector=".status.hpaPodSelector",
    ),
    Kind(
        grove.PodCliqueScalingGroup,
        grove.GROUP,
        grove.VERSION,
        "podcliquescalinggroups",
        "pcsg",
        (
            _count("MinAvail", ".spec.minAvailable"),
            _count("Replicas", ".spec.replicas"),
            _count("Available", ".status.availableReplicas"),
            _count("Scheduled", ".status.scheduledReplicas"),
            _count("Updated", ".status.updatedReplicas"),
            _count("PCLQs-Updated", _PROGRESS + "updatedPodCliquesCount"),
            _count("PCLQs-Total", _PROGRESS + "totalPodCliquesCount"),
            Column("MinBreached", "string", _BREACHED, wide=True),
            _AGE,
        ),
        selector=".status.selector",
    ),
    Kind(
        grove.ClusterTopologyBinding,
        grove.GROUP,
        grove.VERSION,
        "clustertopologybindings",
        "ct",
        (Column("Domains", "string", ".spec.levels[*].domain"), _AGE),
        namespaced=False,
    ),
    Kind(
        podgang.PodGang,
        podgang.GROUP,
        podgang.VERSION,
        "podgangs",
        "pg",
        (Column("Phase", "string", ".status.phase"), _AGE),
    ),
    Kind(
        scheduling.Queue,
        scheduling.GROUP,
        scheduling.VERSION,
        "queues",
        "kq",
        (
            Column("Parent", "string", ".spec.parent"),
            Column("Ready", "string", '.status.conditions[?(@.type=="Ready")].status'),
            _count("Pending", ".status.pendingGangs"),
            Column("GPUs", "string", r".status.allocated.nvidia\.com/gpu"),
            Column("Deserved", "string", r".spec.deserved.nvidia\.com/gpu"),
            Column("Limit", "string", r".spec.limit.nvidia\.com/gpu"),
            _count("Weight", ".spec.weight", wide=True),
            _count("Priority", ".spec.priority", wide=True),
            _AGE,
        ),
        namespaced=False,
    ),
    Kind(
        scheduling.Reservation,
        scheduling.GROUP,
        scheduling.VERSION,
        "reservations",
        "rsv",
        (
            Column("Phase", "string", ".status.phase"),
            Column("Reason", "string", f"{_RESERVED}.reason"),
            Column("Gang", "string", ".status.usedBy.name"),
            Column("Start", "string", ".spec.start"),
            Column("Expires", "string", ".status.expiresAt"),
            Column("Queue", "string", ".spec.queue", wide=True),
            Column("Message", "string", f"{_RESERVED}.message", wide=True),
            _AGE,
        ),
    ),
)
