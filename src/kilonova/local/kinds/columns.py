"""Columns that many kinds share, and how values are written in them."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from kilonova.api.json import JsonObject
from kilonova.api.times import age
from kilonova.local.kinds.base import Column
from kilonova.local.kinds.walk import at, objects, part

NONE = "<none>"
UNSET = "<unset>"

NAME = Column("Name", "string", lambda obj, _: obj["metadata"].get("name", ""), format="name")


def age_of(obj: JsonObject, now: datetime) -> str:
    """Time since the object was created."""
    return age(obj["metadata"].get("creationTimestamp"), now)


AGE = Column("Age", "string", age_of)

CREATED_AT = Column(
    "Created At", "date", lambda obj, _: obj["metadata"].get("creationTimestamp", "")
)
"""What a kind without columns of its own prints after its name."""


def text(name: str, *path: str, missing: str = "", priority: int = 0) -> Column:
    """The text under a path."""

    def value(obj: JsonObject, _: datetime) -> str:
        found = at(obj, *path)
        return missing if found is None else str(found)

    return Column(name, "string", value, priority=priority)


def number(name: str, *path: str, type: str = "integer") -> Column:
    """The number under a path; 0 where there is none."""
    return Column(name, type, lambda obj, _: at(obj, *path) or 0)


def flag(name: str, *path: str, missing: bool = False, type: str = "boolean") -> Column:
    """The boolean under a path."""

    def value(obj: JsonObject, _: datetime) -> bool:
        found = at(obj, *path)
        return missing if found is None else found

    return Column(name, type, value)


def count(name: str, *path: str, type: str = "integer") -> Column:
    """How many are listed under a path."""
    return Column(name, type, lambda obj, _: len(at(obj, *path) or ()))


def ratio(name: str, part: tuple[str, ...], whole: tuple[str, ...]) -> Column:
    """`1/3`."""
    return Column(name, "string", lambda obj, _: f"{at(obj, *part) or 0}/{at(obj, *whole) or 0}")


def wide(name: str, value: Callable[[JsonObject], Any]) -> Column:
    """A text that only `-o wide` shows."""
    return Column(name, "string", lambda obj, _: value(obj), priority=1)


def template_columns(*template: str) -> tuple[Column, Column]:
    """Names and images of the containers of a pod template, in wide output."""
    containers = (*template, "spec", "containers")
    return (
        wide("Containers", lambda obj: _joined(obj, containers, "name")),
        wide("Images", lambda obj: _joined(obj, containers, "image")),
    )


def selector_column(*path: str, name: str = "Selector") -> Column:
    """A label selector, in wide output."""
    return wide(name, lambda obj: label_selector(at(obj, *path)) or NONE)


def labels(values: JsonObject | None) -> str:
    """`a=b,c=d`, or `<none>`."""
    return ",".join(f"{key}={value}" for key, value in sorted((values or {}).items())) or NONE


def label_selector(selector: JsonObject | None) -> str:
    """A label selector as users write it: `a=b,c in (d,e),!f`; empty when it selects all."""
    if not selector:
        return ""
    terms = [(key, f"{key}={value}") for key, value in part(selector, "matchLabels").items()]
    for expression in objects(selector, "matchExpressions"):
        key = expression.get("key", "")
        values = ",".join(sorted(expression.get("values") or ()))
        written = {
            "In": f"{key} in ({values})",
            "NotIn": f"{key} notin ({values})",
            "Exists": key,
            "DoesNotExist": f"!{key}",
        }
        terms.append((key, written.get(expression.get("operator", ""), "")))
    return ",".join(term for _, term in sorted(terms, key=lambda term: term[0]))


def first_few(values: list[str], shown: int = 3) -> str:
    """`a,b,c + 2 more...`."""
    listed = ",".join(values[:shown])
    return f"{listed} + {len(values) - shown} more..." if len(values) > shown else listed


def _joined(obj: JsonObject, path: tuple[str, ...], field: str) -> str:
    return ",".join(str(each.get(field, "")) for each in objects(obj, *path))
