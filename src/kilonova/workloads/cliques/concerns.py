"""Which cliques a change of something else concerns.

Most changes concern none: the status of a set or a gang is written often, and says nothing to its
cliques. So the state before and after is compared, and only what a clique decides by counts.
"""

from collections.abc import Iterator
from typing import Any

from kilonova.api.grove import PodClique, PodCliqueScalingGroup, PodCliqueSet, names
from kilonova.api.meta import Metadata
from kilonova.api.podgang import PodGang
from kilonova.kube import Comparison, Key, Watch
from kilonova.workloads.caches import (
    BY_BASE,
    BY_DEPENDENCY,
    BY_GANG,
    BY_REPLICA,
    BY_SET,
    Caches,
)
from kilonova.workloads.cliques.release import is_scheduled_gang
from kilonova.workloads.cliques.roster import is_up, needed
from kilonova.workloads.cliques.updates import replicas_in_turn
from kilonova.workloads.keys import Replica, clique_of, replica_of
from kilonova.workloads.pods import is_ending, is_finished
from kilonova.workloads.resources import Pod
from kilonova.workloads.sets.desire import is_coherent


class Concerns:
    """Finds the keys of cliques that a change concerns."""

    def __init__(self, caches: Caches) -> None:
        self._caches = caches
        self._cliques = caches.cliques.store

    def watches(self) -> list[Watch[Any] | Comparison[Any]]:
        """What a controller of cliques must look at."""
        caches = self._caches
        return [
            Watch(caches.cliques),
            Watch(caches.pods, _own_clique),
            Comparison(caches.sets, self.of_set),
            Comparison(caches.groups, self.of_group),
            Comparison(caches.gangs, self.of_gang),
            Comparison(caches.pods, self.of_pod),
            Comparison(caches.cliques, self.of_clique),
        ]

    def of_set(self, old: PodCliqueSet | None, new: PodCliqueSet | None) -> Iterator[Key]:
        """All cliques after an edit of their set; those of a replica whose turn has come."""
        known = new or old
        if known is None:
            return
        namespace, name = known.metadata.namespace, known.metadata.name
        if old is None or new is None or old.metadata.generation != new.metadata.generation:
            yield from self._keys(BY_SET, (namespace, name))
            return
        for index in replicas_in_turn(new) - replicas_in_turn(old):
            yield from self._keys(BY_REPLICA, Replica(namespace, name, index))

    def of_group(
        self, old: PodCliqueScalingGroup | None, new: PodCliqueScalingGroup | None
    ) -> Iterator[Key]:
        """Cliques of its replica that start after others, when the group is scaled."""
        known = new or old
        replica = None if known is None else replica_of(known.metadata)
        if replica is None or (old and new and old.spec.replicas == new.spec.replicas):
            return
        for clique in self._cliques.find(BY_REPLICA, replica):
            if clique.spec.starts_after:
                yield self._cliques.key_of(clique)

    def of_gang(self, old: PodGang | None, new: PodGang | None) -> Iterator[Key]:
        """Its own cliques when it lists other pods; those that wait for it when it has nodes."""
        known = new or old
        if known is None:
            return
        key = known.metadata.namespace, known.metadata.name
        if old is None or new is None or old.spec.pod_groups != new.spec.pod_groups:
            yield from self._keys(BY_GANG, key)
        if is_scheduled_gang(old) != is_scheduled_gang(new):
            yield from self._keys(BY_BASE, key)

    def of_pod(self, old: Pod | None, new: Pod | None) -> Iterator[Key]:
        """Cliques that start after a pod's clique, when the pod comes up or goes down.

        And those that may start when no pod of an old version is left, when it leaves.
        """
        known = new or old
        if known is None:
            return
        clique = clique_of(known.metadata)
        if clique is not None and _is_up(old) != _is_up(new):
            yield from self._keys(BY_DEPENDENCY, clique)
        if _is_there(old) and not _is_there(new):
            yield from self._of_one_version(known.metadata)

    def of_clique(self, old: PodClique | None, new: PodClique | None) -> Iterator[Key]:
        """Cliques that start after another, when it needs more or fewer pods than before.

        And those that may start when no clique of an old version is left, when it changes.
        """
        known = new or old
        if known is None:
            return
        if old is None or new is None or needed(old) != needed(new):
            yield from self._keys(BY_DEPENDENCY, (known.metadata.namespace, known.metadata.name))
        if old is not None and (new is None or _revision(old) != _revision(new)):
            yield from self._of_one_version(known.metadata)

    def _of_one_version(self, child: Metadata) -> Iterator[Key]:
        """The cliques of an object's replica, if versions must not be mixed there."""
        replica = replica_of(child)
        if replica is None:
            return
        set_ = self._caches.sets.store.get((replica.namespace, replica.set_name))
        if set_ is not None and is_coherent(set_):
            yield from self._keys(BY_REPLICA, replica)

    def _keys(self, index: str, value: Key | Replica) -> Iterator[Key]:
        return map(self._cliques.key_of, self._cliques.find(index, value))


def _own_clique(pod: Pod) -> list[Key]:
    key = clique_of(pod.metadata)
    return [] if key is None else [key]


def _is_up(pod: Pod | None) -> bool:
    return pod is not None and is_up(pod) and not is_ending(pod)


def _is_there(pod: Pod | None) -> bool:
    return pod is not None and not is_ending(pod) and not is_finished(pod)


def _revision(clique: PodClique) -> str | None:
    return clique.metadata.labels.get(names.GENERATION_HASH)
