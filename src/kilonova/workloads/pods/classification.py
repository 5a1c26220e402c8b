"""What each pod of a clique counts as. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kilonova.api.grove import PodClique, names
from kilonova.workloads.keys import get_incarnation
from kilonova.workloads.pods.schedulability import is_releasing_capacity
from kilonova.workloads.pods.state import (
    get_pod_index,
    is_finished,
    is_ready,
    is_scheduled,
    is_terminating,
)
from kilonova.workloads.resources import Pod

_SELECTED_LABELS = (names.MANAGED_BY, names.POD_CLIQUE, names.POD_INDEX)
_HASH_LABELS = (names.POD_TEMPLATE_HASH, names.GENERATION_HASH)


@dataclass(frozen=True, slots=True)
class ClassifiedPods:
    """The pods of a clique by what they count as; terminating pods are in none of the lists."""

    members: tuple[Pod, ...] = ()
    """One pod per index, sorted by index."""
    outdated: tuple[Pod, ...] = ()
    """Members of another template than the clique's; pods that have succeeded are not replaced."""
    failed: tuple[Pod, ...] = ()
    """Kept to be counted, in cliques that run to completion."""
    to_delete: tuple[Pod, ...] = ()
    """Not needed any more, to be deleted."""
    names: frozenset[str] = frozenset()
    """Names of all existing pods, which no new pod can have."""
    is_releasing_capacity: bool = False
    """Whether a pod is terminating that still has a node."""


def classify_pods(clique: PodClique, pods: Iterable[Pod]) -> ClassifiedPods:
    """Classify the pods that carry the clique's label."""
    incarnation, finite = get_incarnation(clique.metadata), runs_to_completion(clique)
    names_: set[str] = set()
    failed: list[Pod] = []
    to_delete: list[Pod] = []
    by_index: dict[int, Pod] = {}
    releasing = False
    for pod in pods:
        names_.add(pod.metadata.name)
        if is_terminating(pod) or not is_controlled_by(clique, pod):
            releasing = releasing or is_releasing_capacity(pod)
            continue
        index = get_pod_index(pod)
        if (
            index is None
            or get_incarnation(pod.metadata) != incarnation
            or (is_finished(pod) and not (finite and _counts_as_finished(clique, pod)))
        ):
            to_delete.append(pod)
        elif pod.status.phase == "Failed":
            failed.append(pod)
        elif index not in by_index:
            by_index[index] = pod
        else:
            better, worse = sorted((by_index[index], pod), key=_preference_rank)
            by_index[index] = better
            to_delete.append(worse)
    members = tuple(by_index[index] for index in sorted(by_index))
    outdated = tuple(
        pod for pod in members if not is_current(clique, pod) and not has_succeeded(pod)
    )
    return ClassifiedPods(
        members, outdated, tuple(failed), tuple(to_delete), frozenset(names_), releasing
    )


def is_controlled_by(clique: PodClique, pod: Pod) -> bool:
    """Whether a pod is owned by this clique, not by an earlier clique of the same name."""
    owner = pod.metadata.controller
    return owner is not None and owner.uid == clique.metadata.uid


def find_lost_labels(pod: Pod, wanted: Mapping[str, str]) -> dict[str, str]:
    """Labels to restore on a pod of a clique that selectors no longer match.

    Without its hash label the template of a pod is unknown: it counts as outdated.
    """
    own = pod.metadata.labels
    return {
        key: value
        for key, value in wanted.items()
        if (key not in own and key not in _HASH_LABELS)
        or (key in _SELECTED_LABELS and own.get(key) != value)
    }


def require_pod_index(pod: Pod) -> int:
    """The index of a member, which always has one."""
    index = get_pod_index(pod)
    if index is None:
        raise ValueError(f"pod {pod.metadata.name} has no label {names.POD_INDEX}")
    return index


def runs_to_completion(clique: PodClique) -> bool:
    """Whether the pods of a clique terminate when their work is done."""
    return clique.spec.pod_spec.get("restartPolicy", "Always") in ("Never", "OnFailure")


def has_succeeded(pod: Pod) -> bool:
    """Whether a pod has run to completion."""
    return pod.status.phase == "Succeeded"


def is_ready_or_succeeded(pod: Pod) -> bool:
    """Whether a pod is ready or has run to completion."""
    return is_ready(pod) or has_succeeded(pod)


def is_current(clique: PodClique, pod: Pod) -> bool:
    """Whether a pod is made from the current template of the clique."""
    own, wanted = pod.metadata.labels, clique.metadata.labels
    return own.get(names.POD_TEMPLATE_HASH) == wanted.get(names.POD_TEMPLATE_HASH)


def count_required_pods(clique: PodClique) -> int:
    """How many pods a clique must have; it may be scaled below minAvailable."""
    return min(clique.min_available, clique.spec.replicas)


def _counts_as_finished(clique: PodClique, pod: Pod) -> bool:
    """An evicted pod has not failed, and a pod of an older template does not count against the new
    one.
    """
    return has_succeeded(pod) or (is_current(clique, pod) and not _was_evicted(pod))


def _was_evicted(pod: Pod) -> bool:
    return any(
        each.type == "DisruptionTarget" and each.status == "True" for each in pod.status.conditions
    )


def _preference_rank(pod: Pod) -> tuple[bool, bool, bool, str, str]:
    """Sorts the pod first that has progressed furthest."""
    return (
        not has_succeeded(pod),
        not is_ready(pod),
        not is_scheduled(pod),
        pod.metadata.creation_timestamp,
        pod.metadata.name,
    )
