"""What the verbs share: the store, the kinds, time, identity, and who is asked before a write."""

from dataclasses import dataclass

from kilonova.local.admission import Admission
from kilonova.local.catalog import Catalog, storage_resource
from kilonova.local.clock import Clock, Identities
from kilonova.local.errors import ApiError, not_found
from kilonova.local.registry.objects import key_of
from kilonova.local.routes import Target
from kilonova.local.storage import Collection, Entry, Store


@dataclass(slots=True)
class Registry:
    """The dependencies of every verb."""

    store: Store
    catalog: Catalog
    clock: Clock
    identities: Identities
    admission: Admission

    def collection(self, target: Target) -> Collection:
        return self.store.collection(storage_resource(target.kind))

    def entry(self, target: Target) -> Entry:
        """The object as readers may see it; 404 where there is none."""
        found = self.collection(target).get(key_of(target.namespace, target.name))
        if found is None:
            raise absent(target)
        return found

    def newest(self, target: Target) -> Entry | None:
        """The object as the next write will find it."""
        collection = self.collection(target)
        return self.store.newest(collection, key_of(target.namespace, target.name))


def absent(target: Target) -> ApiError:
    return not_found(target.kind.group, target.kind.plural, target.name)
