"""Server-side apply: merge what a manager wants, if nobody else minds.

What a manager applied before and no longer names is removed, unless others own it too. A
field that others own with another value is a conflict; forcing takes it from them.
"""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace

from kilonova.api.json import JsonObject
from kilonova.local.apply.compare import compare
from kilonova.local.apply.conflict import ApplyConflict, Conflict, apply_conflict
from kilonova.local.apply.entries import APPLY, UPDATE, Entries, Entry, stored_entries
from kilonova.local.apply.fields import (
    Fields,
    Filter,
    contains,
    difference,
    intersection,
    paths,
    shared,
    union,
)
from kilonova.local.apply.items import BadItemError
from kilonova.local.apply.last_applied import renew_annotation, still_as_last_applied
from kilonova.local.apply.merge import merged, with_named_parents, without
from kilonova.local.apply.ownership import created_object, field_set
from kilonova.local.apply.shapes import Shape, shape_of
from kilonova.local.apply.typed import check_applied, misfit
from kilonova.local.apply.updating import disowned, fitted, without_untracked, write_entries
from kilonova.local.errors import bad_request
from kilonova.local.patch import same
from kilonova.local.schema.node import Schema

_KUBECTL = "kubectl"
_BEFORE = "before-first-apply"


def apply(
    live: JsonObject | None,
    applied: JsonObject,
    schema: Schema,
    *,
    manager: str,
    api_version: str,
    time: str,
    force: bool = False,
    subresource: str = "",
    ignored: Filter | None = None,
) -> JsonObject:
    """The object after `manager` has applied its configuration, not yet defaulted.

    `live` is None if there is no object yet. Raises `ApplyConflict`, or `ApiError` where the
    configuration does not fit the schema. Applying the same again gives back an object equal
    to `live`. The other arguments are those of `record_update`.
    """
    if applied.get("metadata", {}).get("managedFields") is not None:
        raise bad_request("metadata.managedFields must be nil")
    shape = shape_of(schema)
    check_applied(shape, applied)
    request = _Request(shape, api_version, time, subresource, ignored)
    try:
        result = request.apply(live, applied, manager, force)
    except ApplyConflict as refusal:
        if manager != _KUBECTL or live is None:
            raise
        allowed = still_as_last_applied(shape, live, api_version)
        rest = [each for each in refusal.conflicts if not contains(allowed, each.path)]
        if rest:
            raise apply_conflict(rest) from None
        result = request.apply(live, applied, manager, True)
    if manager == _KUBECTL:
        renew_annotation(result, applied)
    return result


@dataclass(frozen=True, slots=True)
class _Request:
    shape: Shape
    api_version: str
    time: str
    subresource: str
    ignored: Filter | None

    def apply(
        self, live: JsonObject | None, applied: JsonObject, manager: str, force: bool
    ) -> JsonObject:
        entries = fitted(self.shape, stored_entries(live))
        old = _without_entries(live or {})
        if live is not None and not entries:
            entries = self._entries_before_first_apply(old)
        try:
            new = merged(self.shape, old, applied)
        except BadItemError as error:
            raise misfit("live", old, str(error)) from None
        fields = self._kept(field_set(self.shape, applied))
        entry = Entry(manager or "unknown", APPLY, self.api_version, fields, "", self.subresource)
        previous = entries.get(entry.identity)
        entries[entry.identity] = entry
        if previous is not None:
            new = self._without_abandoned(new, previous.fields, entries, fields)
        others = {key: each for key, each in entries.items() if key != entry.identity}
        entries = self._settled(others, old, new, force)
        time = previous.time if previous is not None else ""
        if live is None or not (same(old, new) if self.shape.loose else old == new):
            time = self.time
        tracked = without_untracked(fields)
        if tracked:
            entries[entry.identity] = replace(entry, fields=tracked, time=time)
        new.setdefault("metadata", {})
        write_entries(new, entries, live)
        return new

    def _entries_before_first_apply(self, old: JsonObject) -> Entries:
        fields = without_untracked(self._kept(created_object(self.shape, old)))
        if not fields:
            return {}
        entry = Entry(_BEFORE, UPDATE, self.api_version, fields, self.time, self.subresource)
        return {entry.identity: entry}

    def _settled(self, others: Entries, old: JsonObject, new: JsonObject, force: bool) -> Entries:
        """The entries of the others after the change, or `ApplyConflict`."""
        changes = compare(self.shape, old, new).filtered(self.ignored)
        taken = changes.set()
        if not force:
            conflicts = [
                Conflict(entry, path)
                for entry in others.values()
                for path in paths(intersection(entry.fields, taken))
            ]
            if conflicts:
                raise apply_conflict(conflicts)
        return disowned(others, union(taken, changes.removed))

    def _without_abandoned(
        self, new: JsonObject, last: Fields, entries: Entries, applied: Fields
    ) -> JsonObject:
        """Take out what the manager applied last and nobody owns any more."""
        if last == applied or not difference(last, applied):
            return new
        shape = self.shape
        last = with_named_parents(shape, last)
        owned = with_named_parents(shape, shared(entry.fields for entry in entries.values()))
        everything = with_named_parents(shape, field_set(shape, new))
        bare = without(shape, new, last)
        left = with_named_parents(shape, field_set(shape, bare))
        pruned = without(shape, new, difference(everything, union(left, owned)))
        # Fields that nobody owns lose their holder with it; those of the holder stay.
        left = with_named_parents(shape, field_set(shape, pruned))
        return without(shape, new, intersection(difference(everything, left), last))

    def _kept(self, fields: Fields) -> Fields:
        return fields if self.ignored is None else self.ignored(fields)


def _without_entries(obj: JsonObject) -> JsonObject:
    metadata: JsonObject = obj.get("metadata") or {}
    if "managedFields" not in metadata:
        return obj
    rest = {key: value for key, value in metadata.items() if key != "managedFields"}
    return {**obj, "metadata": rest}
