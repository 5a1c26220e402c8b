"""CustomResourceDefinitions at work: a definition that is stored is served from then on."""

from kilonova.api.json import JsonObject
from kilonova.local.admission import Attributes
from kilonova.local.catalog import Catalog
from kilonova.local.clock import Clock
from kilonova.local.customresources import accept_names, kinds_of
from kilonova.local.storage import Entry, Event, EventType, Store
from kilonova.local.times import rfc3339

RESOURCE = "customresourcedefinitions.apiextensions.k8s.io"


class Definitions:
    """Keeps the catalog equal to the stored definitions, and says so in their status.

    An admission plug-in: names are accepted or refused in the same write that brings them.
    """

    def __init__(self, store: Store, catalog: Catalog, clock: Clock) -> None:
        self._store = store
        self._catalog = catalog
        self._clock = clock
        for entry in store.collection(RESOURCE).between(""):
            self._install(entry, None)
        store.observe(RESOURCE, self._changed)

    async def mutate(self, attributes: Attributes) -> None:
        kind = attributes.target.kind
        if (kind.group, kind.plural) != ("apiextensions.k8s.io", "customresourcedefinitions"):
            return
        if attributes.obj is None or attributes.target.subresource:
            return
        others = [
            entry.decode()
            for entry in self._store.collection(RESOURCE).between("")
            if entry.key != attributes.obj["metadata"].get("name")
        ]
        accept_names(attributes.obj, others, rfc3339(self._clock.now()))

    async def validate(self, attributes: Attributes) -> None:
        return

    def _changed(self, event: Event) -> None:
        if event.type is EventType.DELETED:
            self._catalog.remove(event.entry.key)
        else:
            self._install(event.entry, event.previous)

    def _install(self, entry: Entry, previous: Entry | None) -> None:
        definition = entry.decode()
        kinds = kinds_of(definition)
        if previous is not None and _schemas(previous.decode()) != _schemas(definition):
            for kind in kinds:
                kind.fresh_rv = entry.rv
        self._catalog.install(entry.key, kinds)


def _schemas(definition: JsonObject) -> list[JsonObject]:
    return [version.get("schema") or {} for version in definition["spec"].get("versions", [])]
