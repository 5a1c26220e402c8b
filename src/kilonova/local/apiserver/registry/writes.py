"""Create and update: the implementation of POST, PUT and all PATCH types.

Every write has the same order, that of kube-apiserver:

decode → schema (types, unknown fields, defaults) → field ownership → mutating admission →
strategy's preparation → validation → validating admission → store

Defaults come before mutating admission, so that plugins, policies and webhooks see a complete
object; what a policy or webhook returns gets schema and defaults again, before the next one sees
it.

The endpoint decodes a POST or PUT and applies the schema before it calls this module; a patch is
applied here, by the `ObjectUpdate`, and the schema is applied to its result. Server-side apply
decides field ownership while it merges, so before the schema. Ownership is recorded in the version
of the request; from mutating admission on, the object is in the storage version. Names are
generated, and uid, timestamps and generation set, in the preparation. A deletion runs mutating and
validating admission, then the preparation.

Between reading the current entry and proposing the new one a write does not yield to the event
loop, unless admission waits (for a webhook); then the write is retried if the object has changed
meanwhile.
"""

from collections.abc import Callable
from functools import partial
from typing import Protocol

import msgspec

from kilonova.api.json import JsonObject
from kilonova.api.times import format_rfc3339
from kilonova.local.apimachinery.errors import ApiError, already_exists, invalid, invalid_value
from kilonova.local.apimachinery.patch import deep_copy, json_equal
from kilonova.local.apiserver.admission import Attributes
from kilonova.local.apiserver.endpoints.resource_target import ResourceTarget
from kilonova.local.apiserver.field_manager import keep_unchanged_times, record_update
from kilonova.local.apiserver.kinds.kind import Kind
from kilonova.local.apiserver.registry import object_lifecycle
from kilonova.local.apiserver.registry.context import RegistryContext, not_found_error
from kilonova.local.apiserver.registry.encoding import (
    decode_entry,
    encode,
    encode_entry,
    object_key,
)
from kilonova.local.apiserver.registry.object_checks import (
    check_name,
    check_namespace,
    validate_object,
)
from kilonova.local.apiserver.registry.options import WriteOptions
from kilonova.local.apiserver.served_kinds import storage_resource
from kilonova.local.apiserver.storage import Entry, PutEntry, RemoveEntry

_GENERATED_NAME_BASE = 58
_GENERATED_NAME_TRIES = 8
_SERVER_SUBRESOURCES = ("finalize",)
"""Subresources that change what a client must not change elsewhere."""


class WriteResult(msgspec.Struct, frozen=True):
    """The result of a write: the entry as stored (or as it would be, in a dry run)."""

    entry: Entry
    is_created: bool = False
    is_removed: bool = False


ObjectUpdate = Callable[[JsonObject | None], JsonObject]
"""Returns the desired object for the current one (None if there is none), both in the version of
the request. The current object is a copy that may be modified.
"""


class SubresourceView(Protocol):
    """A part of an object as an object of its own (its Scale), for admission."""

    def extract(self, obj: JsonObject) -> JsonObject:
        """The part of the object."""
        ...

    def restore(self, obj: JsonObject, extracted: JsonObject) -> None:
        """Write a changed part back into the object."""
        ...


class _ObjectChanged(Exception):
    """The object changed while admission waited."""


async def create_object(
    registry: RegistryContext, target: ResourceTarget, obj: JsonObject, options: WriteOptions
) -> WriteResult:
    """Store a new object that has been checked against its schema. Takes ownership of `obj`."""
    metadata = obj.setdefault("metadata", {})
    check_namespace(target, metadata)
    if metadata.get("resourceVersion") and not options.is_apply:
        raise ApiError(500, "", "resourceVersion should not be set on objects to be created")
    kind = target.kind
    stored_kind = registry.served_kinds.storage_kind(kind)
    object_lifecycle.reset_server_fields(stored_kind, obj)
    if not options.is_apply:
        _record_managed_fields(registry, target, obj, None, options)
    obj = _to_storage(kind, stored_kind, obj)
    attributes = Attributes(
        "CREATE",
        target,
        options.user,
        obj,
        None,
        options.dry_run,
        options.warnings,
        partial(options.to_object, "CreateOptions"),
    )
    await registry.admission.mutate(attributes)
    assert attributes.obj is not None
    obj = attributes.obj
    metadata = obj["metadata"]
    check_namespace(target, metadata)
    if not metadata.get("name") and metadata.get("generateName"):
        metadata["name"] = _generate_name(registry, target, metadata["generateName"])
    now = format_rfc3339(registry.clock.now())
    object_lifecycle.initialize_metadata(stored_kind, obj, registry.id_generator.uid(), now)
    stored_kind.strategy.record_requester(obj, options.user)
    stored_kind.strategy.prepare_create(obj)
    validate_object(target, obj, None, options)
    await registry.admission.validate(attributes)
    name = obj["metadata"]["name"]
    key = object_key(target.namespace, name)

    def insert(current: Entry | None, rv: int) -> PutEntry:
        if current is not None:
            error = already_exists(kind.group, kind.plural, name)
            if current.decode()["metadata"].get("deletionTimestamp"):
                error.message = f"object is being deleted: {error.message}"
            raise error
        return PutEntry(encode_entry(stored_kind, key, rv, obj))

    if options.dry_run:
        current = registry.store.newest_entry(registry.collection(target), key)
        return WriteResult(_without_version(insert(current, 0).entry), is_created=True)
    entry = await registry.store.write(storage_resource(kind), key, insert)
    assert entry is not None
    return WriteResult(entry, is_created=True)


def _generate_name(registry: RegistryContext, target: ResourceTarget, prefix: str) -> str:
    """A name that is not in use; as in Kubernetes, after some tries one that may conflict."""
    collection = registry.collection(target)
    for _ in range(_GENERATED_NAME_TRIES - 1):
        name = prefix[:_GENERATED_NAME_BASE] + registry.id_generator.name_suffix()
        if registry.store.newest_entry(collection, object_key(target.namespace, name)) is None:
            return name
    return prefix[:_GENERATED_NAME_BASE] + registry.id_generator.name_suffix()


async def update_object(
    registry: RegistryContext,
    target: ResourceTarget,
    options: WriteOptions,
    update: ObjectUpdate,
    *,
    create_if_missing: bool = False,
    view: SubresourceView | None = None,
) -> WriteResult:
    """Replace an object by the result of `update`; retried if it changed meanwhile.

    With a `view`, admission sees the view.
    """
    while True:
        base = registry.newest_entry(target)
        if base is None:
            if not create_if_missing:
                raise not_found_error(target)
            return await create_object(registry, target, update(None), options)
        try:
            return await _update_once(registry, target, options, base, update, view)
        except _ObjectChanged:
            continue


async def _update_once(
    registry: RegistryContext,
    target: ResourceTarget,
    options: WriteOptions,
    base: Entry,
    update: ObjectUpdate,
    view: SubresourceView | None,
) -> WriteResult:
    kind = target.kind
    stored_kind = registry.served_kinds.storage_kind(kind)
    old = decode_entry(stored_kind, base)
    new = update(decode_entry(kind, base))
    metadata = new.setdefault("metadata", {})
    check_namespace(target, metadata)
    object_lifecycle.check_preconditions(kind, target.name, metadata, old["metadata"])
    if not options.is_apply:
        _record_managed_fields(
            registry, target, new, old if kind is stored_kind else decode_entry(kind, base), options
        )
    new = _to_storage(kind, stored_kind, new)
    object_lifecycle.preserve_server_fields(stored_kind, target.subresource, new, old)
    attributes = Attributes(
        "UPDATE",
        target,
        options.user,
        new if view is None else view.extract(new),
        old if view is None else view.extract(old),
        options.dry_run,
        options.warnings,
        partial(options.to_object, "UpdateOptions"),
        verb=options.verb,
    )
    await registry.admission.mutate(attributes)
    assert attributes.obj is not None
    if view is not None:
        view.restore(new, attributes.obj)
    elif attributes.obj is not new:
        new = attributes.obj
        object_lifecycle.preserve_server_fields(stored_kind, target.subresource, new, old)
    metadata = new["metadata"]
    strategy = stored_kind.strategy_for(target.subresource)
    if target.subresource == "status":
        strategy.prepare_status(new, old)
    elif target.subresource not in _SERVER_SUBRESOURCES:
        strategy.prepare_update(new, old)
    object_lifecycle.update_generation(stored_kind, new, old)
    validate_object(target, new, old, options)
    await registry.admission.validate(attributes)
    keep_unchanged_times(old, new)
    removed = object_lifecycle.is_ready_for_removal(metadata) and stored_kind.strategy.is_removable(
        new
    )
    if not removed and json_equal(new, old):
        return WriteResult(base)
    if removed:
        return await _remove_on_update(registry, target, options, base, new)

    def replace(current: Entry | None, rv: int) -> PutEntry:
        _check_unchanged(base, current, target)
        return PutEntry(encode_entry(stored_kind, base.key, rv, new))

    if options.dry_run:
        return WriteResult(replace(base, base.rv).entry)
    entry = await registry.store.write(storage_resource(kind), base.key, replace)
    assert entry is not None
    return WriteResult(entry)


async def _remove_on_update(
    registry: RegistryContext,
    target: ResourceTarget,
    options: WriteOptions,
    base: Entry,
    new: JsonObject,
) -> WriteResult:
    """An update that removes the last finalizer: the object is returned, and removed."""
    stored_kind = registry.served_kinds.storage_kind(target.kind)
    returned = encode_entry(stored_kind, base.key, base.rv, new)

    def remove(current: Entry | None, rv: int) -> RemoveEntry:
        _check_unchanged(base, current, target)
        return RemoveEntry(encode_entry(stored_kind, base.key, rv, base.decode()))

    if not options.dry_run:
        await registry.store.write(storage_resource(target.kind), base.key, remove)
    return WriteResult(returned, is_removed=True)


def _check_unchanged(base: Entry, current: Entry | None, target: ResourceTarget) -> None:
    if current is None:
        raise not_found_error(target)
    if current is not base:
        raise _ObjectChanged


def make_replacement(target: ResourceTarget, obj: JsonObject) -> ObjectUpdate:
    """PUT: the object as sent, if its name, namespace and uid match."""
    kind = target.kind
    metadata = obj.setdefault("metadata", {})
    check_name(target, metadata)

    def update(old: JsonObject | None) -> JsonObject:
        if old is not None:
            object_lifecycle.check_uid(kind, target.name, metadata, old["metadata"])
            _require_resource_version(target, metadata)
        return deep_copy(obj)

    return update


def _require_resource_version(target: ResourceTarget, metadata: JsonObject) -> None:
    kind = target.kind
    if target.subresource == "scale" or kind.strategy.allows_unconditional_update:
        return
    if not metadata.get("resourceVersion"):
        problem = invalid_value("metadata.resourceVersion", 0, "must be specified for an update")
        raise invalid(kind.group, kind.plural, target.name, [problem])


def _to_storage(kind: Kind, stored_kind: Kind, obj: JsonObject) -> JsonObject:
    if kind.to_storage is None:
        return obj
    converted = kind.to_storage(obj)
    converted["kind"], converted["apiVersion"] = stored_kind.kind, stored_kind.api_version
    return converted


def _record_managed_fields(
    registry: RegistryContext,
    target: ResourceTarget,
    new: JsonObject,
    old: JsonObject | None,
    options: WriteOptions,
) -> None:
    """Field ownership is recorded in the version of the request."""
    record_update(
        old,
        new,
        target.kind.schema,
        manager=options.manager,
        subresource=target.subresource,
        api_version=target.kind.api_version,
        # Kubernetes does not record the time of a scale.
        time="" if target.subresource == "scale" else format_rfc3339(registry.clock.now()),
        ignored=object_lifecycle.owned_fields_filter(target.kind, target.subresource),
    )


def _without_version(entry: Entry) -> Entry:
    """The object of a dry-run create has no resourceVersion."""
    obj = entry.decode()
    del obj["metadata"]["resourceVersion"]
    return Entry(entry.key, 0, encode(obj), entry.uid, entry.labels, entry.fields)


async def update_without_admission(
    registry: RegistryContext,
    target: ResourceTarget,
    options: WriteOptions,
    update: Callable[[JsonObject], JsonObject],
) -> WriteResult:
    """Update an object without admission and field ownership: for subresources that set server
    fields.
    """
    kind = registry.served_kinds.storage_kind(target.kind)
    key = object_key(target.namespace, target.name)

    def replace(current: Entry | None, rv: int) -> PutEntry:
        if current is None:
            raise not_found_error(target)
        return PutEntry(encode_entry(kind, key, rv, update(current.decode())))

    if options.dry_run:
        return WriteResult(replace(registry.newest_entry(target), 0).entry)
    entry = await registry.store.write(storage_resource(kind), key, replace)
    assert entry is not None
    return WriteResult(entry)
