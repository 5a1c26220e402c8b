"""What `kubectl get` prints of custom resources, and which of their fields can be selected."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from kilonova.api.json import JsonObject
from kilonova.local.jsonpath import JsonPath, JsonPathError, printed
from kilonova.local.kinds.base import Column
from kilonova.local.kinds.columns import NAME

AGE = Column("Age", "date", lambda obj, _: obj["metadata"].get("creationTimestamp"))
"""The only column beside the name where a definition gives none."""


def printed_columns(definitions: Sequence[JsonObject]) -> tuple[Column, ...]:
    """The columns of a version. One whose path cannot be read ends the list, as in Kubernetes.

    A column of type `date` gives the time itself; the table shows its age.
    """
    if not definitions:
        return (NAME, AGE)
    columns = [NAME]
    for definition in definitions:
        try:
            columns.append(_column(definition))
        except JsonPathError:
            break
    return tuple(columns)


def selectable_fields(
    definitions: Sequence[JsonObject],
) -> Mapping[str, Callable[[JsonObject], str]]:
    """Field selectors of a version, by name (`spec.phase`)."""
    fields: dict[str, Callable[[JsonObject], str]] = {}
    for definition in definitions:
        path = definition["jsonPath"]
        fields[path.removeprefix(".")] = _selected(JsonPath(path))
    return fields


def _column(definition: JsonObject) -> Column:
    path = JsonPath(definition["jsonPath"])
    cell = _CELLS[definition["type"]]

    def value(obj: JsonObject, _: datetime) -> Any:
        found = path.first(obj)
        return None if found is None else cell(found)

    return Column(
        definition["name"],
        definition["type"],
        value,
        format=definition.get("format", ""),
        description=definition.get("description")
        or f"Custom resource definition column (in JSONPath format): {path.text}",
        priority=definition.get("priority", 0),
    )


def _selected(path: JsonPath) -> Callable[[JsonObject], str]:
    def value(obj: JsonObject) -> str:
        found = path.first(obj)
        return "" if found is None else printed(found)

    return value


def _integer(value: Any) -> Any:
    return int(value) if _is_number(value) else None


def _number(value: Any) -> Any:
    return value if _is_number(value) else None


def _boolean(value: Any) -> Any:
    return value if isinstance(value, bool) else None


def _date(value: Any) -> Any:
    return value if isinstance(value, str) else None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_CELLS: dict[str, Callable[[Any], Any]] = {
    "string": printed,
    "integer": _integer,
    "number": _number,
    "boolean": _boolean,
    "date": _date,
}
