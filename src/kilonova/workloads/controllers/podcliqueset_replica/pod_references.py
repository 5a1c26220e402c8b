"""The names of pods that a clique has or will have. Pure.

The PodClique controller creates pods with the same names, at the lowest free indexes, so that a
gang can list them before they exist.
"""

from collections.abc import Iterable, Iterator
from itertools import count, islice

from kilonova.api.grove import PodClique
from kilonova.kube.status import is_condition_true
from kilonova.workloads.builders.pods import choose_pod_name
from kilonova.workloads.controllers.podclique.completion import COMPLETE_CONDITION, FAILED_CONDITION
from kilonova.workloads.pods.classification import ClassifiedPods, require_pod_index


def list_pod_names(clique: str, replicas: int, pods: ClassifiedPods) -> tuple[str, ...]:
    """Sorted names of the members and of the pods that are still to be created."""
    used_indexes = {require_pod_index(pod) for pod in pods.members}
    missing = islice(
        (each for each in count() if each not in used_indexes), max(0, replicas - len(used_indexes))
    )
    present = (pod.metadata.name for pod in pods.members)
    return tuple(sorted([*present, *_generate_names(clique, missing, pods.names)]))


def count_desired_pods(clique: PodClique) -> int:
    """How many pods a clique will have; a complete or failed clique gets no more."""
    conditions = clique.status.conditions
    is_finished = is_condition_true(conditions, FAILED_CONDITION) or is_condition_true(
        conditions, COMPLETE_CONDITION
    )
    return 0 if is_finished else clique.spec.replicas


def count_indexes(replicas: int, pods: ClassifiedPods) -> int:
    """One more than the greatest index that a pod has or will have."""
    return max([replicas, *(require_pod_index(pod) + 1 for pod in pods.members)])


def _generate_names(clique: str, indexes: Iterable[int], taken: frozenset[str]) -> Iterator[str]:
    # Two indexes may have a name in common.
    used = set(taken)
    for index in indexes:
        name = choose_pod_name(clique, index, used)
        used.add(name)
        yield name
