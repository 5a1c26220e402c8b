"""The merge patch from one status to another. Pure."""

from functools import cache
from typing import Any, TypeVar, cast

import msgspec

from kilonova.api.json import JsonObject

S = TypeVar("S", bound=msgspec.Struct)


def build_status_patch(old: S, new: S) -> JsonObject | None:
    """The merge patch of the fields that differ between two statuses; None if they are equal."""
    changes = {
        field.encode_name: _encode_field(
            msgspec.to_builtins(getattr(old, field.name)),
            msgspec.to_builtins(getattr(new, field.name)),
        )
        for field in _struct_fields(type(new))
        if getattr(old, field.name) != getattr(new, field.name)
    }
    return changes or None


@cache
def _struct_fields(type_: type[msgspec.Struct]) -> tuple[msgspec.structs.FieldInfo, ...]:
    return msgspec.structs.fields(type_)


def _encode_field(old: Any, new: Any) -> Any:
    """The JSON of a field: null removes it, and a list is replaced as a whole.

    Empty values are omitted, as in statuses that Go writes, because clients compare with those.
    """
    if _is_empty(new):
        return None
    if isinstance(new, dict):
        before = cast("JsonObject", old) if isinstance(old, dict) else {}
        after = cast("JsonObject", new)
        removed = dict.fromkeys(before.keys() - after.keys())
        return removed | {
            name: _encode_field(before.get(name), item) for name, item in after.items()
        }
    return _omit_empty_fields(new)


def _omit_empty_fields(value: Any) -> Any:
    if isinstance(value, dict):
        items = cast("JsonObject", value).items()
        present = ((name, item) for name, item in items if item is not None and not _is_empty(item))
        return {name: _omit_empty_fields(item) for name, item in present}
    if isinstance(value, (list, tuple)):
        return [_omit_empty_fields(item) for item in cast("list[Any]", value)]
    return value


def _is_empty(value: Any) -> bool:
    return isinstance(value, (dict, list, tuple)) and not value
