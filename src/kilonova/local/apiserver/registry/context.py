"""What the verbs share: store, served kinds, admission, clock and id generator."""

from dataclasses import dataclass

from kilonova.local.apimachinery.errors import ApiError, not_found
from kilonova.local.apiserver.admission import AdmissionChain
from kilonova.local.apiserver.endpoints.resource_target import ResourceTarget
from kilonova.local.apiserver.registry.encoding import object_key
from kilonova.local.apiserver.served_kinds import ServedKinds, storage_resource
from kilonova.local.apiserver.storage import Collection, Entry, RevisionStore
from kilonova.local.clock import Clock, IdGenerator


@dataclass(slots=True)
class RegistryContext:
    """The dependencies of every verb."""

    store: RevisionStore
    served_kinds: ServedKinds
    clock: Clock
    id_generator: IdGenerator
    admission: AdmissionChain

    def collection(self, target: ResourceTarget) -> Collection:
        return self.store.collection(storage_resource(target.kind))

    def get_entry(self, target: ResourceTarget) -> Entry:
        """The object as readers see it; 404 if it does not exist."""
        found = self.collection(target).get(object_key(target.namespace, target.name))
        if found is None:
            raise not_found_error(target)
        return found

    def newest_entry(self, target: ResourceTarget) -> Entry | None:
        """The object as the next write will see it, committed or not."""
        collection = self.collection(target)
        return self.store.newest_entry(collection, object_key(target.namespace, target.name))


def not_found_error(target: ResourceTarget) -> ApiError:
    return not_found(target.kind.group, target.kind.plural, target.name)
