"""CustomResourceDefinitions at work: a definition that is stored is served from then on."""

from typing import Any

from kilonova.api.json import JsonObject
from kilonova.api.times import rfc3339
from kilonova.local.admission import Attributes
from kilonova.local.catalog import Catalog
from kilonova.local.clock import Clock
from kilonova.local.customresources import accept_names, is_established, kinds_of
from kilonova.local.kinds.walk import part
from kilonova.local.storage import Entry, Event, EventType, Store

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
            self._install(entry)
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

    def _changed(self, event: Event) -> None:
        definition = event.entry.decode()
        if event.type is EventType.DELETED:
            self._catalog.remove(event.entry.key)
        elif event.previous is None:
            self._catalog.install(event.entry.key, kinds_of(definition))
        elif _substance(event.previous.decode()) != _substance(definition):
            self._install(event.entry)
        elif definition["metadata"].get("deletionTimestamp"):
            # Objects may no longer be created; watches see the last of them go.
            self._catalog.restrict(
                event.entry.key, {k.version: k.verbs for k in kinds_of(definition)}
            )
        # Watches of the kinds look whether they are still served.
        spec = definition["spec"]
        self._store.collection(f"{spec['names']['plural']}.{spec['group']}").sleepers.wake_all()

    def _install(self, entry: Entry) -> None:
        """Serve a definition whose objects may have been stored under an earlier schema."""
        kinds = kinds_of(entry.decode())
        for kind in kinds:
            kind.fresh_rv = max(kind.fresh_rv, entry.rv)
        self._catalog.install(entry.key, kinds)


def _substance(definition: JsonObject) -> tuple[Any, ...]:
    """What the kinds of a definition are made from."""
    return (
        definition["spec"],
        part(definition, "status", "acceptedNames"),
        is_established(definition),
    )
