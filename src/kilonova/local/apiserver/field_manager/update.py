"""Field ownership for creates, updates and patches."""

from __future__ import annotations

from msgspec.structs import replace

from kilonova.api.json import JsonObject
from kilonova.local.apimachinery.patch import json_equal
from kilonova.local.apiserver.field_manager.comparison import FieldChanges, compare_objects
from kilonova.local.apiserver.field_manager.field_sets import (
    FieldFilter,
    FieldSet,
    difference,
    field_set_from_paths,
    union,
)
from kilonova.local.apiserver.field_manager.managed_fields import (
    UPDATE,
    ManagedFields,
    ManagedFieldsEntry,
    cap_update_managers,
    decode_client_entries,
    decode_stored_entries,
    encode_entries,
    is_managed_fields_reset,
)
from kilonova.local.apiserver.field_manager.merge_schema import MergeSchema, compile_merge_schema
from kilonova.local.apiserver.field_manager.owned_fields import created_object_fields
from kilonova.local.apiserver.field_manager.schema_reconciliation import reconcile_with_schema
from kilonova.local.apiserver.schema.node import Schema


def record_update(
    live: JsonObject | None,
    new: JsonObject,
    schema: Schema,
    *,
    manager: str,
    api_version: str,
    time: str,
    subresource: str = "",
    ignored: FieldFilter | None = None,
) -> None:
    """Set the managed fields of `new` after `manager` has changed `live` to it.

    `live` is None for a create. Both objects are as the client sees them in `api_version`,
    defaulted, before admission and before the strategy resets fields; `ignored` names the fields
    that it resets. `time` is in RFC 3339. Unchanged fields keep their owners; an object without
    entries gets none.

    Versions are not converted: the fields of every entry are interpreted by this schema.
    """
    merge_schema = compile_merge_schema(schema)
    metadata = new["metadata"]
    sent = metadata.pop("managedFields", None)
    if sent == [] and not merge_schema.built_in:
        # The metadata of custom objects passes through a struct, in which an absent list is empty.
        sent = None
    entries = _previous_entries(live, sent, subresource)
    if live is None:
        comparison = FieldChanges(created_object_fields(merge_schema, new), {}, {})
    elif entries:
        entries = reconcile_entries(merge_schema, entries)
        comparison = compare_objects(merge_schema, live, new)
    else:
        return
    comparison = comparison.filter(ignored)
    entries = remove_ownership(entries, union(comparison.changed(), comparison.removed))
    changed = exclude_untracked(comparison.changed())
    if changed:
        entry = ManagedFieldsEntry(
            manager or "unknown", UPDATE, api_version, changed, time, subresource
        )
        previous = entries.get(entry.identity)
        if previous is not None:
            entry = replace(entry, fields=union(changed, previous.fields))
        entries[entry.identity] = entry
    write_entries(new, cap_update_managers(entries), live)


def _previous_entries(live: JsonObject | None, sent: object, subresource: str) -> ManagedFields:
    """The entries to start from: a client may write them, except through a subresource."""
    if sent is None or subresource:
        return decode_stored_entries(live)
    if is_managed_fields_reset(sent):
        return {}
    if live is not None and sent == live["metadata"].get("managedFields"):
        return decode_stored_entries(live)
    try:
        return decode_client_entries(sent) or decode_stored_entries(live)
    except (ValueError, AttributeError, TypeError):
        return decode_stored_entries(live)


def reconcile_entries(merge_schema: MergeSchema, entries: ManagedFields) -> ManagedFields:
    """The entries, adapted to a schema that may have changed since."""
    if merge_schema.built_in:
        return entries
    return {
        identity: entry if fields is entry.fields else replace(entry, fields=fields)
        for identity, entry in entries.items()
        for fields in (reconcile_with_schema(merge_schema, entry.fields),)
    }


def remove_ownership(entries: ManagedFields, fields: FieldSet) -> ManagedFields:
    """The entries without these fields, and without entries that become empty."""
    result: ManagedFields = {}
    for identity, entry in entries.items():
        rest = difference(entry.fields, fields)
        if rest:
            result[identity] = entry if rest is entry.fields else replace(entry, fields=rest)
    return result


def exclude_untracked(fields: FieldSet) -> FieldSet:
    """The set without the object's identity and the fields that only the server sets."""
    return difference(fields, _UNTRACKED)


def write_entries(obj: JsonObject, entries: ManagedFields, live: JsonObject | None) -> None:
    """Set the entries of an object; those of `live` are reused if they are equal."""
    if not entries:
        obj["metadata"].pop("managedFields", None)
        return
    encoded = encode_entries(entries.values())
    before = live["metadata"].get("managedFields") if live else None
    obj["metadata"]["managedFields"] = before if before == encoded else encoded


def keep_unchanged_times(live: JsonObject, new: JsonObject) -> None:
    """Reset new entry times in `new` if nothing else in it has changed.

    Called when an update is complete, so that an update without changes is not written.
    """
    before = live["metadata"].get("managedFields")
    after = new["metadata"].get("managedFields")
    if not before or not after or len(before) != len(after) or before == after:
        return
    if [_without_time(entry) for entry in before] != [_without_time(entry) for entry in after]:
        return
    if json_equal(_without_managed_fields(live), _without_managed_fields(new)):
        new["metadata"]["managedFields"] = before


def _without_time(entry: JsonObject) -> JsonObject:
    return {key: value for key, value in entry.items() if key != "time"}


def _without_managed_fields(obj: JsonObject) -> JsonObject:
    metadata = {key: value for key, value in obj["metadata"].items() if key != "managedFields"}
    return {**obj, "metadata": metadata}


_UNTRACKED = field_set_from_paths(
    ("f:apiVersion",),
    ("f:kind",),
    ("f:metadata",),
    *(
        ("f:metadata", f"f:{name}")
        for name in (
            "name",
            "namespace",
            "creationTimestamp",
            "selfLink",
            "uid",
            "clusterName",
            "generation",
            "managedFields",
            "resourceVersion",
        )
    ),
)
