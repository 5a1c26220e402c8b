"""Which PodGroups to reconcile after a change; a PodGroup has the key of its gang."""

from collections.abc import Iterator

from kilonova.api.grove import ClusterTopologyBinding, PodCliqueSet, names
from kilonova.api.podgang import PodGang
from kilonova.kube import Key
from kilonova.workloads.backends.optional_kinds import CustomResourceDefinition
from kilonova.workloads.backends.queues import list_queue_references
from kilonova.workloads.caches import BY_SET, BY_TOPOLOGY, Caches
from kilonova.workloads.controllers.podcliqueset_replica.event_handlers import get_declared_state
from kilonova.workloads.resources import ChildObject


class PodGroupEventHandlers:
    """Maps changes to the keys of the gangs of one scheduler."""

    def __init__(self, caches: Caches, scheduler: str) -> None:
        self._caches = caches
        self._scheduler = scheduler

    def on_gang(self, old: PodGang | None, new: PodGang | None) -> Iterator[Key]:
        """The gang, unless only its status has changed."""
        if (
            old is None
            or new is None
            or get_declared_state(old.metadata) != get_declared_state(new.metadata)
        ):
            yield from {
                _get_key(each) for each in (old, new) if each and self._is_for_scheduler(each)
            }

    def on_new_gang(self, old: PodGang | None, new: PodGang | None) -> Iterator[Key]:
        """The gang when it is created."""
        if old is None and new is not None and self._is_for_scheduler(new):
            yield _get_key(new)

    def on_set(self, old: PodCliqueSet | None, new: PodCliqueSet | None) -> Iterator[Key]:
        """All gangs of a set that is new, or whose queue has changed."""
        if new is not None and (old is None or self._list_queues(old) != self._list_queues(new)):
            yield from self._list_gang_keys(new)

    def on_topology(
        self, old: ClusterTopologyBinding | None, new: ClusterTopologyBinding | None
    ) -> Iterator[Key]:
        """All gangs that name a binding whose scheduler topologies have changed."""
        known = new or old
        if known is not None and _get_scheduler_topologies(old) != _get_scheduler_topologies(new):
            for set_ in self._caches.sets.store.by_index(BY_TOPOLOGY, known.metadata.name):
                yield from self._list_gang_keys(set_)

    def on_pod_group(self, old: ChildObject | None, new: ChildObject | None) -> Iterator[Key]:
        """The gang of the same name, unless only the status has changed."""
        known = new or old
        if known is not None and (
            old is None
            or new is None
            or old.spec != new.spec
            or get_declared_state(old.metadata) != get_declared_state(new.metadata)
        ):
            yield _get_key(known)

    def on_definition(
        self, old: CustomResourceDefinition | None, new: CustomResourceDefinition | None
    ) -> Iterator[Key]:
        """All gangs: the fields of PodGroups have changed."""
        return (
            _get_key(each)
            for each in self._caches.gangs.store.objects()
            if self._is_for_scheduler(each)
        )

    def _is_for_scheduler(self, gang: PodGang) -> bool:
        return get_gang_scheduler(gang) == self._scheduler

    def _list_queues(self, set_: PodCliqueSet) -> list[tuple[str, str]]:
        return list_queue_references(self._scheduler, set_.metadata, set_.spec.template.cliques)

    def _list_gang_keys(self, set_: PodCliqueSet) -> Iterator[Key]:
        key = set_.metadata.namespace, set_.metadata.name
        return (
            _get_key(each)
            for each in self._caches.gangs.store.by_index(BY_SET, key)
            if self._is_for_scheduler(each)
        )


def get_gang_scheduler(gang: PodGang) -> str:
    """The scheduler of a gang."""
    return gang.metadata.labels.get(names.SCHEDULER_NAME, "")


def _get_key(each: PodGang | ChildObject) -> Key:
    return each.metadata.namespace, each.metadata.name


def _get_scheduler_topologies(binding: ClusterTopologyBinding | None) -> object:
    return None if binding is None else binding.spec.scheduler_topology_bindings
