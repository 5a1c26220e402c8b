"""Reading into plain JSON whose shape the schema has checked.

`part` and `objects` go their way without `at`: they are called dozens of times a write.
"""

from collections.abc import Callable
from typing import Any

from kilonova.api.json import JsonObject


def at(obj: JsonObject, *path: str) -> Any:
    """The value under a path of keys; None where a step is missing or null."""
    value: Any = obj
    for key in path:
        if value is None:
            return None
        value = value.get(key)
    return value


def part(obj: JsonObject, *path: str) -> JsonObject:
    """The object under a path, to be read; an empty one where it is missing or null."""
    value: Any = obj
    for key in path:
        value = value.get(key)
        if not value:
            return {}
    return value


def objects(obj: JsonObject, *path: str) -> list[JsonObject]:
    """The objects listed under a path, to be read; none where it is missing or null."""
    value: Any = obj
    for key in path:
        value = value.get(key)
        if not value:
            return []
    return value


def strings(obj: JsonObject, *path: str) -> list[str]:
    """The strings listed under a path, to be read."""
    return at(obj, *path) or []


def inside(obj: JsonObject, key: str) -> JsonObject:
    """The object under `key`, to be changed; made if it is missing."""
    value: JsonObject | None = obj.get(key)
    if value is None:
        value = obj[key] = {}
    return value


def text_of(*path: str) -> Callable[[JsonObject], str]:
    """Reads the text under a path; empty where it is missing."""
    *way, last = path

    def read(obj: JsonObject) -> str:
        for key in way:
            obj = obj.get(key) or {}
        return obj.get(last) or ""

    return read
