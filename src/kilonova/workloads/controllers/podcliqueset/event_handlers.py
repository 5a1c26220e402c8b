"""Which sets to reconcile after a change.

Each mapper reads labels, and the set where its replicas matter, never other sets.
"""

from collections.abc import Iterator
from typing import Any

from kilonova.api.grove import ClusterTopologyBinding, names
from kilonova.kube import ChangeWatch, Key, Watch
from kilonova.workloads.caches import BY_TOPOLOGY, Caches
from kilonova.workloads.keys import get_set_key
from kilonova.workloads.pods.schedulability import is_unschedulable
from kilonova.workloads.resources import ChildObject, Pod
from kilonova.workloads.update_strategy import count_desired_replicas, is_surplus, is_update_open


def list_watches(caches: Caches) -> list[Watch[Any] | ChangeWatch[Any]]:
    """The watches of the controller."""
    sets = caches.sets.store

    def map_to_set(child: Any) -> Iterator[Key]:
        key = get_set_key(child.metadata)
        if key is not None:
            yield key

    def map_surplus_to_set(child: ChildObject) -> Iterator[Key]:
        """Objects of a replica concern its set only if the replica is surplus."""
        for key in map_to_set(child):
            set_ = sets.get(key)
            is_of_replica = names.SET_REPLICA_INDEX in child.metadata.labels
            if not is_of_replica or (
                set_ and is_surplus(child.metadata, count_desired_replicas(set_))
            ):
                yield key

    def on_unschedulable_pod(old: Pod | None, new: Pod | None) -> Iterator[Key]:
        """Whether a pod is unschedulable decides whether an update waits for its replica; cliques'
        statuses do not contain it.
        """
        if old is None or new is None or is_unschedulable(old) == is_unschedulable(new):
            return
        for key in map_to_set(new):
            set_ = sets.get(key)
            if set_ is not None and is_update_open(set_.status.update_progress):
                yield key

    def map_topology_to_sets(topology: ClusterTopologyBinding) -> Iterator[Key]:
        for each in sets.by_index(BY_TOPOLOGY, topology.metadata.name):
            yield each.metadata.namespace, each.metadata.name

    result: list[Watch[Any] | ChangeWatch[Any]] = [
        Watch(caches.sets),
        Watch(caches.cliques, map_to_set),
        Watch(caches.groups, map_to_set),
        Watch(caches.gangs, map_to_set),
        Watch(caches.revisions, map_to_set),
        Watch(caches.services, map_surplus_to_set),
        Watch(caches.autoscalers, map_surplus_to_set),
        Watch(caches.claims, map_surplus_to_set),
        Watch(caches.topologies, map_topology_to_sets),
        ChangeWatch(caches.pods, on_unschedulable_pod),
    ]
    if caches.compute_domains is not None:
        result.append(Watch(caches.compute_domains, map_to_set))
    return result
