"""Printer columns that many kinds share, and the formatting of their values."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from kilonova.api.json import JsonObject
from kilonova.api.times import human_age
from kilonova.local.apimachinery.unstructured import nested_object, nested_objects, nested_value
from kilonova.local.apiserver.kinds.kind import PrinterColumn

NONE = "<none>"
UNSET = "<unset>"

NAME = PrinterColumn(
    "Name", "string", lambda obj, _: obj["metadata"].get("name", ""), format="name"
)


def format_age(obj: JsonObject, now: datetime) -> str:
    """The time since the object was created."""
    return human_age(obj["metadata"].get("creationTimestamp"), now)


AGE = PrinterColumn("Age", "string", format_age)

CREATED_AT = PrinterColumn(
    "Created At", "date", lambda obj, _: obj["metadata"].get("creationTimestamp", "")
)
"""The column after the name of a kind without columns of its own."""


def text_column(name: str, *path: str, missing: str = "", priority: int = 0) -> PrinterColumn:
    """The string at a path."""

    def value(obj: JsonObject, _: datetime) -> str:
        found = nested_value(obj, *path)
        return missing if found is None else str(found)

    return PrinterColumn(name, "string", value, priority=priority)


def number_column(name: str, *path: str, type: str = "integer") -> PrinterColumn:
    """The number at a path; 0 if it is missing."""
    return PrinterColumn(name, type, lambda obj, _: nested_value(obj, *path) or 0)


def flag_column(
    name: str, *path: str, missing: bool = False, type: str = "boolean"
) -> PrinterColumn:
    """The boolean at a path."""

    def value(obj: JsonObject, _: datetime) -> bool:
        found = nested_value(obj, *path)
        return missing if found is None else found

    return PrinterColumn(name, type, value)


def count_column(name: str, *path: str, type: str = "integer") -> PrinterColumn:
    """The number of items at a path."""
    return PrinterColumn(name, type, lambda obj, _: len(nested_value(obj, *path) or ()))


def ratio_column(
    name: str, numerator: tuple[str, ...], denominator: tuple[str, ...]
) -> PrinterColumn:
    """`1/3`."""
    return PrinterColumn(
        name,
        "string",
        lambda obj, _: (
            f"{nested_value(obj, *numerator) or 0}/{nested_value(obj, *denominator) or 0}"
        ),
    )


def wide_column(name: str, value: Callable[[JsonObject], Any]) -> PrinterColumn:
    """A string that only `-o wide` shows."""
    return PrinterColumn(name, "string", lambda obj, _: value(obj), priority=1)


def template_columns(*template: str) -> tuple[PrinterColumn, PrinterColumn]:
    """Names and images of a pod template's containers; only with `-o wide`."""
    containers = (*template, "spec", "containers")
    return (
        wide_column("Containers", lambda obj: _join_fields(obj, containers, "name")),
        wide_column("Images", lambda obj: _join_fields(obj, containers, "image")),
    )


def selector_column(*path: str, name: str = "Selector") -> PrinterColumn:
    """A label selector; only with `-o wide`."""
    return wide_column(name, lambda obj: format_label_selector(nested_value(obj, *path)) or NONE)


def format_labels(values: JsonObject | None) -> str:
    """`a=b,c=d`, or `<none>`."""
    return ",".join(f"{key}={value}" for key, value in sorted((values or {}).items())) or NONE


def format_label_selector(selector: JsonObject | None) -> str:
    """A label selector as text: `a=b,c in (d,e),!f`; empty if it selects everything."""
    if not selector:
        return ""
    terms = [
        (key, f"{key}={value}") for key, value in nested_object(selector, "matchLabels").items()
    ]
    for expression in nested_objects(selector, "matchExpressions"):
        key = expression.get("key", "")
        values = ",".join(sorted(expression.get("values") or ()))
        formatted = {
            "In": f"{key} in ({values})",
            "NotIn": f"{key} notin ({values})",
            "Exists": key,
            "DoesNotExist": f"!{key}",
        }
        terms.append((key, formatted.get(expression.get("operator", ""), "")))
    return ",".join(term for _, term in sorted(terms, key=lambda term: term[0]))


def format_first_few(values: list[str], limit: int = 3) -> str:
    """`a,b,c + 2 more...`."""
    listed = ",".join(values[:limit])
    return f"{listed} + {len(values) - limit} more..." if len(values) > limit else listed


def _join_fields(obj: JsonObject, path: tuple[str, ...], field: str) -> str:
    return ",".join(str(each.get(field, "")) for each in nested_objects(obj, *path))
