"""Keeping track of who set what, for requests that are not applies."""

from __future__ import annotations

from msgspec.structs import replace

from kilonova.api.json import JsonObject
from kilonova.local.apply.compare import Comparison, compare
from kilonova.local.apply.entries import (
    UPDATE,
    Entries,
    Entry,
    encoded_entries,
    is_reset,
    received_entries,
    stored_entries,
    without_old_updates,
)
from kilonova.local.apply.fields import Fields, Filter, difference, from_paths, union
from kilonova.local.apply.ownership import created_object
from kilonova.local.apply.reconcile import reconciled
from kilonova.local.apply.shapes import Shape, shape_of
from kilonova.local.patch import same
from kilonova.local.schema.node import Schema


def record_update(
    live: JsonObject | None,
    new: JsonObject,
    schema: Schema,
    *,
    manager: str,
    api_version: str,
    time: str,
    subresource: str = "",
    ignored: Filter | None = None,
) -> None:
    """Write into `new` who owns its fields after `manager` has made it of `live`.

    `live` is None for a create. Both objects are as the client sees them in `api_version`,
    defaulted, and not yet touched by admission or by the kind's own resets; what those resets
    take back is named by `ignored`. `time` is in RFC 3339. Fields that did not change keep
    their owners; the entries of an object that had none stay none.

    Versions are not converted: the fields of every entry are taken to be of this schema.
    """
    shape = shape_of(schema)
    metadata = new["metadata"]
    sent = metadata.pop("managedFields", None)
    if sent == [] and not shape.built_in:
        # The metadata of custom objects passes through a struct, where no list is an empty one.
        sent = None
    entries = _entries_before(live, sent, subresource)
    if live is None:
        comparison = Comparison(created_object(shape, new), {}, {})
    elif entries:
        entries = fitted(shape, entries)
        comparison = compare(shape, live, new)
    else:
        return
    comparison = comparison.filtered(ignored)
    entries = disowned(entries, union(comparison.set(), comparison.removed))
    own = without_untracked(comparison.set())
    if own:
        entry = Entry(manager or "unknown", UPDATE, api_version, own, time, subresource)
        previous = entries.get(entry.identity)
        if previous is not None:
            entry = replace(entry, fields=union(own, previous.fields))
        entries[entry.identity] = entry
    write_entries(new, without_old_updates(entries), live)


def _entries_before(live: JsonObject | None, sent: object, subresource: str) -> Entries:
    """The entries to go on from: a client may write them, except through a subresource."""
    if sent is None or subresource:
        return stored_entries(live)
    if is_reset(sent):
        return {}
    if live is not None and sent == live["metadata"].get("managedFields"):
        return stored_entries(live)
    try:
        return received_entries(sent) or stored_entries(live)
    except (ValueError, AttributeError, TypeError):
        return stored_entries(live)


def fitted(shape: Shape, entries: Entries) -> Entries:
    """The entries, fitted to a schema that its author may have changed since."""
    if shape.built_in:
        return entries
    return {
        identity: entry if fields is entry.fields else replace(entry, fields=fields)
        for identity, entry in entries.items()
        for fields in (reconciled(shape, entry.fields),)
    }


def disowned(entries: Entries, fields: Fields) -> Entries:
    """The entries without these fields, and without those that then have none."""
    result: Entries = {}
    for identity, entry in entries.items():
        rest = difference(entry.fields, fields)
        if rest:
            result[identity] = entry if rest is entry.fields else replace(entry, fields=rest)
    return result


def without_untracked(fields: Fields) -> Fields:
    """The set without what names an object and what the server alone sets."""
    return difference(fields, _UNTRACKED)


def write_entries(obj: JsonObject, entries: Entries, live: JsonObject | None) -> None:
    """Set the entries of an object; those of `live` are taken over if they are the same."""
    if not entries:
        obj["metadata"].pop("managedFields", None)
        return
    written = encoded_entries(entries.values())
    before = live["metadata"].get("managedFields") if live else None
    obj["metadata"]["managedFields"] = before if before == written else written


def keep_times(live: JsonObject, new: JsonObject) -> None:
    """Take back new times of entries in `new` if nothing else in it is new.

    To be called when an update is complete, so that one that changes nothing writes nothing.
    """
    before = live["metadata"].get("managedFields")
    after = new["metadata"].get("managedFields")
    if not before or not after or len(before) != len(after) or before == after:
        return
    if [_timeless(entry) for entry in before] != [_timeless(entry) for entry in after]:
        return
    if same(_unmanaged(live), _unmanaged(new)):
        new["metadata"]["managedFields"] = before


def _timeless(entry: JsonObject) -> JsonObject:
    return {key: value for key, value in entry.items() if key != "time"}


def _unmanaged(obj: JsonObject) -> JsonObject:
    metadata = {key: value for key, value in obj["metadata"].items() if key != "managedFields"}
    return {**obj, "metadata": metadata}


_UNTRACKED = from_paths(
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
