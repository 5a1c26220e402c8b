"""Access to nested fields of plain JSON objects whose structure the schema has validated.

`nested_object` and `nested_objects` do not call `nested_value`: they are called dozens of times for
each write.
"""

from collections.abc import Callable
from typing import Any

from kilonova.api.json import JsonObject


def nested_value(obj: JsonObject, *path: str) -> Any:
    """The value at a path of keys; None if a key is missing or null."""
    value: Any = obj
    for key in path:
        if value is None:
            return None
        value = value.get(key)
    return value


def nested_object(obj: JsonObject, *path: str) -> JsonObject:
    """The object at a path, for reading; empty if it is missing or null."""
    value: Any = obj
    for key in path:
        value = value.get(key)
        if not value:
            return {}
    return value


def nested_objects(obj: JsonObject, *path: str) -> list[JsonObject]:
    """The list of objects at a path, for reading; empty if it is missing or null."""
    value: Any = obj
    for key in path:
        value = value.get(key)
        if not value:
            return []
    return value


def nested_strings(obj: JsonObject, *path: str) -> list[str]:
    """The list of strings at a path, for reading."""
    return nested_value(obj, *path) or []


def ensure_object(obj: JsonObject, key: str) -> JsonObject:
    """The object at `key`, for modification; created if it is missing."""
    value: JsonObject | None = obj.get(key)
    if value is None:
        value = obj[key] = {}
    return value


def string_reader(*path: str) -> Callable[[JsonObject], str]:
    """A function that reads the string at a path; empty if it is missing."""
    *parents, last = path

    def read(obj: JsonObject) -> str:
        for key in parents:
            obj = obj.get(key) or {}
        return obj.get(last) or ""

    return read
