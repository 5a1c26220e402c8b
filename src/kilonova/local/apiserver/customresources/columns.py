"""Printer columns and selectable fields of custom resources."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from kilonova.api.json import JsonObject
from kilonova.local.apimachinery.jsonpath import JsonPath, JsonPathError, format_value
from kilonova.local.apiserver.kinds.columns import NAME
from kilonova.local.apiserver.kinds.kind import PrinterColumn

AGE = PrinterColumn("Age", "date", lambda obj, _: obj["metadata"].get("creationTimestamp"))
"""The only column after the name if a definition has no printer columns."""


def printer_columns(definitions: Sequence[JsonObject]) -> tuple[PrinterColumn, ...]:
    """The columns of a version. As in Kubernetes, an invalid path ends the list.

    A column of type `date` returns the time; the table shows its age.
    """
    if not definitions:
        return (NAME, AGE)
    columns = [NAME]
    for definition in definitions:
        try:
            columns.append(_printer_column(definition))
        except JsonPathError:
            break
    return tuple(columns)


def selectable_field_readers(
    definitions: Sequence[JsonObject],
) -> Mapping[str, Callable[[JsonObject], str]]:
    """The selectable fields of a version, by name (`spec.phase`)."""
    fields: dict[str, Callable[[JsonObject], str]] = {}
    for definition in definitions:
        path = definition["jsonPath"]
        fields[path.removeprefix(".")] = _field_reader(JsonPath(path))
    return fields


def _printer_column(definition: JsonObject) -> PrinterColumn:
    path = JsonPath(definition["jsonPath"])
    cell = _CELL_CONVERTERS[definition["type"]]

    def value(obj: JsonObject, _: datetime) -> Any:
        found = path.first(obj)
        return None if found is None else cell(found)

    return PrinterColumn(
        definition["name"],
        definition["type"],
        value,
        format=definition.get("format", ""),
        description=definition.get("description")
        or f"Custom resource definition column (in JSONPath format): {path.text}",
        priority=definition.get("priority", 0),
    )


def _field_reader(path: JsonPath) -> Callable[[JsonObject], str]:
    def value(obj: JsonObject) -> str:
        found = path.first(obj)
        return "" if found is None else format_value(found)

    return value


def _integer_cell(value: Any) -> Any:
    return int(value) if _is_number(value) else None


def _number_cell(value: Any) -> Any:
    return value if _is_number(value) else None


def _boolean_cell(value: Any) -> Any:
    return value if isinstance(value, bool) else None


def _date_cell(value: Any) -> Any:
    return value if isinstance(value, str) else None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_CELL_CONVERTERS: dict[str, Callable[[Any], Any]] = {
    "string": format_value,
    "integer": _integer_cell,
    "number": _number_cell,
    "boolean": _boolean_cell,
    "date": _date_cell,
}
