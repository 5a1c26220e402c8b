"""What each pod of a clique counts as. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kilonova.api.grove import PodClique, names
from kilonova.workloads.keys import incarnation_of
from kilonova.workloads.pods import is_ending, is_finished, is_ready, is_scheduled, pod_index
from kilonova.workloads.resources import Pod
from kilonova.workloads.room import leaves_room

_FOUND_BY = (names.MANAGED_BY, names.POD_CLIQUE, names.POD_INDEX)
_HASHES = (names.POD_TEMPLATE_HASH, names.GENERATION_HASH)


@dataclass(frozen=True, slots=True)
class Roster:
    """The pods of a clique, sorted; those that are ending are in none of the lists."""

    members: tuple[Pod, ...] = ()
    """By index, each of which one pod holds."""
    outdated: tuple[Pod, ...] = ()
    """Members of another template than the clique has now; what is done is not done again."""
    failed: tuple[Pod, ...] = ()
    """Kept to be counted, where pods run to an end."""
    dismissed: tuple[Pod, ...] = ()
    """Of no use any more, to be deleted."""
    names: frozenset[str] = frozenset()
    """Of all pods that are there: no other can have one of them."""
    leaves_room: bool = False
    """Whether a pod is ending that still has a node."""


def roster_of(clique: PodClique, pods: Iterable[Pod]) -> Roster:
    """Sort the pods that carry the clique's label."""
    incarnation, finite = incarnation_of(clique.metadata), runs_to_an_end(clique)
    names_: set[str] = set()
    failed: list[Pod] = []
    dismissed: list[Pod] = []
    holders: dict[int, Pod] = {}
    leaving = False
    for pod in pods:
        names_.add(pod.metadata.name)
        if is_ending(pod) or not is_own(clique, pod):
            leaving = leaving or leaves_room(pod)
            continue
        index = pod_index(pod)
        if (
            index is None
            or incarnation_of(pod.metadata) != incarnation
            or (is_finished(pod) and not (finite and _is_kept(clique, pod)))
        ):
            dismissed.append(pod)
        elif pod.status.phase == "Failed":
            failed.append(pod)
        elif index not in holders:
            holders[index] = pod
        else:
            better, worse = sorted((holders[index], pod), key=_standing)
            holders[index] = better
            dismissed.append(worse)
    members = tuple(holders[index] for index in sorted(holders))
    outdated = tuple(
        pod for pod in members if not is_current(clique, pod) and not has_succeeded(pod)
    )
    return Roster(members, outdated, tuple(failed), tuple(dismissed), frozenset(names_), leaving)


def is_own(clique: PodClique, pod: Pod) -> bool:
    """Whether a pod is of this very clique, not of one that had its name before."""
    owner = pod.metadata.controller
    return owner is not None and owner.uid == clique.metadata.uid


def lost_labels(pod: Pod, wanted: Mapping[str, str]) -> dict[str, str]:
    """Labels to put back on a pod of a clique that it is not found by.

    What template it was made from is not known without its hash: it counts as outdated.
    """
    own = pod.metadata.labels
    return {
        key: value
        for key, value in wanted.items()
        if (key not in own and key not in _HASHES) or (key in _FOUND_BY and own.get(key) != value)
    }


def index_in(pod: Pod) -> int:
    """The index of a member, which has one."""
    index = pod_index(pod)
    if index is None:
        raise ValueError(f"pod {pod.metadata.name} has no label {names.POD_INDEX}")
    return index


def runs_to_an_end(clique: PodClique) -> bool:
    """Whether pods of a clique have a piece of work, and then are done."""
    return clique.spec.pod_spec.get("restartPolicy", "Always") in ("Never", "OnFailure")


def has_succeeded(pod: Pod) -> bool:
    """Whether a pod has done its work."""
    return pod.status.phase == "Succeeded"


def is_up(pod: Pod) -> bool:
    """Whether a pod does its work, or has done it."""
    return is_ready(pod) or has_succeeded(pod)


def is_current(clique: PodClique, pod: Pod) -> bool:
    """Whether a pod is made from the template that the clique has now."""
    own, wanted = pod.metadata.labels, clique.metadata.labels
    return own.get(names.POD_TEMPLATE_HASH) == wanted.get(names.POD_TEMPLATE_HASH)


def needed(clique: PodClique) -> int:
    """How many pods a clique must have; it may be scaled below what it should always have."""
    return min(clique.min_available, clique.spec.replicas)


def _is_kept(clique: PodClique, pod: Pod) -> bool:
    """A pod that had to make room has not failed; nor is a template to blame for its forerunner."""
    return has_succeeded(pod) or (is_current(clique, pod) and not _was_evicted(pod))


def _was_evicted(pod: Pod) -> bool:
    return any(
        each.type == "DisruptionTarget" and each.status == "True" for each in pod.status.conditions
    )


def _standing(pod: Pod) -> tuple[bool, bool, bool, str, str]:
    """Sorts the pod first that has come furthest."""
    return (
        not has_succeeded(pod),
        not is_ready(pod),
        not is_scheduled(pod),
        pod.metadata.creation_timestamp,
        pod.metadata.name,
    )
