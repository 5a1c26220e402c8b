"""The entries of `metadata.managedFields`: which manager set which fields, how, and when."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, TypeAlias, cast

import msgspec
from msgspec.structs import replace

from kilonova.api.json import JsonObject
from kilonova.local.apiserver.field_manager.field_sets import FieldSet, decode_field_set, union_all

APPLY = "Apply"
UPDATE = "Update"

ManagerIdentity: TypeAlias = tuple[str, str, str, str]
"""Manager, operation, version and subresource: entries with the same identity are merged."""

_MAX_UPDATE_MANAGERS = 10
_OLD_UPDATES_MANAGER = "ancient-changes"


class ManagedFieldsEntry(msgspec.Struct, frozen=True):
    """The fields of one manager. `time` is empty if it never changed a value."""

    manager: str
    operation: str
    api_version: str
    fields: FieldSet
    time: str = ""
    subresource: str = ""

    @property
    def identity(self) -> ManagerIdentity:
        """An applier has the same identity in all versions; an updater does not."""
        version = "" if self.operation == APPLY else self.api_version
        return (self.manager, self.operation, version, self.subresource)

    def encode(self) -> JsonObject:
        """The entry as JSON."""
        entry: JsonObject = {
            "manager": self.manager,
            "operation": self.operation,
            "apiVersion": self.api_version,
        }
        if not self.manager:
            del entry["manager"]
        if self.time:
            entry["time"] = self.time
        entry["fieldsType"] = "FieldsV1"
        entry["fieldsV1"] = self.fields
        if self.subresource:
            entry["subresource"] = self.subresource
        return entry


ManagedFields: TypeAlias = dict[ManagerIdentity, ManagedFieldsEntry]


def decode_stored_entries(obj: JsonObject | None) -> ManagedFields:
    """The entries of a stored object, decoded without validation."""
    sources = obj.get("metadata", {}).get("managedFields") if obj else None
    if not sources:
        return {}
    entries = (
        ManagedFieldsEntry(
            source.get("manager", ""),
            source["operation"],
            source["apiVersion"],
            source.get("fieldsV1", {}),
            source.get("time") or "",
            source.get("subresource", ""),
        )
        for source in sources
    )
    return {entry.identity: entry for entry in entries}


def decode_client_entries(sources: Any) -> ManagedFields:
    """The entries sent by a client. Raises `ValueError` if one is malformed."""
    entries: ManagedFields = {}
    for source in sources:
        if source.get("operation") not in (APPLY, UPDATE):
            raise ValueError("operation must be `Apply` or `Update`")
        if not source.get("apiVersion"):
            raise ValueError("apiVersion must not be empty")
        if source.get("fieldsType") != "FieldsV1":
            raise ValueError("fieldsType must be FieldsV1")
        entry = ManagedFieldsEntry(
            source.get("manager", ""),
            source["operation"],
            source["apiVersion"],
            decode_field_set(source.get("fieldsV1")),
            _truncate_to_seconds(source.get("time")),
            source.get("subresource", ""),
        )
        entries[entry.identity] = entry
    return entries


def is_managed_fields_reset(sources: Any) -> bool:
    """Whether a client resets all entries: it sent an empty list or one empty entry."""
    if not isinstance(sources, list):
        return False
    items = cast("list[Any]", sources)
    return not items or items == [{}]


def encode_entries(entries: Iterable[ManagedFieldsEntry]) -> list[JsonObject]:
    """The entries as JSON, in canonical order."""
    return [entry.encode() for entry in sorted(entries, key=_entry_sort_key)]


def _entry_sort_key(entry: ManagedFieldsEntry) -> tuple[str, ...]:
    return (entry.operation, entry.time, entry.manager, entry.api_version, entry.subresource)


def cap_update_managers(entries: ManagedFields) -> ManagedFields:
    """Limit the number of update entries by merging the oldest of each version."""
    updaters = [entry for entry in entries.values() if entry.operation == UPDATE]
    excess = len(updaters) - _MAX_UPDATE_MANAGERS
    if excess <= 0:
        return entries
    result = dict(entries)
    first_of_version: dict[str, ManagedFieldsEntry] = {}
    for entry in sorted(updaters, key=lambda each: (each.time, each.identity)):
        if excess <= 0:
            break
        first = first_of_version.setdefault(entry.api_version, entry)
        if first is entry:
            continue
        oldest_entry = ManagedFieldsEntry(
            _OLD_UPDATES_MANAGER, UPDATE, entry.api_version, {}, entry.time
        )
        merged = [result.pop(entry.identity)]
        if oldest_entry.identity in result:
            merged.append(result[oldest_entry.identity])
        else:
            merged.append(result.pop(first.identity))
        fields = union_all(each.fields for each in merged)
        result[oldest_entry.identity] = replace(oldest_entry, fields=fields)
        excess -= 1
    return result


def _truncate_to_seconds(time: Any) -> str:
    if not time:
        return ""
    parsed = datetime.fromisoformat(time)
    return parsed.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
