"""Which pods may be placed, and which may start. Pure."""

from collections.abc import Iterable

from kilonova.api.grove import PodClique, PodCliqueScalingGroup, names
from kilonova.api.podgang import PodGang
from kilonova.workloads.cliques.roster import is_current, is_own, is_up, needed
from kilonova.workloads.conditions import holds
from kilonova.workloads.keys import incarnation_of
from kilonova.workloads.pods import is_ending, is_finished, is_gated
from kilonova.workloads.resources import Pod
from kilonova.workloads.templates.lookup import Member

SCHEDULED = "Scheduled"
"""The condition of a gang that has the nodes it needs."""


def has_gang(clique: PodClique, gang: PodGang | None) -> bool:
    """Whether pods may be made: one that belongs to a gang is of no use before it is there."""
    return names.POD_GANG not in clique.metadata.labels or _is_there(gang)


def placeable(
    clique: PodClique, gang: PodGang | None, base: PodGang | None
) -> frozenset[str] | None:
    """Names of the pods that may be placed; None for all, in a clique of nobody's gang."""
    labels = clique.metadata.labels
    if names.POD_GANG not in labels:
        return None
    if gang is None or not _is_there(gang):
        return frozenset()
    if names.BASE_POD_GANG in labels and not is_scheduled_gang(base):
        return frozenset()
    own = (each for each in gang.spec.pod_groups if each.name == clique.metadata.name)
    return frozenset(each.name for group in own for each in group.pod_references)


def is_scheduled_gang(gang: PodGang | None) -> bool:
    """Whether a gang has the nodes it needs."""
    return gang is not None and holds(gang.status.conditions, SCHEDULED)


def to_ungate(members: Iterable[Pod], listed: frozenset[str] | None) -> tuple[Pod, ...]:
    """The pods that wait for a gang which is there for them by now."""
    return tuple(
        pod for pod in members if is_gated(pod) and (listed is None or pod.metadata.name in listed)
    )


def unreleased(clique: PodClique, members: Iterable[Pod]) -> tuple[Pod, ...]:
    """The pods that wait in their init container for cliques that theirs starts after."""
    if not clique.spec.starts_after:
        return ()
    return tuple(pod for pod in members if not is_released(pod) and not is_finished(pod))


def is_released(pod: Pod) -> bool:
    """Whether a pod has been told that what it starts after has started."""
    return bool(pod.metadata.annotations.get(names.RELEASED))


def has_started(dependency: PodClique, pods: Iterable[Pod]) -> bool:
    """Whether others may start after a clique, by what its pods show."""
    incarnation = incarnation_of(dependency.metadata)
    own = (pod for pod in pods if incarnation_of(pod.metadata) == incarnation)
    return sum(is_up(pod) and not is_ending(pod) for pod in own) >= needed(dependency)


def is_scaled_in(member: Member, group: PodCliqueScalingGroup | None) -> bool:
    """Whether a clique need not be there, as its scaling group has fewer replicas than it must."""
    return group is not None and member.index >= group.spec.replicas


def is_left_behind(clique: PodClique, pods: Iterable[Pod], revision: str) -> bool:
    """Whether a clique is of another revision, or has pods of what it was before.

    One that is going makes no more pods: without any it is in nobody's way.
    """
    known = clique.metadata
    working = [
        pod for pod in pods if is_own(clique, pod) and not is_ending(pod) and not is_finished(pod)
    ]
    if known.labels.get(names.GENERATION_HASH) != revision:
        return bool(working) or known.deletion_timestamp is None
    incarnation = incarnation_of(known)
    return any(
        not is_current(clique, pod) or incarnation_of(pod.metadata) != incarnation
        for pod in working
    )


def _is_there(gang: PodGang | None) -> bool:
    return gang is not None and gang.metadata.deletion_timestamp is None
