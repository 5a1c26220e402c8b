"""JSON patch (RFC 6902), with the habits of the library that Kubernetes uses.

Those differ from the RFC: `replace` of an absent key of an object adds it, an absent `value`
is null, `test` and `copy` read an absent key as null, an index may be negative, and only
`replace` and `test` take the whole document (an empty path).
"""

from collections.abc import Callable
from typing import Any, cast

import msgspec

from kilonova.api.json import JsonObject
from kilonova.local.patch.errors import PatchError, does_not_fit, malformed, too_many_operations
from kilonova.local.patch.values import copied, go_kind

MAX_OPERATIONS = 10_000
"""The longest patch that the server works through."""

COPY_LIMIT = 3 << 20
"""Bytes that all copies of a patch may add; each could double the document else."""

_INDEX_DIGITS = 18
"""What fits into 64 bits for sure."""


def json_patch(document: Any, operations: Any) -> Any:
    """The document after all operations, or `PatchError` if one of them fails."""
    steps = _checked(operations)
    result = copied(document)
    copied_bytes = 0
    for step in steps:
        if step.get("op") == "copy":
            copied_bytes += _size_of_source(result, step)
            if copied_bytes > COPY_LIMIT:
                raise does_not_fit(
                    "Unable to complete the copy, the accumulated size increase of copy is "
                    f"{copied_bytes}, exceeding the limit {COPY_LIMIT}"
                )
        operation = _OPERATIONS.get(str(step.get("op")))
        if operation is None:
            raise does_not_fit(f"Unexpected kind: {step.get('op', 'unknown')}")
        result = operation(result, step)
    if not isinstance(result, dict):
        raise does_not_fit(f"json: cannot unmarshal {go_kind(result)} into Go value of type map")
    return cast(Any, result)


def _checked(operations: Any) -> list[JsonObject]:
    if operations is None:
        return []
    if not isinstance(operations, list):
        raise _undecodable(operations, "Go value of type []handlers.jsonPatchOp")
    steps = cast("list[Any]", operations)
    for step in steps:
        if step is None:
            continue
        if not isinstance(step, dict):
            raise _undecodable(step, "Go value of type handlers.jsonPatchOp")
        fields = cast(JsonObject, step)
        for name in ("op", "path", "from"):
            if fields.get(name) is not None and not isinstance(fields[name], str):
                raise _undecodable(
                    fields[name], f"Go struct field jsonPatchOp.{name} of type string"
                )
    if len(steps) > MAX_OPERATIONS:
        raise too_many_operations(MAX_OPERATIONS, len(steps))
    return [step or {} for step in steps]


def _undecodable(value: Any, target: str) -> PatchError:
    return malformed(f"error decoding patch: json: cannot unmarshal {go_kind(value)} into {target}")


def _add(document: Any, step: JsonObject) -> Any:
    path = _pointer(step, "path")
    holder, key = _holder(document, path)
    _put(holder, key, copied(step.get("value")), path)
    return document


def _remove(document: Any, step: JsonObject) -> Any:
    path = _pointer(step, "path")
    holder, key = _holder(document, path)
    _take(holder, key, path)
    return document


def _replace(document: Any, step: JsonObject) -> Any:
    path = _pointer(step, "path")
    value = copied(step.get("value"))
    if path == "":
        if not isinstance(value, dict | list):
            raise does_not_fit("replace operation value must be object or array")
        return cast(Any, value)
    holder, key = _holder(document, path)
    if isinstance(holder, list):
        holder[_index(holder, key, path)] = value
    else:
        holder[key] = value
    return document


def _move(document: Any, step: JsonObject) -> Any:
    source = _pointer(step, "from")
    holder, key = _holder(document, source)
    value = _take(holder, key, source)
    path = _pointer(step, "path")
    holder, key = _holder(document, path)
    _put(holder, key, value, path)
    return document


def _size_of_source(document: Any, step: JsonObject) -> int:
    source = _pointer(step, "from")
    holder, key = _holder(document, source)
    return len(msgspec.json.encode(_look(holder, key, source)))


def _copy(document: Any, step: JsonObject) -> Any:
    source = _pointer(step, "from")
    holder, key = _holder(document, source)
    value = copied(_look(holder, key, source))
    path = _pointer(step, "path")
    holder, key = _holder(document, path)
    _put(holder, key, value, path)
    return document


def _test(document: Any, step: JsonObject) -> Any:
    path = _pointer(step, "path")
    if path == "":
        found = document
    else:
        holder, key = _holder(document, path)
        found = _look(holder, key, path)
    if not _identical(found, step.get("value")):
        raise does_not_fit(f"testing value {path} failed: test failed")
    return document


_OPERATIONS: dict[str, Callable[[Any, JsonObject], Any]] = {
    "add": _add,
    "remove": _remove,
    "replace": _replace,
    "move": _move,
    "copy": _copy,
    "test": _test,
}


def _pointer(step: JsonObject, name: str) -> str:
    path = step.get(name)
    if path is None:
        raise does_not_fit(f"{step['op']} operation is missing its {name} field")
    return path


def _holder(document: Any, path: str) -> tuple[Any, str]:
    """The object or list that the last part of the path names something in."""
    parts = path.split("/")
    if len(parts) < 2:
        raise does_not_fit(f'doc is missing path: "{path}"')
    holder = document
    for part in parts[1:-1]:
        holder = _look(holder, _unescaped(part), path)
        if type(holder) not in (dict, list):
            raise does_not_fit(f'doc is missing path: "{path}"')
    return holder, _unescaped(parts[-1])


def _unescaped(part: str) -> str:
    return part.replace("~1", "/").replace("~0", "~") if "~" in part else part


def _look(holder: Any, key: str, path: str) -> Any:
    if isinstance(holder, list):
        return cast("list[Any]", holder)[_index(holder, key, path)]
    return cast(JsonObject, holder).get(key)


def _take(holder: Any, key: str, path: str) -> Any:
    if isinstance(holder, list):
        return cast("list[Any]", holder).pop(_index(holder, key, path))
    if key not in holder:
        raise does_not_fit(f"Unable to remove nonexistent key: {key} for path: '{path}'")
    return holder.pop(key)


def _put(holder: Any, key: str, value: Any, path: str) -> None:
    if not isinstance(holder, list):
        holder[key] = value
    elif key == "-":
        cast("list[Any]", holder).append(value)
    else:
        cast("list[Any]", holder).insert(_index(holder, key, path, room=1), value)


def _index(holder: Any, key: str, path: str, room: int = 0) -> int:
    """The position that `key` names; `room` is 1 where the end itself is a position."""
    size = len(holder) + room
    digits = key[1:] if key[:1] in ("-", "+") else key
    if not (digits.isascii() and digits.isdigit()):
        raise does_not_fit(f"value was not a proper array index: '{key}' for path: '{path}'")
    if len(digits) > _INDEX_DIGITS:
        raise does_not_fit(f"value was not a proper array index: '{key}' for path: '{path}'")
    index = int(key)
    if not -size <= index < size:
        raise does_not_fit(f"Unable to access invalid index: {index} for path: '{path}'")
    return index + size if index < 0 else index


def _identical(left: Any, right: Any) -> bool:
    """Equality as of the JSON texts: 1 is neither 1.0 nor true."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        mapping = cast(JsonObject, left)
        return mapping.keys() == right.keys() and all(
            _identical(item, right[key]) for key, item in mapping.items()
        )
    if isinstance(left, list):
        items = cast("list[Any]", left)
        return len(items) == len(right) and all(map(_identical, items, right))
    return left == right
