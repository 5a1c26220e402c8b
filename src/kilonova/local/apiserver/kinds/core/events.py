"""Events, stored as core/v1 and also served as events.k8s.io/v1."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from kilonova.api.json import JsonObject
from kilonova.api.times import human_age
from kilonova.local.apimachinery.errors import FieldError, invalid_value, required_value
from kilonova.local.apimachinery.names import qualified_name_error
from kilonova.local.apimachinery.unstructured import nested_value
from kilonova.local.apiserver.kinds.columns import text_column, wide_column
from kilonova.local.apiserver.kinds.kind import PrinterColumn
from kilonova.local.apiserver.kinds.strategy import (
    BuiltinStrategy,
    StorageVersion,
    register_strategy,
)

_SHARED = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
_RENAMED = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}
"""Fields of core/v1 that have another name in events.k8s.io/v1."""

_NOTE_LIMIT = 1024

_RENAMED_BACK = {new: old for old, new in _RENAMED.items()}


def to_core_event(event: JsonObject) -> JsonObject:
    """Convert an event from events.k8s.io/v1 to core/v1."""
    return {_RENAMED_BACK.get(field, field): value for field, value in event.items()}


def from_core_event(event: JsonObject) -> JsonObject:
    """Convert an event from core/v1 to events.k8s.io/v1, which omits empty strings."""
    return {_RENAMED.get(field, field): value for field, value in event.items() if value != ""}


def _first_seen(event: JsonObject, now: datetime) -> str:
    return human_age(event.get("firstTimestamp") or event.get("eventTime"), now)


def _last_seen(event: JsonObject, now: datetime) -> str:
    if event.get("series"):
        return human_age(event["series"].get("lastObservedTime"), now)
    if event.get("lastTimestamp"):
        return human_age(event["lastTimestamp"], now)
    return _first_seen(event, now)


def _count(event: JsonObject) -> int:
    if event.get("series"):
        return event["series"].get("count") or 0
    return event.get("count") or 1


def _format_target(event: JsonObject) -> str:
    kind = (nested_value(event, "involvedObject", "kind") or "").lower()
    name = nested_value(event, "involvedObject", "name")
    return f"{kind}/{name}" if name else kind


def _format_source(event: JsonObject) -> str:
    component = nested_value(event, "source", "component") or event.get("reportingComponent") or ""
    host = nested_value(event, "source", "host") or event.get("reportingInstance") or ""
    return f"{component}, {host}" if host else component


def _object_field_reader(field: str) -> Callable[[JsonObject], str]:
    return lambda event: nested_value(event, "involvedObject", field) or ""


def _field_reader(field: str) -> Callable[[JsonObject], str]:
    return lambda event: event.get(field) or ""


def _selector_source(event: JsonObject) -> str:
    return nested_value(event, "source", "component") or event.get("reportingComponent") or ""


def _selectable(object_field: str, component_field: str) -> dict[str, Callable[[JsonObject], str]]:
    """The selectable fields; both versions have the same values in the same order."""
    return {
        **{f"{object_field}.{field}": _object_field_reader(field) for field in _SHARED},
        "reason": _field_reader("reason"),
        component_field: _field_reader("reportingComponent"),
        "source": _selector_source,
        "type": _field_reader("type"),
    }


_COLUMNS = (
    PrinterColumn("Last Seen", "string", _last_seen),
    text_column("Type", "type"),
    text_column("Reason", "reason"),
    PrinterColumn("Object", "string", lambda event, _: _format_target(event)),
    text_column("Subobject", "involvedObject", "fieldPath", priority=1),
    wide_column("Source", _format_source),
    PrinterColumn("Message", "string", lambda event, _: (event.get("message") or "").strip()),
    PrinterColumn("First Seen", "string", _first_seen, priority=1),
    wide_column("Count", _count),
    PrinterColumn(
        "Name", "string", lambda event, _: event["metadata"].get("name", ""), "name", "", 1
    ),
)


@register_strategy("", "Event")
class EventStrategy(BuiltinStrategy):
    """A record of something that happened to an object."""

    allows_create_on_update = True
    columns = _COLUMNS
    selectable_fields = _selectable("involvedObject", "reportingComponent")

    def validate_fields(self, obj: JsonObject) -> list[FieldError]:
        namespace = obj["metadata"].get("namespace")
        object_namespace = nested_value(obj, "involvedObject", "namespace") or ""
        if obj.get("eventTime"):
            is_consistent = object_namespace or namespace in ("default", "kube-system")
        else:
            is_consistent = object_namespace == namespace or (
                not object_namespace and namespace == "default"
            )
        problems: list[FieldError] = []
        if not is_consistent:
            detail = "does not match event.namespace"
            problems.append(invalid_value("involvedObject.namespace", object_namespace, detail))
        return problems + (_validate_event_time(obj) if obj.get("eventTime") else [])


def _validate_event_time(event: JsonObject) -> list[FieldError]:
    """An event with `eventTime` requires the reporting controller, action and reason."""
    limits = {"reportingInstance": 128, "action": 128, "reason": 128}
    problems: list[FieldError] = []
    reporter = event.get("reportingComponent") or ""
    if not reporter:
        problems.append(required_value("reportingController"))
    if error := qualified_name_error(reporter):
        problems.append(invalid_value("reportingController", reporter, error))
    for field, limit in limits.items():
        value = event.get(field) or ""
        if not value:
            problems.append(required_value(field))
        elif len(value) > limit:
            problems.append(invalid_value(field, "", f"can have at most {limit} characters"))
    if len(event.get("message") or "") > _NOTE_LIMIT:
        detail = f"can have at most {_NOTE_LIMIT} characters"
        problems.append(invalid_value("message", "", detail))
    return problems


@register_strategy("events.k8s.io", "Event")
class EventsV1EventStrategy(EventStrategy):
    """The same events in events.k8s.io/v1."""

    storage = StorageVersion("", to_core_event, from_core_event)

    def validate_fields(self, obj: JsonObject) -> list[FieldError]:
        """In this version `eventTime` and the fields that go with it are required."""
        problems = super().validate_fields(obj)
        return problems if obj.get("eventTime") else [*problems, required_value("eventTime")]

    selectable_fields = _selectable("regarding", "reportingController")
    columns = tuple(
        PrinterColumn(
            column.name,
            column.type,
            (lambda value: lambda event, now: value(to_core_event(event), now))(column.value),
            column.format,
            column.description,
            column.priority,
        )
        for column in _COLUMNS
    )

    def table_cells(self, obj: JsonObject, now: datetime) -> list[Any]:
        core = to_core_event(obj)
        return [column.value(core, now) for column in _COLUMNS]
