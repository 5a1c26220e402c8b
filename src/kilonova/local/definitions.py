"""CustomResourceDefinitions at work: a definition that is stored is served from then on."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from kilonova.api.json import JsonObject
from kilonova.api.times import rfc3339
from kilonova.local.admission import Attributes
from kilonova.local.catalog import Catalog
from kilonova.local.clock import Clock
from kilonova.local.customresources import (
    CustomBehavior,
    accept_names,
    definition_problems,
    is_established,
    judgement_is_slow,
    kinds_of,
)
from kilonova.local.kinds.walk import part
from kilonova.local.storage import Entry, Event, EventType, Store

RESOURCE = "customresourcedefinitions.apiextensions.k8s.io"


class Definitions:
    """Keeps the catalog equal to the stored definitions, and says so in their status.

    An admission plug-in: names are accepted or refused in the same write that brings them. Schemas
    with many rules are compiled here, on a thread of their own, when they or the first objects of
    them are written: that takes seconds, in which other requests are answered.
    """

    def __init__(self, store: Store, catalog: Catalog, clock: Clock) -> None:
        self._store = store
        self._catalog = catalog
        self._clock = clock
        self._compiler: ThreadPoolExecutor | None = None
        for entry in store.collection(RESOURCE).between(""):
            self._install(entry)
        store.observe(RESOURCE, self._changed)

    async def mutate(self, attributes: Attributes) -> None:
        kind = attributes.target.kind
        behavior, obj = kind.behavior, attributes.obj
        if obj is not None and isinstance(behavior, CustomBehavior) and behavior.is_slow_to_compile:
            await self._off_loop(partial(behavior.prepare_rules, obj))
        if (kind.group, kind.plural) != ("apiextensions.k8s.io", "customresourcedefinitions"):
            return
        if attributes.obj is None:
            return
        if judgement_is_slow(attributes.obj):
            # What is found is remembered until the write asks for it: that of a status, too.
            await self._off_loop(partial(definition_problems, attributes.obj))
        if attributes.target.subresource:
            return
        others = [
            entry.decode()
            for entry in self._store.collection(RESOURCE).between("")
            if entry.key != attributes.obj["metadata"].get("name")
        ]
        accept_names(attributes.obj, others, rfc3339(self._clock.now()))

    def close(self) -> None:
        """Compile nothing further."""
        if self._compiler is not None:
            self._compiler.shutdown(wait=False, cancel_futures=True)

    async def _off_loop(self, work: Callable[[], object]) -> None:
        if self._compiler is None:
            self._compiler = ThreadPoolExecutor(1, "schema-compiler")
        await asyncio.get_running_loop().run_in_executor(self._compiler, work)

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
