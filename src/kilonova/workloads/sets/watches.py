"""Which changes concern a set.

Each costs a look at labels, and at the set where its replicas matter; never at other sets.
"""

from collections.abc import Iterator
from typing import Any

from kilonova.api.grove import ClusterTopologyBinding, names
from kilonova.kube import Comparison, Key, Watch
from kilonova.workloads.caches import BY_TOPOLOGY, Caches
from kilonova.workloads.keys import set_of
from kilonova.workloads.resources import Child, Pod
from kilonova.workloads.room import is_unplaceable
from kilonova.workloads.sets.desire import is_surplus, is_under_way, wanted_replicas


def watches(caches: Caches) -> list[Watch[Any] | Comparison[Any]]:
    """What the controller of sets watches."""
    sets = caches.sets.store

    def of_set(child: Any) -> Iterator[Key]:
        key = set_of(child.metadata)
        if key is not None:
            yield key

    def if_out_of_place(child: Child) -> Iterator[Key]:
        """What replicas have is their own affair, unless there should be no such replica."""
        for key in of_set(child):
            set_ = sets.get(key)
            of_replica = names.SET_REPLICA_INDEX in child.metadata.labels
            if not of_replica or (set_ and is_surplus(child.metadata, wanted_replicas(set_))):
                yield key

    def if_without_room(old: Pod | None, new: Pod | None) -> Iterator[Key]:
        """Whom an update waits for depends on it; no clique tells of it."""
        if old is None or new is None or is_unplaceable(old) == is_unplaceable(new):
            return
        for key in of_set(new):
            set_ = sets.get(key)
            if set_ is not None and is_under_way(set_.status.update_progress):
                yield key

    def naming(topology: ClusterTopologyBinding) -> Iterator[Key]:
        for each in sets.find(BY_TOPOLOGY, topology.metadata.name):
            yield each.metadata.namespace, each.metadata.name

    result: list[Watch[Any] | Comparison[Any]] = [
        Watch(caches.sets),
        Watch(caches.cliques, of_set),
        Watch(caches.groups, of_set),
        Watch(caches.gangs, of_set),
        Watch(caches.revisions, of_set),
        Watch(caches.services, if_out_of_place),
        Watch(caches.autoscalers, if_out_of_place),
        Watch(caches.claims, if_out_of_place),
        Watch(caches.topologies, naming),
        Comparison(caches.pods, if_without_room),
    ]
    if caches.compute_domains is not None:
        result.append(Watch(caches.compute_domains, of_set))
    return result
