"""The CRD handler: serves stored CustomResourceDefinitions (crdHandler of kube-apiserver)."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import msgspec

from kilonova.api.json import JsonObject
from kilonova.api.times import format_rfc3339
from kilonova.local.apimachinery.unstructured import nested_object
from kilonova.local.apiserver.admission import Attributes
from kilonova.local.apiserver.customresources import (
    CustomResourceStrategy,
    is_validation_slow,
    kinds_from_definition,
    validate_definition,
)
from kilonova.local.apiserver.served_kinds import ServedKinds
from kilonova.local.apiserver.storage import Entry, EventType, RevisionStore, StorageEvent
from kilonova.local.clock import Clock
from kilonova.local.objects.crd_names import accept_names, is_established

CRD_RESOURCE = "customresourcedefinitions.apiextensions.k8s.io"


class CrdHandler:
    """Keeps the served kinds equal to the stored definitions, and sets their status.

    It is also an admission plugin: names are accepted or rejected in the write that contains them.
    Schemas with many rules are compiled on a separate thread when the definition or its first
    object is written: compiling takes seconds, in which other requests are served.
    """

    def __init__(self, store: RevisionStore, served_kinds: ServedKinds, clock: Clock) -> None:
        self._store = store
        self._served_kinds = served_kinds
        self._clock = clock
        self._compiler: ThreadPoolExecutor | None = None
        for entry in store.collection(CRD_RESOURCE).range_entries(""):
            self._install(entry)
        store.observe(CRD_RESOURCE, self._on_event)

    async def mutate(self, attributes: Attributes) -> None:
        kind = attributes.target.kind
        strategy, obj = kind.strategy, attributes.obj
        if (
            obj is not None
            and isinstance(strategy, CustomResourceStrategy)
            and strategy.is_slow_to_compile
        ):
            await self._run_in_thread(partial(strategy.compile_for, obj))
        if (kind.group, kind.plural) != ("apiextensions.k8s.io", "customresourcedefinitions"):
            return
        if attributes.obj is None:
            return
        if is_validation_slow(attributes.obj):
            # The errors are cached until the write (also one of the status) validates the
            # definition.
            await self._run_in_thread(partial(validate_definition, attributes.obj))
        if attributes.target.subresource:
            return
        # Definitions are named <plural>.<group>. Names conflict in a group only.
        suffix = f".{attributes.obj['spec'].get('group', '')}"
        others = [
            _decode_names(entry.body)
            for entry in self._store.collection(CRD_RESOURCE).range_entries("")
            if entry.key.endswith(suffix) and entry.key != attributes.obj["metadata"].get("name")
        ]
        accept_names(attributes.obj, others, format_rfc3339(self._clock.now()))

    def close(self) -> None:
        """Stop compiling."""
        if self._compiler is not None:
            self._compiler.shutdown(wait=False, cancel_futures=True)

    async def _run_in_thread(self, work: Callable[[], object]) -> None:
        if self._compiler is None:
            self._compiler = ThreadPoolExecutor(1, "schema-compiler")
        await asyncio.get_running_loop().run_in_executor(self._compiler, work)

    def _on_event(self, event: StorageEvent) -> None:
        definition = event.entry.decode()
        if event.type is EventType.DELETED:
            self._served_kinds.remove_crd_kinds(event.entry.key)
        elif event.previous is None:
            self._served_kinds.install_crd_kinds(event.entry.key, kinds_from_definition(definition))
        elif _served_parts(event.previous.decode()) != _served_parts(definition):
            self._install(event.entry)
        elif definition["metadata"].get("deletionTimestamp"):
            # Objects can no longer be created; watches receive their deletion events.
            self._served_kinds.update_verbs(
                event.entry.key, {k.version: k.verbs for k in kinds_from_definition(definition)}
            )
        # Wake the watches of these kinds: each checks whether its kind is still served.
        spec = definition["spec"]
        self._store.collection(f"{spec['names']['plural']}.{spec['group']}").waiters.wake_all()

    def _install(self, entry: Entry) -> None:
        """Serve a definition whose objects may have been stored under an earlier schema."""
        kinds = kinds_from_definition(entry.decode())
        for kind in kinds:
            kind.schema_revision = max(kind.schema_revision, entry.rv)
        self._served_kinds.install_crd_kinds(entry.key, kinds)


class _Group(msgspec.Struct):
    group: str = ""


class _AcceptedNames(msgspec.Struct, rename="camel"):
    accepted_names: JsonObject | None = None


class _DefinitionNames(msgspec.Struct):
    """The parts of a definition with its names: its schemas take long to decode."""

    spec: _Group
    status: _AcceptedNames | None = None


_names_decoder = msgspec.json.Decoder(_DefinitionNames)


def _decode_names(body: bytes) -> JsonObject:
    return msgspec.to_builtins(_names_decoder.decode(body))


def _served_parts(definition: JsonObject) -> tuple[Any, ...]:
    """The parts of a definition that determine its kinds."""
    return (
        definition["spec"],
        nested_object(definition, "status", "acceptedNames"),
        is_established(definition),
    )
