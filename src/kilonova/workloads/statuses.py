"""What to write of a status. Pure."""

from functools import cache
from typing import Any, TypeVar, cast

import msgspec

from kilonova.api.json import JsonObject

S = TypeVar("S", bound=msgspec.Struct)


def status_patch(old: S, new: S) -> JsonObject | None:
    """The merge patch of an object that makes one status of another; None where they are equal."""
    changes = {
        field.encode_name: _change(msgspec.to_builtins(getattr(new, field.name)))
        for field in _fields(type(new))
        if getattr(old, field.name) != getattr(new, field.name)
    }
    return {"status": changes} if changes else None


@cache
def _fields(type_: type[msgspec.Struct]) -> tuple[msgspec.structs.FieldInfo, ...]:
    return msgspec.structs.fields(type_)


def _change(value: Any) -> Any:
    """In an object a null takes a field away; a list is written whole, and has none.

    What is empty is absent, as in statuses that Go writes: clients compare by it.
    """
    if _is_empty(value):
        return None
    if isinstance(value, dict):
        return {name: _change(item) for name, item in cast("JsonObject", value).items()}
    return _whole(value)


def _whole(value: Any) -> Any:
    if isinstance(value, dict):
        items = cast("JsonObject", value).items()
        kept = ((name, item) for name, item in items if item is not None and not _is_empty(item))
        return {name: _whole(item) for name, item in kept}
    if isinstance(value, (list, tuple)):
        return [_whole(item) for item in cast("list[Any]", value)]
    return value


def _is_empty(value: Any) -> bool:
    return isinstance(value, (dict, list, tuple)) and not value
