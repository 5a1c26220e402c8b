"""Other people's groups of pods, as the gangs that they mean.

A group is read into the PodGang that somebody would have written for the same pods; everything
after that knows gangs only. The names of such gangs begin with their kind, as kubectl writes it:
`podgroup.scheduling.k8s.io/NAMESPACE/NAME`. A PodGang that lists a pod comes first, then the group
of Kubernetes that the pod names, then that of coscheduling.
"""

from collections.abc import Iterable
from typing import NamedTuple, assert_never

from msgspec.structs import replace

from kilonova.api.grove import names
from kilonova.api.podgang import (
    NamespacedName,
    PackConstraint,
    PodGang,
    PodGangSpec,
    PodGangStatus,
    PodGroup,
    TopologyConstraint,
)
from kilonova.scheduler.groupobjects import COSCHEDULED, NATIVE, CoscheduledGroup, NativeGroup
from kilonova.scheduler.objects import Pod

COSCHEDULING_LABELS = ("scheduling.x-k8s.io/pod-group", "pod-group.scheduling.sigs.k8s.io")
"""By which pods name a group of coscheduling: as it is written now, and as it was before."""

COSCHEDULED_KIND = f"podgroup.{COSCHEDULED.group}"
NATIVE_KIND = f"podgroup.{NATIVE.group}"
KINDS = (NATIVE_KIND, COSCHEDULED_KIND)

Group = CoscheduledGroup | NativeGroup


class GroupRef(NamedTuple):
    """A group that a pod names."""

    kind: str
    namespace: str
    name: str

    @property
    def gang(self) -> str:
        """What its gang is called."""
        return "/".join(self)


class GroupGang(PodGang, gc=False):
    """The gang that a group means. Its namespace begins with the kind of the group."""

    priority: int | None = None
    """That of the group, which counts instead of that of its pods."""
    whole: bool = False
    """Whether all of it goes if any of it has to, also what it has beyond its minimum."""


def is_of_group(gang: str) -> bool:
    """Whether a gang of that name is a group of others."""
    return gang.startswith(KINDS)


def group_named(pod: Pod) -> GroupRef | None:
    """The group that a pod says it belongs to."""
    labels, namespace = pod.metadata.labels, pod.metadata.namespace
    if names.POD_GANG in labels:
        return None
    native = pod.spec.scheduling_group
    if native is not None and native.pod_group_name:
        return GroupRef(NATIVE_KIND, namespace, native.pod_group_name)
    for label in COSCHEDULING_LABELS:
        if name := labels.get(label):
            return GroupRef(COSCHEDULED_KIND, namespace, name)
    return None


def ref_of(group: Group) -> GroupRef:
    """How pods mean a group."""
    kind = COSCHEDULED_KIND if isinstance(group, CoscheduledGroup) else NATIVE_KIND
    return GroupRef(kind, group.metadata.namespace, group.metadata.name)


def gang_of_group(group: Group, pods: Iterable[Pod]) -> GroupGang | None:
    """The gang that a group and its pods are; None if there are none, or each is on its own."""
    refs = sorted((pod.metadata.namespace, pod.metadata.name) for pod in pods)
    if not refs or not _belong_together(group):
        return None
    meta = group.metadata
    metadata = replace(meta, namespace=f"{ref_of(group).kind}/{meta.namespace}")
    members = tuple(NamespacedName(*ref) for ref in refs)
    groups = (PodGroup(meta.name, members, minimum_of(group)),)
    match group:
        case CoscheduledGroup():
            return GroupGang(
                metadata,
                PodGangSpec(groups),
                # Nobody can say whether it ever had all of its pods. As there, what it has stays.
                PodGangStatus(last_scheduled=meta.creation_timestamp),
            )
        case NativeGroup():
            return GroupGang(
                metadata,
                PodGangSpec(groups, _topology(group)),
                PodGangStatus(
                    conditions=group.status.conditions, last_scheduled=_scheduled_at(group)
                ),
                priority=group.spec.priority,
                whole=group.spec.disruption_mode == "PodGroup",
            )
        case _:
            assert_never(group)


def minimum_of(group: Group) -> int:
    """How many pods must have a place together."""
    if isinstance(group, CoscheduledGroup):
        return max(1, group.spec.min_member)
    gang = group.spec.scheduling_policy.gang
    return 1 if gang is None else max(1, gang.min_count)


def _belong_together(group: Group) -> bool:
    """Whether it matters to the pods of a group where the others are."""
    if isinstance(group, CoscheduledGroup):
        return True
    return group.spec.scheduling_policy.gang is not None or _topology(group) is not None


def _topology(group: NativeGroup) -> TopologyConstraint | None:
    constraints = group.spec.scheduling_constraints
    if constraints is None or not constraints.topology:
        return None
    return TopologyConstraint(PackConstraint(required=constraints.topology[0].key))


def _scheduled_at(group: NativeGroup) -> str | None:
    told = group.status.scheduled
    return told.last_transition_time if told is not None and told.status == "True" else None
