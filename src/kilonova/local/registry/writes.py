"""Creating and changing objects: what POST, PUT and every kind of PATCH come down to."""

from collections.abc import Callable
from functools import partial
from typing import Protocol

import msgspec

from kilonova.api.json import JsonObject
from kilonova.api.times import rfc3339
from kilonova.local.admission import Attributes
from kilonova.local.apply import keep_times, record_update
from kilonova.local.catalog import storage_resource
from kilonova.local.errors import ApiError, already_exists, invalid, invalid_value
from kilonova.local.kinds.base import Kind
from kilonova.local.patch import copied, same
from kilonova.local.registry import lifecycle
from kilonova.local.registry.checks import check_name, check_namespace, check_valid
from kilonova.local.registry.core import Registry, absent
from kilonova.local.registry.objects import encode, key_of, make_entry, shown
from kilonova.local.registry.options import WriteOptions
from kilonova.local.registry.ownership import untracked
from kilonova.local.routes import Target
from kilonova.local.storage import Entry, Put, Remove

_GENERATED_NAME_BASE = 58
_GENERATED_NAME_TRIES = 8
_FOR_THE_SERVER = ("finalize",)
"""Endpoints that change just what a client may not change elsewhere."""


class Outcome(msgspec.Struct, frozen=True):
    """What became of a write: the entry as stored (or as it would be)."""

    entry: Entry
    created: bool = False
    removed: bool = False


Make = Callable[[JsonObject | None], JsonObject]
"""Makes the wanted object out of the present one (None: there is none), both in the version
of the request. The present object is a copy, free to be changed."""


class View(Protocol):
    """The part of an object that an endpoint is about (its Scale), as an object of its own."""

    def show(self, obj: JsonObject) -> JsonObject:
        """The part, as it is in the object."""
        ...

    def take(self, obj: JsonObject, shown: JsonObject) -> None:
        """Put a part that was changed back into the object."""
        ...


class _Moved(Exception):
    """The object changed while admission was waiting for an answer."""


async def create(
    registry: Registry, target: Target, obj: JsonObject, options: WriteOptions
) -> Outcome:
    """Store a new object, which has been checked against its schema. Takes `obj` over."""
    metadata = obj.setdefault("metadata", {})
    check_namespace(target, metadata)
    if metadata.get("resourceVersion") and not options.applied:
        raise ApiError(500, "", "resourceVersion should not be set on objects to be created")
    kind = target.kind
    stored_kind = registry.catalog.storing(kind)
    lifecycle.wipe(stored_kind, obj)
    if not options.applied:
        _record(registry, target, obj, None, options)
    obj = _to_storage(kind, stored_kind, obj)
    attributes = Attributes(
        "CREATE",
        target,
        options.user,
        obj,
        None,
        options.dry_run,
        options.warnings,
        partial(options.described, "CreateOptions"),
    )
    await registry.admission.mutate(attributes)
    assert attributes.obj is not None
    obj = attributes.obj
    metadata = obj["metadata"]
    check_namespace(target, metadata)
    if not metadata.get("name") and metadata.get("generateName"):
        metadata["name"] = _free_name(registry, target, metadata["generateName"])
    now = rfc3339(registry.clock.now())
    lifecycle.start_life(stored_kind, obj, registry.identities.uid(), now)
    stored_kind.behavior.sign(obj, options.user)
    stored_kind.behavior.prepare_create(obj)
    check_valid(target, obj, None, options)
    await registry.admission.validate(attributes)
    name = obj["metadata"]["name"]
    key = key_of(target.namespace, name)

    def decide(current: Entry | None, rv: int) -> Put:
        if current is not None:
            error = already_exists(kind.group, kind.plural, name)
            if current.decode()["metadata"].get("deletionTimestamp"):
                error.message = f"object is being deleted: {error.message}"
            raise error
        return Put(make_entry(stored_kind, key, rv, obj))

    if options.dry_run:
        current = registry.store.newest(registry.collection(target), key)
        return Outcome(_without_version(decide(current, 0).entry), created=True)
    entry = await registry.store.write(storage_resource(kind), key, decide)
    assert entry is not None
    return Outcome(entry, created=True)


def _free_name(registry: Registry, target: Target, prefix: str) -> str:
    """A name that nobody has; after some tries one that may be refused, as Kubernetes does."""
    collection = registry.collection(target)
    for _ in range(_GENERATED_NAME_TRIES - 1):
        name = prefix[:_GENERATED_NAME_BASE] + registry.identities.suffix()
        if registry.store.newest(collection, key_of(target.namespace, name)) is None:
            return name
    return prefix[:_GENERATED_NAME_BASE] + registry.identities.suffix()


async def change(
    registry: Registry,
    target: Target,
    options: WriteOptions,
    make: Make,
    *,
    create_missing: bool = False,
    view: View | None = None,
) -> Outcome:
    """Replace an object by what `make` makes of it, once more if it moved meanwhile.

    With a `view`, that is what admission sees of it.
    """
    while True:
        base = registry.newest(target)
        if base is None:
            if not create_missing:
                raise absent(target)
            return await create(registry, target, make(None), options)
        try:
            return await _replace(registry, target, options, base, make, view)
        except _Moved:
            continue


async def _replace(
    registry: Registry,
    target: Target,
    options: WriteOptions,
    base: Entry,
    make: Make,
    view: View | None,
) -> Outcome:
    kind = target.kind
    stored_kind = registry.catalog.storing(kind)
    old = shown(stored_kind, base)
    new = make(shown(kind, base))
    metadata = new.setdefault("metadata", {})
    check_namespace(target, metadata)
    lifecycle.check_preconditions(kind, target.name, metadata, old["metadata"])
    if not options.applied:
        _record(registry, target, new, old if kind is stored_kind else shown(kind, base), options)
    new = _to_storage(kind, stored_kind, new)
    lifecycle.carry_over(stored_kind, target.subresource, new, old)
    attributes = Attributes(
        "UPDATE",
        target,
        options.user,
        new if view is None else view.show(new),
        old if view is None else view.show(old),
        options.dry_run,
        options.warnings,
        partial(options.described, "UpdateOptions"),
        verb=options.verb,
    )
    await registry.admission.mutate(attributes)
    assert attributes.obj is not None
    if view is not None:
        view.take(new, attributes.obj)
    elif attributes.obj is not new:
        new = attributes.obj
        lifecycle.carry_over(stored_kind, target.subresource, new, old)
    metadata = new["metadata"]
    behavior = stored_kind.behavior_at(target.subresource)
    if target.subresource == "status":
        behavior.prepare_status(new, old)
    elif target.subresource not in _FOR_THE_SERVER:
        behavior.prepare_update(new, old)
    lifecycle.count_generation(stored_kind, new, old)
    check_valid(target, new, old, options)
    await registry.admission.validate(attributes)
    keep_times(old, new)
    removed = lifecycle.ready_to_go(metadata) and stored_kind.behavior.may_go(new)
    if not removed and same(new, old):
        return Outcome(base)
    if removed:
        return await _remove(registry, target, options, base, new)

    def decide(current: Entry | None, rv: int) -> Put:
        _check_still(base, current, target)
        return Put(make_entry(stored_kind, base.key, rv, new))

    if options.dry_run:
        return Outcome(decide(base, base.rv).entry)
    entry = await registry.store.write(storage_resource(kind), base.key, decide)
    assert entry is not None
    return Outcome(entry)


async def _remove(
    registry: Registry, target: Target, options: WriteOptions, base: Entry, new: JsonObject
) -> Outcome:
    """The change that an object waited for to go: it is answered, and never stored."""
    stored_kind = registry.catalog.storing(target.kind)
    answered = make_entry(stored_kind, base.key, base.rv, new)

    def decide(current: Entry | None, rv: int) -> Remove:
        _check_still(base, current, target)
        return Remove(make_entry(stored_kind, base.key, rv, base.decode()))

    if not options.dry_run:
        await registry.store.write(storage_resource(target.kind), base.key, decide)
    return Outcome(answered, removed=True)


def _check_still(base: Entry, current: Entry | None, target: Target) -> None:
    if current is None:
        raise absent(target)
    if current is not base:
        raise _Moved


def replacement(target: Target, obj: JsonObject) -> Make:
    """PUT: the object as sent, if it is about the one that the path names."""
    kind = target.kind
    metadata = obj.setdefault("metadata", {})
    check_name(target, metadata)

    def make(old: JsonObject | None) -> JsonObject:
        if old is not None:
            lifecycle.check_uid(kind, target.name, metadata, old["metadata"])
            _check_version_is_told(target, metadata)
        return copied(obj)

    return make


def _check_version_is_told(target: Target, metadata: JsonObject) -> None:
    kind = target.kind
    if target.subresource == "scale" or kind.behavior.unconditional_update:
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


def _record(
    registry: Registry,
    target: Target,
    new: JsonObject,
    old: JsonObject | None,
    options: WriteOptions,
) -> None:
    """Ownership is kept in the version that the client speaks."""
    record_update(
        old,
        new,
        target.kind.schema,
        manager=options.manager,
        subresource=target.subresource,
        api_version=target.kind.api_version,
        # Kubernetes does not say when somebody scaled.
        time="" if target.subresource == "scale" else rfc3339(registry.clock.now()),
        ignored=untracked(target.kind, target.subresource),
    )


def _without_version(entry: Entry) -> Entry:
    """What a dry run would have created has no version yet."""
    obj = entry.decode()
    del obj["metadata"]["resourceVersion"]
    return Entry(entry.key, 0, encode(obj), entry.uid, entry.labels, entry.fields)


async def edit(
    registry: Registry,
    target: Target,
    options: WriteOptions,
    make: Callable[[JsonObject], JsonObject],
) -> Outcome:
    """Change an object past admission and ownership: for endpoints that set server-owned fields."""
    kind = registry.catalog.storing(target.kind)
    key = key_of(target.namespace, target.name)

    def decide(current: Entry | None, rv: int) -> Put:
        if current is None:
            raise absent(target)
        return Put(make_entry(kind, key, rv, make(current.decode())))

    if options.dry_run:
        return Outcome(decide(registry.newest(target), 0).entry)
    entry = await registry.store.write(storage_resource(kind), key, decide)
    assert entry is not None
    return Outcome(entry)
