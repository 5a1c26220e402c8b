"""The entries of `metadata.managedFields`: who set which fields, how, and when."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, TypeAlias, cast

import msgspec
from msgspec.structs import replace

from kilonova.api.json import JsonObject
from kilonova.local.apply.fields import Fields, decoded, shared

APPLY = "Apply"
UPDATE = "Update"

Identity: TypeAlias = tuple[str, str, str, str]
"""Manager, operation, version and subresource: what makes two entries one."""

_MOST_UPDATES = 10
_BUCKET = "ancient-changes"


class Entry(msgspec.Struct, frozen=True):
    """The fields of one manager. `time` is empty if it never changed a value."""

    manager: str
    operation: str
    api_version: str
    fields: Fields
    time: str = ""
    subresource: str = ""

    @property
    def identity(self) -> Identity:
        """An applier is the same whatever the version it applies in; an updater is not."""
        version = "" if self.operation == APPLY else self.api_version
        return (self.manager, self.operation, version, self.subresource)

    def encoded(self) -> JsonObject:
        """The entry as it stands in an object."""
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


Entries: TypeAlias = dict[Identity, Entry]


def stored_entries(obj: JsonObject | None) -> Entries:
    """The entries of an object that we wrote ourselves, taken as they are."""
    sources = obj.get("metadata", {}).get("managedFields") if obj else None
    if not sources:
        return {}
    entries = (
        Entry(
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


def received_entries(sources: Any) -> Entries:
    """The entries that a client sent. Raises `ValueError` if one is malformed."""
    entries: Entries = {}
    for source in sources:
        if source.get("operation") not in (APPLY, UPDATE):
            raise ValueError("operation must be `Apply` or `Update`")
        if not source.get("apiVersion"):
            raise ValueError("apiVersion must not be empty")
        if source.get("fieldsType") != "FieldsV1":
            raise ValueError("fieldsType must be FieldsV1")
        entry = Entry(
            source.get("manager", ""),
            source["operation"],
            source["apiVersion"],
            decoded(source.get("fieldsV1")),
            _whole_seconds(source.get("time")),
            source.get("subresource", ""),
        )
        entries[entry.identity] = entry
    return entries


def is_reset(sources: Any) -> bool:
    """Whether a client asks to forget all entries: it sent an empty list or an empty entry."""
    if not isinstance(sources, list):
        return False
    items = cast("list[Any]", sources)
    return not items or items == [{}]


def encoded_entries(entries: Iterable[Entry]) -> list[JsonObject]:
    """The entries in the order in which objects carry them."""
    return [entry.encoded() for entry in sorted(entries, key=_order)]


def _order(entry: Entry) -> tuple[str, ...]:
    return (entry.operation, entry.time, entry.manager, entry.api_version, entry.subresource)


def without_old_updates(entries: Entries) -> Entries:
    """Bring the number of updaters to the limit by merging the oldest of each version."""
    updaters = [entry for entry in entries.values() if entry.operation == UPDATE]
    excess = len(updaters) - _MOST_UPDATES
    if excess <= 0:
        return entries
    result = dict(entries)
    first_of_version: dict[str, Entry] = {}
    for entry in sorted(updaters, key=lambda each: (each.time, each.identity)):
        if excess <= 0:
            break
        first = first_of_version.setdefault(entry.api_version, entry)
        if first is entry:
            continue
        bucket = Entry(_BUCKET, UPDATE, entry.api_version, {}, entry.time)
        merged = [result.pop(entry.identity)]
        if bucket.identity in result:
            merged.append(result[bucket.identity])
        else:
            merged.append(result.pop(first.identity))
        fields = shared(each.fields for each in merged)
        result[bucket.identity] = replace(bucket, fields=fields)
        excess -= 1
    return result


def _whole_seconds(time: Any) -> str:
    if not time:
        return ""
    moment = datetime.fromisoformat(time)
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
