"""Services at work: the addresses and ports that stored services hold are nobody else's."""

from random import Random

from kilonova.local.catalog import Catalog
from kilonova.local.kinds.services import Services
from kilonova.local.storage import Event, Store

RESOURCE = "services"


class ServiceAddresses:
    """Keeps the pools of addresses and node ports equal to the stored services."""

    def __init__(self, store: Store, catalog: Catalog, random: Random) -> None:
        kind = catalog.find("", "v1", "services")
        assert kind is not None
        assert isinstance(kind.behavior, Services)
        self._store = store
        self._collection = store.collection(RESOURCE)
        self._addresses = kind.behavior.addresses
        self._addresses.is_alive = self._is_stored
        self._addresses.begin(random)
        for entry in self._collection.between(""):
            self._addresses.adopt(entry.decode())
        store.observe(RESOURCE, self._changed)

    def _is_stored(self, owner: str) -> bool:
        return self._store.newest(self._collection, owner) is not None

    def _changed(self, event: Event) -> None:
        newest = self._store.newest(self._collection, event.entry.key)
        if newest is not None and newest is not event.entry:
            return  # a later write is under way, and has reserved what it needs
        service = event.entry.decode()
        self._addresses.release(service)
        if newest is not None:
            self._addresses.adopt(service)
