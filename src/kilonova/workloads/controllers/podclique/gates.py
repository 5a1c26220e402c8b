"""Which pods may be scheduled, and which may start. Pure."""

from collections.abc import Iterable

from kilonova.api.grove import PodClique, PodCliqueScalingGroup, names
from kilonova.api.podgang import PodGang
from kilonova.kube.status import is_condition_true
from kilonova.workloads.builders.template_lookup import GroupMember
from kilonova.workloads.keys import get_incarnation
from kilonova.workloads.pods.classification import (
    count_required_pods,
    is_controlled_by,
    is_current,
    is_ready_or_succeeded,
)
from kilonova.workloads.pods.state import is_finished, is_gated, is_terminating
from kilonova.workloads.resources import Pod

GANG_SCHEDULED_CONDITION = "Scheduled"
"""The condition of a gang whose required pods have nodes."""


def is_gang_present(clique: PodClique, gang: PodGang | None) -> bool:
    """Whether pods may be created: the gang of a clique must exist before its pods."""
    return names.POD_GANG not in clique.metadata.labels or _is_present(gang)


def list_schedulable_names(
    clique: PodClique, gang: PodGang | None, base: PodGang | None
) -> frozenset[str] | None:
    """Names of the pods that may be scheduled; None for all, in a clique without a gang."""
    labels = clique.metadata.labels
    if names.POD_GANG not in labels:
        return None
    if gang is None or not _is_present(gang):
        return frozenset()
    if names.BASE_POD_GANG in labels and not is_gang_scheduled(base):
        return frozenset()
    own = (each for each in gang.spec.pod_groups if each.name == clique.metadata.name)
    return frozenset(each.name for group in own for each in group.pod_references)


def is_gang_scheduled(gang: PodGang | None) -> bool:
    """Whether the required pods of a gang have nodes."""
    return gang is not None and is_condition_true(gang.status.conditions, GANG_SCHEDULED_CONDITION)


def select_pods_to_ungate(members: Iterable[Pod], listed: frozenset[str] | None) -> tuple[Pod, ...]:
    """The gated pods that their gang lists by now."""
    return tuple(
        pod for pod in members if is_gated(pod) and (listed is None or pod.metadata.name in listed)
    )


def select_unreleased_pods(clique: PodClique, members: Iterable[Pod]) -> tuple[Pod, ...]:
    """The pods that wait in their init container for startup dependencies."""
    if not clique.spec.starts_after:
        return ()
    return tuple(pod for pod in members if not is_released(pod) and not is_finished(pod))


def is_released(pod: Pod) -> bool:
    """Whether a pod has been released: its startup dependencies are met."""
    return bool(pod.metadata.annotations.get(names.STARTUP_RELEASED))


def has_clique_started(dependency: PodClique, pods: Iterable[Pod]) -> bool:
    """Whether a clique has started, so that its dependents may start."""
    incarnation = get_incarnation(dependency.metadata)
    own = (pod for pod in pods if get_incarnation(pod.metadata) == incarnation)
    return sum(
        is_ready_or_succeeded(pod) and not is_terminating(pod) for pod in own
    ) >= count_required_pods(dependency)


def is_scaled_in(member: GroupMember, group: PodCliqueScalingGroup | None) -> bool:
    """Whether a clique need not exist because its scaling group has fewer replicas than
    minAvailable.
    """
    return group is not None and member.index >= group.spec.replicas


def has_other_revision(clique: PodClique, pods: Iterable[Pod], revision: str) -> bool:
    """Whether a clique has another revision, or active pods of one.

    A clique that is being deleted creates no more pods: without pods it is ignored.
    """
    known = clique.metadata
    active = [
        pod
        for pod in pods
        if is_controlled_by(clique, pod) and not is_terminating(pod) and not is_finished(pod)
    ]
    if known.labels.get(names.GENERATION_HASH) != revision:
        return bool(active) or known.deletion_timestamp is None
    incarnation = get_incarnation(known)
    return any(
        not is_current(clique, pod) or get_incarnation(pod.metadata) != incarnation
        for pod in active
    )


def _is_present(gang: PodGang | None) -> bool:
    return gang is not None and gang.metadata.deletion_timestamp is None
