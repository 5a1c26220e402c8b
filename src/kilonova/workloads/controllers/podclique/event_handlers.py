"""Which cliques to reconcile after a change of another object.

Most changes affect none: the status of a set or a gang is written often and is irrelevant to its
cliques. So the states before and after are compared, and only fields that a clique depends on
count.
"""

from collections.abc import Iterator
from typing import Any

from kilonova.api.grove import PodClique, PodCliqueScalingGroup, PodCliqueSet, names
from kilonova.api.meta import Metadata
from kilonova.api.podgang import PodGang
from kilonova.kube import ChangeWatch, Key, Watch
from kilonova.workloads.caches import (
    BY_BASE_GANG,
    BY_DEPENDENCY,
    BY_GANG,
    BY_REPLICA,
    BY_SET,
    Caches,
)
from kilonova.workloads.controllers.podclique.gates import is_gang_scheduled
from kilonova.workloads.controllers.podclique.updates import list_updating_replicas
from kilonova.workloads.keys import ReplicaKey, get_clique_key, get_replica_key
from kilonova.workloads.pods.classification import count_required_pods, is_ready_or_succeeded
from kilonova.workloads.pods.state import is_finished, is_terminating
from kilonova.workloads.resources import Pod
from kilonova.workloads.update_strategy import is_coherent


class CliqueEventHandlers:
    """Maps changes to the keys of the cliques that they affect."""

    def __init__(self, caches: Caches) -> None:
        self._caches = caches
        self._cliques = caches.cliques.store

    def list_watches(self) -> list[Watch[Any] | ChangeWatch[Any]]:
        """The watches of the controller."""
        caches = self._caches
        return [
            Watch(caches.cliques),
            Watch(caches.pods, _map_to_clique),
            ChangeWatch(caches.sets, self.on_set),
            ChangeWatch(caches.groups, self.on_group),
            ChangeWatch(caches.gangs, self.on_gang),
            ChangeWatch(caches.pods, self.on_pod),
            ChangeWatch(caches.cliques, self.on_clique),
        ]

    def on_set(self, old: PodCliqueSet | None, new: PodCliqueSet | None) -> Iterator[Key]:
        """All cliques after a change of their set's spec; else those of replicas that may be
        updated now.
        """
        known = new or old
        if known is None:
            return
        namespace, name = known.metadata.namespace, known.metadata.name
        if old is None or new is None or old.metadata.generation != new.metadata.generation:
            yield from self._list_keys(BY_SET, (namespace, name))
            return
        for index in list_updating_replicas(new) - list_updating_replicas(old):
            yield from self._list_keys(BY_REPLICA, ReplicaKey(namespace, name, index))

    def on_group(
        self, old: PodCliqueScalingGroup | None, new: PodCliqueScalingGroup | None
    ) -> Iterator[Key]:
        """Cliques of the replica with startup dependencies, when the group is scaled."""
        known = new or old
        replica = None if known is None else get_replica_key(known.metadata)
        if replica is None or (old and new and old.spec.replicas == new.spec.replicas):
            return
        for clique in self._cliques.by_index(BY_REPLICA, replica):
            if clique.spec.starts_after:
                yield self._cliques.key_of(clique)

    def on_gang(self, old: PodGang | None, new: PodGang | None) -> Iterator[Key]:
        """The gang's cliques when its pod references change; cliques of scaled gangs when it is
        scheduled.
        """
        known = new or old
        if known is None:
            return
        key = known.metadata.namespace, known.metadata.name
        if old is None or new is None or old.spec.pod_groups != new.spec.pod_groups:
            yield from self._list_keys(BY_GANG, key)
        if is_gang_scheduled(old) != is_gang_scheduled(new):
            yield from self._list_keys(BY_BASE_GANG, key)

    def on_pod(self, old: Pod | None, new: Pod | None) -> Iterator[Key]:
        """Dependents of a pod's clique when the pod becomes available or unavailable.

        And, in coherent updates, all cliques of the replica when an active pod ends.
        """
        known = new or old
        if known is None:
            return
        clique = get_clique_key(known.metadata)
        if clique is not None and _is_available(old) != _is_available(new):
            yield from self._list_keys(BY_DEPENDENCY, clique)
        if _is_active(old) and not _is_active(new):
            yield from self._list_coherent_cliques(known.metadata)

    def on_clique(self, old: PodClique | None, new: PodClique | None) -> Iterator[Key]:
        """Dependents of a clique when its number of required pods changes.

        And, in coherent updates, all cliques of the replica when its revision changes.
        """
        known = new or old
        if known is None:
            return
        if old is None or new is None or count_required_pods(old) != count_required_pods(new):
            yield from self._list_keys(
                BY_DEPENDENCY, (known.metadata.namespace, known.metadata.name)
            )
        if old is not None and (new is None or _get_revision_hash(old) != _get_revision_hash(new)):
            yield from self._list_coherent_cliques(known.metadata)

    def _list_coherent_cliques(self, child: Metadata) -> Iterator[Key]:
        """The cliques of an object's replica, if revisions must not be mixed there."""
        replica = get_replica_key(child)
        if replica is None:
            return
        set_ = self._caches.sets.store.get((replica.namespace, replica.set_name))
        if set_ is not None and is_coherent(set_):
            yield from self._list_keys(BY_REPLICA, replica)

    def _list_keys(self, index: str, value: Key | ReplicaKey) -> Iterator[Key]:
        return map(self._cliques.key_of, self._cliques.by_index(index, value))


def _map_to_clique(pod: Pod) -> list[Key]:
    key = get_clique_key(pod.metadata)
    return [] if key is None else [key]


def _is_available(pod: Pod | None) -> bool:
    return pod is not None and is_ready_or_succeeded(pod) and not is_terminating(pod)


def _is_active(pod: Pod | None) -> bool:
    return pod is not None and not is_terminating(pod) and not is_finished(pod)


def _get_revision_hash(clique: PodClique) -> str | None:
    return clique.metadata.labels.get(names.GENERATION_HASH)
