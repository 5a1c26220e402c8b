"""The interface of scheduler backends. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from kilonova.api.grove import ClusterTopologyBinding, PodCliqueSet
from kilonova.api.json import JsonObject
from kilonova.api.podgang import PodGang
from kilonova.kube import Resource
from kilonova.kube.owner_references import build_owner_reference
from kilonova.workloads.resources import GANGS, ChildObject


@dataclass(frozen=True, slots=True)
class PodGroupContext:
    """What a PodGroup is built from besides its gang."""

    set_: PodCliqueSet
    topologies: Mapping[str, ClusterTopologyBinding] = field(
        default_factory=dict[str, ClusterTopologyBinding]
    )
    """The binding that the gang names, if it exists."""
    spec_fields: frozenset[str] = frozenset()
    """Fields of a PodGroup's spec, by the CRD of this cluster."""


@dataclass(frozen=True, slots=True)
class MappingResult:
    """The desired PodGroup, in which null means that a field must be absent.

    `body` is None where no PodGroup can be built. `problem` states why, or what is left out.
    """

    body: JsonObject | None
    problem: str = ""


class SchedulerBackend(Protocol):
    """A scheduler that represents gangs by PodGroups of its own."""

    @property
    def name(self) -> str:
        """The schedulerName of its pods."""
        ...

    @property
    def pod_groups(self) -> Resource[ChildObject]:
        """Its kind of PodGroup."""
        ...

    @property
    def failure_reason(self) -> str:
        """Reason of the event that reports a problem."""
        ...

    def build_pod_group(self, gang: PodGang, context: PodGroupContext) -> MappingResult:
        """Build the PodGroup of a gang."""
        ...

    def drop_fields_of_others(self, wanted: JsonObject, live: ChildObject) -> JsonObject:
        """The desired PodGroup without fields that other components own once it exists."""
        ...


def build_pod_group_metadata(gang: PodGang) -> JsonObject:
    """Metadata of a gang's PodGroup: the gang's labels and annotations, and the owner reference."""
    own = gang.metadata
    return {
        "name": own.name,
        "namespace": own.namespace,
        "labels": dict(own.labels),
        "annotations": dict(own.annotations),
        "ownerReferences": [build_owner_reference(GANGS, own)],
    }


def compute_min_member(counts: Sequence[int]) -> int:
    """How many pods start together; schedulers require at least one."""
    return max(1, sum(counts))
