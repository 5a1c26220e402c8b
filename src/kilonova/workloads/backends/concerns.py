"""Which PodGroups a change concerns: each has the key of its gang."""

from collections.abc import Iterator

from kilonova.api.grove import ClusterTopologyBinding, PodCliqueSet, names
from kilonova.api.podgang import PodGang
from kilonova.kube import Key
from kilonova.workloads.backends.kinds import Definition
from kilonova.workloads.backends.queues import named_queues
from kilonova.workloads.caches import BY_SET, BY_TOPOLOGY, Caches
from kilonova.workloads.replicas.concerns import stated
from kilonova.workloads.resources import Child


class GangConcerns:
    """Finds the keys of gangs of one scheduler that a change concerns."""

    def __init__(self, caches: Caches, scheduler: str) -> None:
        self._caches = caches
        self._scheduler = scheduler

    def of_gang(self, old: PodGang | None, new: PodGang | None) -> Iterator[Key]:
        """Whatever somebody says of it; its status is no concern."""
        if old is None or new is None or stated(old.metadata) != stated(new.metadata):
            yield from {_key(each) for each in (old, new) if each and self._is_ours(each)}

    def of_new_gang(self, old: PodGang | None, new: PodGang | None) -> Iterator[Key]:
        """Only when it comes."""
        if old is None and new is not None and self._is_ours(new):
            yield _key(new)

    def of_set(self, old: PodCliqueSet | None, new: PodCliqueSet | None) -> Iterator[Key]:
        """All gangs of a set that has come, or is in another queue than before."""
        if new is not None and (old is None or self._queues(old) != self._queues(new)):
            yield from self._gangs_of(new)

    def of_topology(
        self, old: ClusterTopologyBinding | None, new: ClusterTopologyBinding | None
    ) -> Iterator[Key]:
        """All gangs that name a binding which refers to another topology than before."""
        known = new or old
        if known is not None and _references(old) != _references(new):
            for set_ in self._caches.sets.store.find(BY_TOPOLOGY, known.metadata.name):
                yield from self._gangs_of(set_)

    def of_pod_group(self, old: Child | None, new: Child | None) -> Iterator[Key]:
        """The gang of its name, when anything but its status has changed."""
        known = new or old
        if known is not None and (
            old is None
            or new is None
            or old.spec != new.spec
            or stated(old.metadata) != stated(new.metadata)
        ):
            yield _key(known)

    def of_definition(self, old: Definition | None, new: Definition | None) -> Iterator[Key]:
        """All gangs: what a PodGroup may say has changed."""
        return (_key(each) for each in self._caches.gangs.store.objects() if self._is_ours(each))

    def _is_ours(self, gang: PodGang) -> bool:
        return scheduler_of(gang) == self._scheduler

    def _queues(self, set_: PodCliqueSet) -> list[tuple[str, str]]:
        return named_queues(self._scheduler, set_.metadata, set_.spec.template.cliques)

    def _gangs_of(self, set_: PodCliqueSet) -> Iterator[Key]:
        key = set_.metadata.namespace, set_.metadata.name
        return (
            _key(each) for each in self._caches.gangs.store.find(BY_SET, key) if self._is_ours(each)
        )


def scheduler_of(gang: PodGang) -> str:
    """Who places a gang."""
    return gang.metadata.labels.get(names.SCHEDULER_NAME, "")


def _key(each: PodGang | Child) -> Key:
    return each.metadata.namespace, each.metadata.name


def _references(binding: ClusterTopologyBinding | None) -> object:
    return None if binding is None else binding.spec.scheduler_topology_bindings
