"""Which replicas to reconcile after a change.

Statuses of sets, gangs and groups change often, and pods all the time; only fields that a replica
depends on count. The progress of pods is read from the statuses of cliques.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from kilonova.api.grove import ClusterTopologyBinding, PodCliqueScalingGroup, PodCliqueSet
from kilonova.api.meta import Metadata
from kilonova.api.podgang import PodGang
from kilonova.kube import ChangeWatch, Key, Watch
from kilonova.kube.controllers.controller_revisions import ControllerRevision
from kilonova.workloads.builders.propagated_metadata import select_propagated
from kilonova.workloads.caches import BY_TOPOLOGY, Caches
from kilonova.workloads.keys import ReplicaKey, get_replica_key, get_set_key
from kilonova.workloads.limits import check_set_limits
from kilonova.workloads.pods.state import is_terminating
from kilonova.workloads.resources import ChildObject, Pod
from kilonova.workloads.update_strategy import count_desired_replicas


class ReplicaEventHandlers:
    """Maps changes to the keys of the replicas that they affect."""

    def __init__(self, caches: Caches) -> None:
        self._caches = caches

    def list_watches(self) -> list[Watch[Any] | ChangeWatch[Any]]:
        """The watches of the controller."""
        caches = self._caches
        return [
            Watch(caches.cliques, lambda each: map_to_replica(each.metadata)),
            ChangeWatch(caches.sets, on_set),
            ChangeWatch(caches.pods, on_pod),
            ChangeWatch(caches.gangs, on_owned_object),
            ChangeWatch(caches.groups, on_owned_object),
            ChangeWatch(caches.topologies, self.on_topology),
            ChangeWatch(caches.revisions, self.on_revision),
            *(ChangeWatch(each, on_child_object) for each in self._list_child_caches()),
        ]

    def on_topology(
        self, old: ClusterTopologyBinding | None, new: ClusterTopologyBinding | None
    ) -> Iterator[Key]:
        """All replicas of the sets that name the topology."""
        known = new or old
        if known is not None and (old is None or new is None or old.spec != new.spec):
            for set_ in self._caches.sets.store.by_index(BY_TOPOLOGY, known.metadata.name):
                yield from _list_keys(set_, range(_count_replicas(set_)))

    def on_revision(
        self, old: ControllerRevision | None, new: ControllerRevision | None
    ) -> Iterator[Key]:
        """All replicas of a set whose revision has been stored."""
        key = None if new is None else get_set_key(new.metadata)
        set_ = None if key is None else self._caches.sets.store.get(key)
        if set_ is not None:
            yield from _list_keys(set_, range(_count_replicas(set_)))

    def _list_child_caches(self) -> list[Any]:
        caches = self._caches
        found = [caches.services, caches.autoscalers, caches.claims]
        return found if caches.compute_domains is None else [*found, caches.compute_domains]


def on_set(old: PodCliqueSet | None, new: PodCliqueSet | None) -> Iterator[Key]:
    """All replicas after a change of the spec; else new ones and those whose update status
    changed.
    """
    if new is None:
        return
    if old is None or _is_edited(old, new):
        yield from _list_keys(new, range(_count_replicas(new)))
        return
    yield from _list_keys(new, range(_count_replicas(old), _count_replicas(new)))
    yield from _list_keys(new, _list_updating_replicas(old) ^ _list_updating_replicas(new))


def on_pod(old: Pod | None, new: Pod | None) -> Iterator[Key]:
    """The replica of a pod that takes or releases its name."""
    known = new or old
    if known is not None and (
        old is None or new is None or _has_released_name(old) != _has_released_name(new)
    ):
        yield from map_to_replica(known.metadata)


def on_owned_object(
    old: PodGang | PodCliqueScalingGroup | None, new: PodGang | PodCliqueScalingGroup | None
) -> Iterator[Key]:
    """The replica of an object whose status the operator writes; status changes are ignored."""
    if (
        old is None
        or new is None
        or get_declared_state(old.metadata) != get_declared_state(new.metadata)
    ):
        yield from map_old_and_new(old, new)


def on_child_object(old: ChildObject | None, new: ChildObject | None) -> Iterator[Key]:
    """The replica of an object whose status others write."""
    if (
        old is None
        or new is None
        or old.spec != new.spec
        or get_declared_state(old.metadata) != get_declared_state(new.metadata)
    ):
        yield from map_old_and_new(old, new)


def map_old_and_new(old: Any, new: Any) -> Iterator[Key]:
    """The replicas of both states of an object."""
    for each in (old, new):
        if each is not None:
            yield from map_to_replica(each.metadata)


def map_to_replica(metadata: Metadata) -> Iterator[Key]:
    """The replica of an object."""
    replica = get_replica_key(metadata)
    if replica is not None:
        yield replica.queue_key


def _is_edited(old: PodCliqueSet, new: PodCliqueSet) -> bool:
    """Whether the replicas themselves change, not only their number."""
    before, after = old.metadata, new.metadata
    return (
        before.uid != after.uid
        or select_propagated(before.labels) != select_propagated(after.labels)
        or select_propagated(before.annotations) != select_propagated(after.annotations)
        or old.spec.update_strategy != new.spec.update_strategy
        or old.spec.template != new.spec.template
    )


def _list_updating_replicas(set_: PodCliqueSet) -> frozenset[int]:
    progress = set_.status.update_progress
    updating = progress.currently_updating if progress else ()
    return frozenset(each.replica_index for each in updating)


def _has_released_name(pod: Pod) -> bool:
    return is_terminating(pod) or pod.status.phase == "Failed"


def get_declared_state(metadata: Metadata) -> tuple[object, ...]:
    """Everything that is declared about an object; not its status."""
    return (
        metadata.uid,
        metadata.generation,
        metadata.labels,
        metadata.annotations,
        metadata.owner_references,
        metadata.finalizers,
        metadata.deletion_timestamp,
    )


def _count_replicas(set_: PodCliqueSet) -> int:
    """How many replicas are reconciled: none of a set that exceeds a limit."""
    return 0 if check_set_limits(set_.spec) is not None else count_desired_replicas(set_)


def _list_keys(set_: PodCliqueSet, indexes: Iterable[int]) -> Iterator[Key]:
    known = set_.metadata
    for index in indexes:
        yield ReplicaKey(known.namespace, known.name, index).queue_key
