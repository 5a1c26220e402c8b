"""Validates the preemption candidates of kube-scheduler.

kube-scheduler counts resources and knows neither devices nor gangs. A node is dropped if the pod
would still not fit, if a victim is not preemptible, or if a gang would fall below its minimum: it
would hold GPUs without running. A gang may be evicted as a whole. A victim that is missing in the
cache cannot be judged, so its node is dropped, too. The snapshot is changed only in a trial that is
rolled back.
"""

from collections.abc import Callable, Mapping, Set

from kilonova.api.scheduling_names import PREEMPTIBLE
from kilonova.scheduler.core.filters.feasibility import FeasibilityCache
from kilonova.scheduler.core.model.cluster import Cluster, RunningGang
from kilonova.scheduler.core.model.gangs import Group
from kilonova.scheduler.core.model.requests import Shape
from kilonova.scheduler.core.model.snapshot import Snapshot
from kilonova.scheduler.extender.messages import Victims
from kilonova.scheduler.objects.core_v1 import Pod

FindPod = Callable[[str], Pod | None]
"""The pod of a key, NAMESPACE/NAME."""


def select_preemption_nodes(
    cluster: Cluster,
    feasibility: FeasibilityCache,
    find_pod: FindPod,
    shape: Shape,
    candidates: Mapping[str, Victims],
) -> dict[str, Victims]:
    """The nodes on which evicting the victims makes a pod of a shape feasible without breaking a
    gang."""
    selected: dict[str, Victims] = {}
    for node, victims in candidates.items():
        if node not in cluster.snapshot:
            continue
        pods = _find_victims(cluster.snapshot, node, find_pod, set(victims.uids))
        if (
            len(pods) == len(set(victims.uids))
            and all(_is_preemptible(pod) for pod in pods.values())
            and not _breaks_gang(cluster.running_gangs, pods)
            and _frees_capacity(cluster.snapshot, feasibility, shape, node, pods)
        ):
            selected[node] = victims
    return selected


def _find_victims(
    snapshot: Snapshot, node: str, find_pod: FindPod, uids: set[str]
) -> dict[str, Pod]:
    """The victims that are placed on the node, by key."""
    placed_pods = snapshot.pods_on[snapshot.row(node)]
    return {
        key: pod
        for key in placed_pods
        if (pod := find_pod(key)) is not None and pod.metadata.uid in uids
    }


def _is_preemptible(pod: Pod) -> bool:
    return pod.metadata.annotations.get(PREEMPTIBLE) != "false"


def _breaks_gang(running_gangs: Mapping[str, RunningGang], victims: Mapping[str, Pod]) -> bool:
    for each in running_gangs.values():
        evicted = each.pods.keys() & victims.keys()
        if not evicted:
            continue
        if not each.gang.preemptible:
            return True
        remaining = each.pods.keys() - evicted
        if remaining and any(
            _falls_below_minimum(group, evicted, remaining) for group in each.gang.groups
        ):
            return True
    return False


def _falls_below_minimum(group: Group, evicted: Set[str], remaining: Set[str]) -> bool:
    """Whether a group loses pods and is left with fewer than its minimum."""
    pods = {member.pod for member in (*group.placed_members, *group.members)}
    return not evicted.isdisjoint(pods) and len(pods & remaining) < group.minimum


def _frees_capacity(
    snapshot: Snapshot,
    feasibility: FeasibilityCache,
    shape: Shape,
    node: str,
    victims: Mapping[str, Pod],
) -> bool:
    trial = snapshot.begin_trial()
    snapshot.remove_pods(victims)
    free_capacity = int(feasibility.free_capacity(shape)[snapshot.row(node)])
    snapshot.rollback(trial)
    return free_capacity > 0
