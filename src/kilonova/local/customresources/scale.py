"""`/scale` of custom resources: where a definition says that replicas are kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from kilonova.api.json import JsonObject
from kilonova.local.errors import Problem, bad_request, internal, invalid_value

_LARGEST = 2**31 - 1


@dataclass(frozen=True, slots=True)
class CustomScale:
    """The paths that a definition gives, as it writes them (`.spec.replicas`)."""

    spec_replicas: str
    status_replicas: str
    label_selector: str = ""

    def read(self, obj: JsonObject) -> tuple[int, int, str]:
        """Wanted and observed replicas and the selector; nothing counts as 0."""
        try:
            replicas = _number(obj, self.spec_replicas)
            observed = _number(obj, self.status_replicas)
            selector = _text(obj, self.label_selector)
        except _WrongType as error:
            raise internal(f"Internal error occurred: {error}") from None
        return replicas or 0, observed or 0, selector or ""

    def write(self, obj: JsonObject, replicas: int) -> None:
        """Set the wanted replicas."""
        *parents, last = _split(self.spec_replicas)
        place = obj
        for name in parents:
            child = place.setdefault(name, {})
            if not isinstance(child, dict):
                raise bad_request(f"value cannot be set because {self.spec_replicas} is not a map")
            place = cast(JsonObject, child)
        place[last] = replicas

    def problems(self, obj: JsonObject) -> list[Problem]:
        """What is wrong with the fields that the paths lead to."""
        problems: list[Problem] = []
        for path in (self.spec_replicas, self.status_replicas):
            problems += _count_problems(obj, path)
        try:
            _text(obj, self.label_selector)
        except _WrongType as error:
            problems.append(invalid_value(self.label_selector, "", str(error)))
        return problems


class _WrongType(ValueError):
    """A field of another type than a scale needs."""


def _count_problems(obj: JsonObject, path: str) -> list[Problem]:
    try:
        count = _number(obj, path) or 0
    except _WrongType as error:
        return [invalid_value(path, 0, str(error))]
    if count < 0:
        return [invalid_value(path, count, "should be a non-negative integer")]
    if count > _LARGEST:
        return [invalid_value(path, count, f"should be less than or equal to {_LARGEST}")]
    return []


def _number(obj: JsonObject, path: str) -> int | None:
    value = _at(obj, path)
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    raise _WrongType(f"{path} accessor error: {value} is of the type {_go(value)}, expected int64")


def _text(obj: JsonObject, path: str) -> str | None:
    value = _at(obj, path) if path else None
    if value is None or isinstance(value, str):
        return value
    raise _WrongType(f"{path} accessor error: {value} is of the type {_go(value)}, expected string")


def _at(obj: JsonObject, path: str) -> Any:
    value: Any = obj
    for name in _split(path):
        if value is None:
            return None
        if not isinstance(value, dict):
            raise _WrongType(
                f"{path} accessor error: {value} is of the type {_go(value)}, "
                "expected map[string]interface{}"
            )
        value = cast(JsonObject, value).get(name)
    return value


def _split(path: str) -> list[str]:
    return path.removeprefix(".").split(".")


def _go(value: object) -> str:
    """What Go calls the type of a JSON value."""
    return _GO_NAMES.get(value.__class__, "map[string]interface {}")


_GO_NAMES: dict[type, str] = {
    str: "string",
    bool: "bool",
    int: "int64",
    float: "float64",
    list: "[]interface {}",
}
