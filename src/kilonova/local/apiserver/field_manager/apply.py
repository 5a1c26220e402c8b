"""Server-side apply: merge a manager's configuration into the live object.

Fields that the manager applied before and no longer applies are removed, unless other managers own
them too. A field that another manager owns with another value is a conflict; a forced apply takes
over its ownership.
"""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace

from kilonova.api.json import JsonObject
from kilonova.local.apimachinery.errors import bad_request
from kilonova.local.apimachinery.patch import json_equal
from kilonova.local.apiserver.field_manager.comparison import compare_objects
from kilonova.local.apiserver.field_manager.conflict_errors import (
    ApplyConflict,
    FieldConflict,
    conflict_error,
)
from kilonova.local.apiserver.field_manager.field_sets import (
    FieldFilter,
    FieldSet,
    contains,
    difference,
    intersection,
    iterate_paths,
    union,
    union_all,
)
from kilonova.local.apiserver.field_manager.last_applied import (
    unchanged_since_last_applied,
    update_last_applied,
)
from kilonova.local.apiserver.field_manager.list_items import ListItemError
from kilonova.local.apiserver.field_manager.managed_fields import (
    APPLY,
    UPDATE,
    ManagedFields,
    ManagedFieldsEntry,
    decode_stored_entries,
)
from kilonova.local.apiserver.field_manager.merge import (
    add_declared_parents,
    merge_objects,
    remove_fields,
)
from kilonova.local.apiserver.field_manager.merge_schema import MergeSchema, compile_merge_schema
from kilonova.local.apiserver.field_manager.owned_fields import (
    applied_fields,
    created_object_fields,
)
from kilonova.local.apiserver.field_manager.type_check import (
    check_applied_object,
    schema_mismatch_error,
)
from kilonova.local.apiserver.field_manager.update import (
    exclude_untracked,
    reconcile_entries,
    remove_ownership,
    write_entries,
)
from kilonova.local.apiserver.schema.node import Schema

_KUBECTL = "kubectl"
_BEFORE_FIRST_APPLY = "before-first-apply"


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
    ignored: FieldFilter | None = None,
) -> JsonObject:
    """The object after `manager` has applied its configuration, not yet defaulted.

    `live` is None if the object does not exist. Raises `ApplyConflict`, or `ApiError` if the
    configuration does not match the schema. Applying the same configuration again returns an object
    equal to `live`. The other arguments are those of `record_update`.
    """
    if applied.get("metadata", {}).get("managedFields") is not None:
        raise bad_request("metadata.managedFields must be nil")
    merge_schema = compile_merge_schema(schema)
    check_applied_object(merge_schema, applied)
    request = _ApplyRequest(merge_schema, api_version, time, subresource, ignored)
    try:
        result = request.apply(live, applied, manager, force)
    except ApplyConflict as error:
        if manager != _KUBECTL or live is None:
            raise
        allowed = unchanged_since_last_applied(merge_schema, live, api_version)
        rest = [each for each in error.conflicts if not contains(allowed, each.path)]
        if rest:
            raise conflict_error(rest) from None
        result = request.apply(live, applied, manager, True)
    if manager == _KUBECTL:
        update_last_applied(result, applied)
    return result


@dataclass(frozen=True, slots=True)
class _ApplyRequest:
    merge_schema: MergeSchema
    api_version: str
    time: str
    subresource: str
    ignored: FieldFilter | None

    def apply(
        self, live: JsonObject | None, applied: JsonObject, manager: str, force: bool
    ) -> JsonObject:
        entries = reconcile_entries(self.merge_schema, decode_stored_entries(live))
        old = _without_managed_fields(live or {})
        if live is not None and not entries:
            entries = self._entries_before_first_apply(old)
        try:
            new = merge_objects(self.merge_schema, old, applied)
        except ListItemError as error:
            raise schema_mismatch_error("live", old, str(error)) from None
        fields = self._filter_ignored(applied_fields(self.merge_schema, applied))
        entry = ManagedFieldsEntry(
            manager or "unknown", APPLY, self.api_version, fields, "", self.subresource
        )
        previous = entries.get(entry.identity)
        entries[entry.identity] = entry
        if previous is not None:
            new = self._prune(new, previous.fields, entries, fields)
        others = {key: each for key, each in entries.items() if key != entry.identity}
        entries = self._resolve_conflicts(others, old, new, force)
        time = previous.time if previous is not None else ""
        if live is None or not (
            json_equal(old, new) if self.merge_schema.contains_schemaless else old == new
        ):
            time = self.time
        tracked = exclude_untracked(fields)
        if tracked:
            entries[entry.identity] = replace(entry, fields=tracked, time=time)
        new.setdefault("metadata", {})
        write_entries(new, entries, live)
        return new

    def _entries_before_first_apply(self, old: JsonObject) -> ManagedFields:
        fields = exclude_untracked(
            self._filter_ignored(created_object_fields(self.merge_schema, old))
        )
        if not fields:
            return {}
        entry = ManagedFieldsEntry(
            _BEFORE_FIRST_APPLY, UPDATE, self.api_version, fields, self.time, self.subresource
        )
        return {entry.identity: entry}

    def _resolve_conflicts(
        self, other_entries: ManagedFields, old: JsonObject, new: JsonObject, force: bool
    ) -> ManagedFields:
        """The other managers' entries after the change; raises `ApplyConflict`."""
        changes = compare_objects(self.merge_schema, old, new).filter(self.ignored)
        changed = changes.changed()
        if not force:
            conflicts = [
                FieldConflict(entry, path)
                for entry in other_entries.values()
                for path in iterate_paths(intersection(entry.fields, changed))
            ]
            if conflicts:
                raise conflict_error(conflicts)
        return remove_ownership(other_entries, union(changed, changes.removed))

    def _prune(
        self, new: JsonObject, last: FieldSet, entries: ManagedFields, applied: FieldSet
    ) -> JsonObject:
        """Remove what the manager applied last and no manager owns any more."""
        if last == applied or not difference(last, applied):
            return new
        merge_schema = self.merge_schema
        last = add_declared_parents(merge_schema, last)
        owned = add_declared_parents(
            merge_schema, union_all(entry.fields for entry in entries.values())
        )
        everything = add_declared_parents(merge_schema, applied_fields(merge_schema, new))
        without_last = remove_fields(merge_schema, new, last)
        left = add_declared_parents(merge_schema, applied_fields(merge_schema, without_last))
        pruned = remove_fields(merge_schema, new, difference(everything, union(left, owned)))
        # Remove only what was applied last: fields that never had an owner stay.
        left = add_declared_parents(merge_schema, applied_fields(merge_schema, pruned))
        return remove_fields(merge_schema, new, intersection(difference(everything, left), last))

    def _filter_ignored(self, fields: FieldSet) -> FieldSet:
        return fields if self.ignored is None else self.ignored(fields)


def _without_managed_fields(obj: JsonObject) -> JsonObject:
    metadata: JsonObject = obj.get("metadata") or {}
    if "managedFields" not in metadata:
        return obj
    rest = {key: value for key, value in metadata.items() if key != "managedFields"}
    return {**obj, "metadata": rest}
