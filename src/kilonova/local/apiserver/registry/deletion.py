"""Deletion: immediate, or graceful while a grace period or finalizers remain."""

from functools import partial

from kilonova.api.json import JsonObject
from kilonova.api.times import format_rfc3339
from kilonova.local.apimachinery.errors import ApiError
from kilonova.local.apiserver.admission import Attributes
from kilonova.local.apiserver.endpoints.resource_target import ResourceTarget
from kilonova.local.apiserver.kinds.kind import Kind, KindStrategy
from kilonova.local.apiserver.registry import object_lifecycle
from kilonova.local.apiserver.registry.context import RegistryContext, not_found_error
from kilonova.local.apiserver.registry.encoding import decode_entry, encode_entry
from kilonova.local.apiserver.registry.lists import ListPage, list_entries
from kilonova.local.apiserver.registry.options import DeleteOptions, ListOptions, WriteOptions
from kilonova.local.apiserver.registry.writes import WriteResult
from kilonova.local.apiserver.served_kinds import storage_resource
from kilonova.local.apiserver.storage import Entry, PutEntry, RemoveEntry


async def delete_object(
    registry: RegistryContext,
    target: ResourceTarget,
    delete_options: DeleteOptions,
    options: WriteOptions,
    *,
    skip_admission: bool = False,
    request_target: ResourceTarget | None = None,
) -> WriteResult:
    """Delete one object, or set its deletion timestamp.

    `skip_admission`: admission has run already; `request_target`: the target of the request, if not
    this object.
    """
    kind = target.kind
    stored_kind = registry.served_kinds.storage_kind(kind)
    while True:
        base = registry.newest_entry(target)
        if base is None:
            raise not_found_error(target)
        obj = decode_entry(stored_kind, base)
        object_lifecycle.check_delete_preconditions(
            kind, target.name, delete_options.preconditions, obj["metadata"]
        )
        if skip_admission:
            break
        attributes = Attributes(
            "DELETE",
            request_target or target,
            options.user,
            None,
            obj,
            options.dry_run,
            options.warnings,
            partial(delete_options.to_object, options),
        )
        await registry.admission.mutate(attributes)
        await registry.admission.validate(attributes)
        if registry.newest_entry(target) is base:
            break
    is_removed, is_changed = _update_for_deletion(registry, stored_kind, obj, delete_options)

    def apply_deletion(current: Entry | None, rv: int) -> PutEntry | RemoveEntry:
        if current is not base:
            raise AssertionError("nothing has been waited for")
        entry = encode_entry(stored_kind, base.key, rv, obj)
        return RemoveEntry(entry) if is_removed else PutEntry(entry)

    if not is_removed and not is_changed:
        return WriteResult(base)
    if options.dry_run:
        return WriteResult(apply_deletion(base, base.rv).entry, is_removed=is_removed)
    if is_removed and is_changed and stored_kind.strategy.has_graceful_deletion:
        return await _mark_then_remove(registry, target, base, obj)
    entry = await registry.store.write(storage_resource(kind), base.key, apply_deletion)
    assert entry is not None
    return WriteResult(entry, is_removed=is_removed)


async def _mark_then_remove(
    registry: RegistryContext, target: ResourceTarget, base: Entry, obj: JsonObject
) -> WriteResult:
    """Watches see the deletion timestamp before the removal; both are committed together."""
    kind, resource = registry.served_kinds.storage_kind(target.kind), storage_resource(target.kind)

    def set_timestamp(current: Entry | None, rv: int) -> PutEntry:
        if current is not base:
            raise AssertionError("nothing has been waited for")
        return PutEntry(encode_entry(kind, base.key, rv, obj))

    def remove(current: Entry | None, rv: int) -> RemoveEntry:
        assert current is not None
        return RemoveEntry(encode_entry(kind, base.key, rv, current.decode()))

    entry = await registry.store.write(resource, base.key, set_timestamp, remove)
    assert entry is not None
    return WriteResult(entry, is_removed=True)


async def delete_collection(
    registry: RegistryContext,
    target: ResourceTarget,
    list_options: ListOptions,
    delete_options: DeleteOptions,
    options: WriteOptions,
) -> ListPage:
    """Delete all objects that a list with these options returns; returns them."""
    deleted: list[Entry] = []
    page = list_entries(registry, target, list_options)
    for entry in page.entries:
        namespace, _, name = entry.key.rpartition("/")
        item_target = ResourceTarget(target.kind, namespace, name, "")
        try:
            await delete_object(
                registry, item_target, delete_options, options, request_target=target
            )
        except ApiError as error:
            if error.code != 404:
                raise
            continue
        deleted.append(entry)
    return ListPage(deleted, page.rv, page.continue_token, page.remaining)


def _update_for_deletion(
    registry: RegistryContext, kind: Kind, obj: JsonObject, delete_options: DeleteOptions
) -> tuple[bool, bool]:
    """Whether the object is removed now, and whether it changed (it was marked for deletion)."""
    metadata = obj["metadata"]
    strategy = kind.strategy
    now = registry.clock.now()
    if not metadata.get("deletionTimestamp"):
        strategy.prepare_delete(obj, format_rfc3339(now))
    before = list(metadata.get("finalizers") or [])
    finalizers = _deletion_finalizers(strategy, before, delete_options.propagation_policy)
    changed = finalizers != before
    if changed:
        metadata["finalizers"] = finalizers
    if metadata.get("deletionTimestamp"):
        if delete_options.grace_seconds is not None and metadata.get("deletionGracePeriodSeconds"):
            changed |= object_lifecycle.shorten_grace_period(
                metadata, now, delete_options.grace_seconds
            )
        return object_lifecycle.is_ready_for_removal(metadata) and strategy.is_removable(
            obj
        ), changed
    grace = strategy.grace_seconds(obj, delete_options.grace_seconds)
    is_removed = not grace and not finalizers and strategy.is_removable(obj)
    if not is_removed or strategy.has_graceful_deletion:
        object_lifecycle.set_deletion_timestamp(metadata, now, grace)
    if not strategy.sets_grace_seconds:
        metadata.pop("deletionGracePeriodSeconds", None)
    return is_removed, True


def _deletion_finalizers(
    strategy: KindStrategy, present: list[str], propagation: str | None
) -> list[str]:
    """The finalizers that make the garbage collector follow the propagation policy."""
    if propagation is None:
        deletion_finalizers = {object_lifecycle.FOREGROUND, object_lifecycle.ORPHAN}
        if strategy.orphans_by_default and deletion_finalizers.isdisjoint(present):
            return [*present, object_lifecycle.ORPHAN]
        return present
    remaining = [
        name
        for name in present
        if name not in (object_lifecycle.FOREGROUND, object_lifecycle.ORPHAN)
    ]
    if propagation == "Foreground":
        remaining.append(object_lifecycle.FOREGROUND)
    elif propagation == "Orphan":
        remaining.append(object_lifecycle.ORPHAN)
    return remaining
