"""Which replicas a change concerns.

Sets, gangs and groups change their statuses often, pods all the time; a replica is concerned only
by what it decides by. How far pods are it learns from the statuses of its cliques.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from kilonova.api.grove import ClusterTopologyBinding, PodCliqueScalingGroup, PodCliqueSet
from kilonova.api.meta import Metadata
from kilonova.api.podgang import PodGang
from kilonova.kube import Comparison, Key, Watch
from kilonova.workloads.caches import BY_TOPOLOGY, Caches
from kilonova.workloads.keys import Replica, replica_of, set_of
from kilonova.workloads.limits import set_excess
from kilonova.workloads.pods import is_ending
from kilonova.workloads.resources import Child, Pod, Revision
from kilonova.workloads.sets.desire import wanted_replicas
from kilonova.workloads.templates.marks import copied


class Concerns:
    """Finds the keys of replicas that a change concerns."""

    def __init__(self, caches: Caches) -> None:
        self._caches = caches

    def watches(self) -> list[Watch[Any] | Comparison[Any]]:
        """What a controller of replicas must look at."""
        caches = self._caches
        return [
            Watch(caches.cliques, lambda each: of_child(each.metadata)),
            Comparison(caches.sets, of_set),
            Comparison(caches.pods, of_pod),
            Comparison(caches.gangs, of_own),
            Comparison(caches.groups, of_own),
            Comparison(caches.topologies, self.of_topology),
            Comparison(caches.revisions, self.of_revision),
            *(Comparison(each, of_other) for each in self._children()),
        ]

    def of_topology(
        self, old: ClusterTopologyBinding | None, new: ClusterTopologyBinding | None
    ) -> Iterator[Key]:
        """All replicas of the sets that name it."""
        known = new or old
        if known is not None and (old is None or new is None or old.spec != new.spec):
            for set_ in self._caches.sets.store.find(BY_TOPOLOGY, known.metadata.name):
                yield from _keys(set_, range(_size(set_)))

    def of_revision(self, old: Revision | None, new: Revision | None) -> Iterator[Key]:
        """All replicas of its set, when it has been written down."""
        key = None if new is None else set_of(new.metadata)
        set_ = None if key is None else self._caches.sets.store.get(key)
        if set_ is not None:
            yield from _keys(set_, range(_size(set_)))

    def _children(self) -> list[Any]:
        caches = self._caches
        found = [caches.services, caches.autoscalers, caches.claims]
        return found if caches.compute_domains is None else [*found, caches.compute_domains]


def of_set(old: PodCliqueSet | None, new: PodCliqueSet | None) -> Iterator[Key]:
    """All replicas after an edit; else those that are new, or whose turn has come or gone."""
    if new is None:
        return
    if old is None or _edited(old, new):
        yield from _keys(new, range(_size(new)))
        return
    yield from _keys(new, range(_size(old), _size(new)))
    yield from _keys(new, _turns(old) ^ _turns(new))


def of_pod(old: Pod | None, new: Pod | None) -> Iterator[Key]:
    """Its replica, when it holds its name no longer or from now on."""
    known = new or old
    if known is not None and (old is None or new is None or _has_left(old) != _has_left(new)):
        yield from of_child(known.metadata)


def of_own(
    old: PodGang | PodCliqueScalingGroup | None, new: PodGang | PodCliqueScalingGroup | None
) -> Iterator[Key]:
    """The replica of an object whose status is ours: that alone concerns nobody."""
    if old is None or new is None or stated(old.metadata) != stated(new.metadata):
        yield from of_either(old, new)


def of_other(old: Child | None, new: Child | None) -> Iterator[Key]:
    """The replica of an object whose status is another's."""
    if (
        old is None
        or new is None
        or old.spec != new.spec
        or stated(old.metadata) != stated(new.metadata)
    ):
        yield from of_either(old, new)


def of_either(old: Any, new: Any) -> Iterator[Key]:
    """The replicas that an object belongs to, and belonged to before."""
    for each in (old, new):
        if each is not None:
            yield from of_child(each.metadata)


def of_child(metadata: Metadata) -> Iterator[Key]:
    """The replica that an object belongs to."""
    replica = replica_of(metadata)
    if replica is not None:
        yield replica.key


def _edited(old: PodCliqueSet, new: PodCliqueSet) -> bool:
    """Whether replicas are other than before, and not only more or fewer."""
    before, after = old.metadata, new.metadata
    return (
        before.uid != after.uid
        or copied(before.labels) != copied(after.labels)
        or copied(before.annotations) != copied(after.annotations)
        or old.spec.update_strategy != new.spec.update_strategy
        or old.spec.template != new.spec.template
    )


def _turns(set_: PodCliqueSet) -> frozenset[int]:
    progress = set_.status.update_progress
    turns = progress.currently_updating if progress else ()
    return frozenset(each.replica_index for each in turns)


def _has_left(pod: Pod) -> bool:
    return is_ending(pod) or pod.status.phase == "Failed"


def stated(metadata: Metadata) -> tuple[object, ...]:
    """What somebody has said of an object; not what was only found out."""
    return (
        metadata.uid,
        metadata.generation,
        metadata.labels,
        metadata.annotations,
        metadata.owner_references,
        metadata.finalizers,
        metadata.deletion_timestamp,
    )


def _size(set_: PodCliqueSet) -> int:
    """How many replicas are looked after: none of a set that asks for too much."""
    return 0 if set_excess(set_.spec) is not None else wanted_replicas(set_)


def _keys(set_: PodCliqueSet, indexes: Iterable[int]) -> Iterator[Key]:
    known = set_.metadata
    for index in indexes:
        yield Replica(known.namespace, known.name, index).key
