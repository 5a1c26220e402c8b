"""The `/scale` subresource of custom resources, by the paths of the definition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from kilonova.api.json import JsonObject
from kilonova.local.apimachinery.errors import FieldError, bad_request, internal, invalid_value

_MAX_REPLICAS = 2**31 - 1


@dataclass(frozen=True, slots=True)
class CustomResourceScale:
    """The paths in the form of the definition (`.spec.replicas`)."""

    spec_replicas: str
    status_replicas: str
    label_selector: str = ""

    def read_scale(self, obj: JsonObject) -> tuple[int, int, str]:
        """Desired and observed replicas and the selector; missing counts are 0."""
        try:
            replicas = _read_integer(obj, self.spec_replicas)
            observed = _read_integer(obj, self.status_replicas)
            selector = _read_string(obj, self.label_selector)
        except _WrongTypeError as error:
            raise internal(f"Internal error occurred: {error}") from None
        return replicas or 0, observed or 0, selector or ""

    def set_replicas(self, obj: JsonObject, replicas: int) -> None:
        """Set the desired replicas."""
        *parents, last = _split_path(self.spec_replicas)
        parent = obj
        for name in parents:
            child = parent.setdefault(name, {})
            if not isinstance(child, dict):
                raise bad_request(f"value cannot be set because {self.spec_replicas} is not a map")
            parent = cast(JsonObject, child)
        parent[last] = replicas

    def validate(self, obj: JsonObject) -> list[FieldError]:
        """Validate the fields at the paths."""
        problems: list[FieldError] = []
        for path in (self.spec_replicas, self.status_replicas):
            problems += _validate_replicas(obj, path)
        try:
            _read_string(obj, self.label_selector)
        except _WrongTypeError as error:
            problems.append(invalid_value(self.label_selector, "", str(error)))
        return problems


class _WrongTypeError(ValueError):
    """A field has another type than `/scale` requires."""


def _validate_replicas(obj: JsonObject, path: str) -> list[FieldError]:
    try:
        count = _read_integer(obj, path) or 0
    except _WrongTypeError as error:
        return [invalid_value(path, 0, str(error))]
    if count < 0:
        return [invalid_value(path, count, "should be a non-negative integer")]
    if count > _MAX_REPLICAS:
        return [invalid_value(path, count, f"should be less than or equal to {_MAX_REPLICAS}")]
    return []


def _read_integer(obj: JsonObject, path: str) -> int | None:
    value = _read_path(obj, path)
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    raise _WrongTypeError(
        f"{path} accessor error: {value} is of the type {_go_type(value)}, expected int64"
    )


def _read_string(obj: JsonObject, path: str) -> str | None:
    value = _read_path(obj, path) if path else None
    if value is None or isinstance(value, str):
        return value
    raise _WrongTypeError(
        f"{path} accessor error: {value} is of the type {_go_type(value)}, expected string"
    )


def _read_path(obj: JsonObject, path: str) -> Any:
    value: Any = obj
    for name in _split_path(path):
        if value is None:
            return None
        if not isinstance(value, dict):
            raise _WrongTypeError(
                f"{path} accessor error: {value} is of the type {_go_type(value)}, "
                "expected map[string]interface{}"
            )
        value = cast(JsonObject, value).get(name)
    return value


def _split_path(path: str) -> list[str]:
    return path.removeprefix(".").split(".")


def _go_type(value: object) -> str:
    """Go's name for the type of a JSON value."""
    return _GO_NAMES.get(value.__class__, "map[string]interface {}")


_GO_NAMES: dict[type, str] = {
    str: "string",
    bool: "bool",
    int: "int64",
    float: "float64",
    list: "[]interface {}",
}
