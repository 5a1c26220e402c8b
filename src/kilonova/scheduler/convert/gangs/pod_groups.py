"""PodGroups of Kubernetes and coscheduling as PodGangs.

A group is converted to the PodGang that describes the same pods; all later steps handle only gangs.
The names of such gangs begin with the kind, as kubectl writes it:
`podgroup.scheduling.k8s.io/NAMESPACE/NAME`. A PodGang that lists a pod takes precedence, then the
Kubernetes PodGroup that the pod names, then the coscheduling one.
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
from kilonova.scheduler.objects.core_v1 import Pod
from kilonova.scheduler.objects.pod_groups import (
    COSCHEDULING_POD_GROUPS,
    KUBERNETES_POD_GROUPS,
    CoschedulingPodGroup,
    KubernetesPodGroup,
)

COSCHEDULING_LABELS = ("scheduling.x-k8s.io/pod-group", "pod-group.scheduling.sigs.k8s.io")
"""Labels by which pods name a coscheduling group: the current one and its predecessor."""

COSCHEDULED_KIND = f"podgroup.{COSCHEDULING_POD_GROUPS.group}"
NATIVE_KIND = f"podgroup.{KUBERNETES_POD_GROUPS.group}"
POD_GROUP_KINDS = (NATIVE_KIND, COSCHEDULED_KIND)

PodGroupObject = CoschedulingPodGroup | KubernetesPodGroup


class PodGroupRef(NamedTuple):
    """A PodGroup that a pod names."""

    kind: str
    namespace: str
    name: str

    @property
    def gang_name(self) -> str:
        """The name of its gang."""
        return "/".join(self)


class PodGroupGang(PodGang, gc=False):
    """The gang of a PodGroup. Its namespace begins with the kind of the group."""

    priority: int | None = None
    """The priority of the group, which overrides that of its pods."""
    disrupt_as_group: bool = False
    """Whether all pods are disrupted together, including surplus pods."""


def is_pod_group_gang(gang: str) -> bool:
    """Whether a gang is a PodGroup."""
    return gang.startswith(POD_GROUP_KINDS)


def find_pod_group_ref(pod: Pod) -> PodGroupRef | None:
    """The group that a pod names."""
    labels, namespace = pod.metadata.labels, pod.metadata.namespace
    if names.POD_GANG in labels:
        return None
    native = pod.spec.scheduling_group
    if native is not None and native.pod_group_name:
        return PodGroupRef(NATIVE_KIND, namespace, native.pod_group_name)
    for label in COSCHEDULING_LABELS:
        if name := labels.get(label):
            return PodGroupRef(COSCHEDULED_KIND, namespace, name)
    return None


def pod_group_ref(group: PodGroupObject) -> PodGroupRef:
    """The reference by which pods name a group."""
    kind = COSCHEDULED_KIND if isinstance(group, CoschedulingPodGroup) else NATIVE_KIND
    return PodGroupRef(kind, group.metadata.namespace, group.metadata.name)


def convert_pod_group(group: PodGroupObject, pods: Iterable[Pod]) -> PodGroupGang | None:
    """The gang of a group and its pods; None without pods, or if they are scheduled one by one."""
    refs = sorted((pod.metadata.namespace, pod.metadata.name) for pod in pods)
    if not refs or not _is_placed_jointly(group):
        return None
    meta = group.metadata
    metadata = replace(meta, namespace=f"{pod_group_ref(group).kind}/{meta.namespace}")
    members = tuple(NamespacedName(*ref) for ref in refs)
    groups = (PodGroup(meta.name, members, pod_group_min_count(group)),)
    match group:
        case CoschedulingPodGroup():
            return PodGroupGang(
                metadata,
                PodGangSpec(groups),
                # It is unknown whether the group ever had its minimum. As in coscheduling, its pods
                # stay.
                PodGangStatus(last_scheduled=meta.creation_timestamp),
            )
        case KubernetesPodGroup():
            return PodGroupGang(
                metadata,
                PodGangSpec(groups, _convert_topology(group)),
                PodGangStatus(
                    conditions=group.status.conditions, last_scheduled=_scheduled_at(group)
                ),
                priority=group.spec.priority,
                disrupt_as_group=group.spec.disruption_mode == "PodGroup",
            )
        case _:
            assert_never(group)


def pod_group_min_count(group: PodGroupObject) -> int:
    """The minimum number of pods that are placed together."""
    if isinstance(group, CoschedulingPodGroup):
        return max(1, group.spec.min_member)
    gang = group.spec.scheduling_policy.gang
    return 1 if gang is None else max(1, gang.min_count)


def _is_placed_jointly(group: PodGroupObject) -> bool:
    """Whether the placement of a group's pods depends on each other."""
    if isinstance(group, CoschedulingPodGroup):
        return True
    return group.spec.scheduling_policy.gang is not None or _convert_topology(group) is not None


def _convert_topology(group: KubernetesPodGroup) -> TopologyConstraint | None:
    constraints = group.spec.scheduling_constraints
    if constraints is None or not constraints.topology:
        return None
    return TopologyConstraint(PackConstraint(required=constraints.topology[0].key))


def _scheduled_at(group: KubernetesPodGroup) -> str | None:
    condition = group.status.scheduled_condition
    return (
        condition.last_transition_time
        if condition is not None and condition.status == "True"
        else None
    )
