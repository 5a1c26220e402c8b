"""Which pods a clique has or will have, by name. Pure.

The clique's own controller makes pods under the same names, at the lowest free indexes, so that a
gang can list them before they are there.
"""

from collections.abc import Iterable, Iterator
from itertools import count, islice

from kilonova.api.grove import PodClique
from kilonova.workloads.cliques.completion import COMPLETE, FAILED
from kilonova.workloads.cliques.roster import Roster, index_in
from kilonova.workloads.conditions import holds
from kilonova.workloads.templates.pods import pod_name


def pod_names(clique: str, replicas: int, roster: Roster) -> tuple[str, ...]:
    """Names of the members, and of the pods that are still to be made, sorted."""
    held = {index_in(pod) for pod in roster.members}
    missing = islice((each for each in count() if each not in held), max(0, replicas - len(held)))
    present = (pod.metadata.name for pod in roster.members)
    return tuple(sorted([*present, *_new_names(clique, missing, roster.names)]))


def pods_to_come(clique: PodClique) -> int:
    """How many pods a clique will have; none is added to one that has come to its end."""
    conditions = clique.status.conditions
    is_over = holds(conditions, FAILED) or holds(conditions, COMPLETE)
    return 0 if is_over else clique.spec.replicas


def indexes_in_use(replicas: int, roster: Roster) -> int:
    """One more than the greatest index that a pod has or will have."""
    return max([replicas, *(index_in(pod) + 1 for pod in roster.members)])


def _new_names(clique: str, indexes: Iterable[int], taken: frozenset[str]) -> Iterator[str]:
    # Names of two indexes may be the same.
    used = set(taken)
    for index in indexes:
        name = pod_name(clique, index, used)
        used.add(name)
        yield name
