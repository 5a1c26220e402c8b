"""What a backend is asked for, and what it answers. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from kilonova.api.grove import ClusterTopologyBinding, PodCliqueSet
from kilonova.api.json import JsonObject
from kilonova.api.podgang import PodGang
from kilonova.kube import Resource
from kilonova.workloads.resources import GANGS, Child
from kilonova.workloads.templates.labels import owner_reference


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a PodGroup is made from beside its gang."""

    set_: PodCliqueSet
    topologies: Mapping[str, ClusterTopologyBinding] = field(
        default_factory=dict[str, ClusterTopologyBinding]
    )
    """The binding that the gang names, if it is there."""
    spec_fields: frozenset[str] = frozenset()
    """Fields that the spec of a PodGroup has, by its definition on this cluster."""


@dataclass(frozen=True, slots=True)
class Mapped:
    """A PodGroup as it should be; a null wants a field to be absent.

    None where there can be none. `problem` says why, or what is left out.
    """

    body: JsonObject | None
    problem: str = ""


class Backend(Protocol):
    """A scheduler that knows gangs by PodGroups of its own."""

    @property
    def name(self) -> str:
        """By which pods name it."""
        ...

    @property
    def pod_groups(self) -> Resource[Child]:
        """Its kind of PodGroup."""
        ...

    @property
    def trouble(self) -> str:
        """Reason of the event that tells of a problem."""
        ...

    def pod_group(self, gang: PodGang, around: Surroundings) -> Mapped:
        """The PodGroup of a gang."""
        ...

    def beside_others(self, wanted: JsonObject, live: Child) -> JsonObject:
        """What is wanted of a PodGroup that is there, without what others decide from then on."""
        ...


def metadata_of(gang: PodGang) -> JsonObject:
    """Metadata of a gang's PodGroup: all that the gang says, and that it goes with the gang."""
    own = gang.metadata
    return {
        "name": own.name,
        "namespace": own.namespace,
        "labels": dict(own.labels),
        "annotations": dict(own.annotations),
        "ownerReferences": [owner_reference(GANGS, own)],
    }


def least_members(counts: Sequence[int]) -> int:
    """So many pods start together; schedulers do not take less than one."""
    return max(1, sum(counts))
