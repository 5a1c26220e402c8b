"""Events, stored in the shape of core/v1 and served in that of events.k8s.io/v1 as well."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from kilonova.api.json import JsonObject
from kilonova.api.times import age
from kilonova.local.errors import Problem, invalid_value, required
from kilonova.local.kinds.base import Column
from kilonova.local.kinds.columns import text, wide
from kilonova.local.kinds.strategy import Storage, Strategy, strategy
from kilonova.local.kinds.walk import at
from kilonova.local.names import qualified_name

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
"""Fields of core/v1 and their names in events.k8s.io/v1; the others are called alike."""

_NOTE_LIMIT = 1024

_BACK = {new: old for old, new in _RENAMED.items()}


def to_core(event: JsonObject) -> JsonObject:
    """An event of events.k8s.io/v1 in the shape of core/v1."""
    return {_BACK.get(field, field): value for field, value in event.items()}


def from_core(event: JsonObject) -> JsonObject:
    """An event of core/v1 in the shape of events.k8s.io/v1, where empty text is left out."""
    return {_RENAMED.get(field, field): value for field, value in event.items() if value != ""}


def _first_seen(event: JsonObject, now: datetime) -> str:
    return age(event.get("firstTimestamp") or event.get("eventTime"), now)


def _last_seen(event: JsonObject, now: datetime) -> str:
    if event.get("series"):
        return age(event["series"].get("lastObservedTime"), now)
    if event.get("lastTimestamp"):
        return age(event["lastTimestamp"], now)
    return _first_seen(event, now)


def _count(event: JsonObject) -> int:
    if event.get("series"):
        return event["series"].get("count") or 0
    return event.get("count") or 1


def _target(event: JsonObject) -> str:
    kind = (at(event, "involvedObject", "kind") or "").lower()
    name = at(event, "involvedObject", "name")
    return f"{kind}/{name}" if name else kind


def _source(event: JsonObject) -> str:
    component = at(event, "source", "component") or event.get("reportingComponent") or ""
    host = at(event, "source", "host") or event.get("reportingInstance") or ""
    return f"{component}, {host}" if host else component


def _about(field: str) -> Callable[[JsonObject], str]:
    return lambda event: at(event, "involvedObject", field) or ""


def _plain(field: str) -> Callable[[JsonObject], str]:
    return lambda event: event.get(field) or ""


def _selector_source(event: JsonObject) -> str:
    return at(event, "source", "component") or event.get("reportingComponent") or ""


def _selectable(about: str, reporter: str) -> dict[str, Callable[[JsonObject], str]]:
    """Both shapes select by the same values, in the same order."""
    return {
        **{f"{about}.{field}": _about(field) for field in _SHARED},
        "reason": _plain("reason"),
        reporter: _plain("reportingComponent"),
        "source": _selector_source,
        "type": _plain("type"),
    }


_COLUMNS = (
    Column("Last Seen", "string", _last_seen),
    text("Type", "type"),
    text("Reason", "reason"),
    Column("Object", "string", lambda event, _: _target(event)),
    text("Subobject", "involvedObject", "fieldPath", priority=1),
    wide("Source", _source),
    Column("Message", "string", lambda event, _: (event.get("message") or "").strip()),
    Column("First Seen", "string", _first_seen, priority=1),
    wide("Count", _count),
    Column("Name", "string", lambda event, _: event["metadata"].get("name", ""), "name", "", 1),
)


@strategy("", "Event")
class Events(Strategy):
    """What happened to an object, for people to read."""

    create_on_update = True
    columns = _COLUMNS
    selectable = _selectable("involvedObject", "reportingComponent")

    def problems(self, obj: JsonObject) -> list[Problem]:
        namespace = obj["metadata"].get("namespace")
        about = at(obj, "involvedObject", "namespace") or ""
        if obj.get("eventTime"):
            agree = about or namespace in ("default", "kube-system")
        else:
            agree = about == namespace or (not about and namespace == "default")
        problems: list[Problem] = []
        if not agree:
            detail = "does not match event.namespace"
            problems.append(invalid_value("involvedObject.namespace", about, detail))
        return problems + (_recent_problems(obj) if obj.get("eventTime") else [])


def _recent_problems(event: JsonObject) -> list[Problem]:
    """An event with a precise time has to say who saw what."""
    limits = {"reportingInstance": 128, "action": 128, "reason": 128}
    problems: list[Problem] = []
    reporter = event.get("reportingComponent") or ""
    if not reporter:
        problems.append(required("reportingController"))
    if trouble := qualified_name(reporter):
        problems.append(invalid_value("reportingController", reporter, trouble))
    for field, limit in limits.items():
        value = event.get(field) or ""
        if not value:
            problems.append(required(field))
        elif len(value) > limit:
            problems.append(invalid_value(field, "", f"can have at most {limit} characters"))
    if len(event.get("message") or "") > _NOTE_LIMIT:
        detail = f"can have at most {_NOTE_LIMIT} characters"
        problems.append(invalid_value("message", "", detail))
    return problems


@strategy("events.k8s.io", "Event")
class NewEvents(Events):
    """The same events by their other names."""

    storage = Storage("", to_core, from_core)

    def problems(self, obj: JsonObject) -> list[Problem]:
        """Whoever uses the new shape gives the precise time and all that goes with it."""
        problems = super().problems(obj)
        return problems if obj.get("eventTime") else [*problems, required("eventTime")]

    selectable = _selectable("regarding", "reportingController")
    columns = tuple(
        Column(
            column.name,
            column.type,
            (lambda value: lambda event, now: value(to_core(event), now))(column.value),
            column.format,
            column.description,
            column.priority,
        )
        for column in _COLUMNS
    )

    def cells(self, obj: JsonObject, now: datetime) -> list[Any]:
        core = to_core(obj)
        return [column.value(core, now) for column in _COLUMNS]
