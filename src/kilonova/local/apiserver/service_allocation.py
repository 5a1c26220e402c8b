"""Keeps the allocated cluster IPs and node ports in sync with the stored Services."""

from random import Random

from kilonova.local.apiserver.kinds.core.service_allocator import ServiceAllocator, ServiceRanges
from kilonova.local.apiserver.kinds.core.services import ServiceStrategy
from kilonova.local.apiserver.served_kinds import ServedKinds
from kilonova.local.apiserver.storage import RevisionStore, StorageEvent

SERVICES_RESOURCE = "services"


class ServiceAllocationSync:
    """Keeps the pools of addresses and node ports equal to the stored services."""

    def __init__(
        self,
        store: RevisionStore,
        served_kinds: ServedKinds,
        random: Random,
        ranges: ServiceRanges,
    ) -> None:
        kind = served_kinds.find("", "v1", "services")
        assert kind is not None
        assert isinstance(kind.strategy, ServiceStrategy)
        self._store = store
        self._collection = store.collection(SERVICES_RESOURCE)
        self._addresses = kind.strategy.allocator = ServiceAllocator(ranges)
        self._addresses.is_stored = self._is_stored
        self._addresses.randomize_start(random)
        for entry in self._collection.range_entries(""):
            self._addresses.claim(entry.decode())
        store.observe(SERVICES_RESOURCE, self._on_event)

    def _is_stored(self, owner: str) -> bool:
        return self._store.newest_entry(self._collection, owner) is not None

    def _on_event(self, event: StorageEvent) -> None:
        newest = self._store.newest_entry(self._collection, event.entry.key)
        if newest is not None and newest is not event.entry:
            return  # a later write is in progress, and has allocated what it needs
        service = event.entry.decode()
        self._addresses.release(service)
        if newest is not None:
            self._addresses.claim(service)
