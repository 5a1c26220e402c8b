"""JSON patch (RFC 6902), as implemented by the library that Kubernetes uses.

It differs from the RFC: `replace` of an absent key of an object adds it, an absent `value` is null,
`test` and `copy` read an absent key as null, an index may be negative, and only `replace` and
`test` accept the whole document (an empty path).
"""

from collections.abc import Callable
from typing import Any, cast

import msgspec

from kilonova.api.json import JsonObject
from kilonova.local.apimachinery.patch.errors import (
    PatchError,
    inapplicable_patch,
    malformed_patch,
    too_many_operations,
)
from kilonova.local.apimachinery.patch.values import deep_copy, go_json_kind

MAX_OPERATIONS = 10_000
"""The maximum number of operations in a patch."""

COPY_LIMIT = 3 << 20
"""The limit for the bytes that all copies of a patch add: each could double the document."""

_INDEX_DIGITS = 18
"""The number of decimal digits that always fit into 64 bits."""


def json_patch(document: Any, operations: Any) -> Any:
    """The document after all operations; raises `PatchError` if one of them fails."""
    steps = _check_operations(operations)
    result = deep_copy(document)
    copied_bytes = 0
    for step in steps:
        if step.get("op") == "copy":
            copied_bytes += _source_size(result, step)
            if copied_bytes > COPY_LIMIT:
                raise inapplicable_patch(
                    "Unable to complete the copy, the accumulated size increase of copy is "
                    f"{copied_bytes}, exceeding the limit {COPY_LIMIT}"
                )
        operation = _OPERATIONS.get(str(step.get("op")))
        if operation is None:
            raise inapplicable_patch(f"Unexpected kind: {step.get('op', 'unknown')}")
        result = operation(result, step)
    if not isinstance(result, dict):
        raise inapplicable_patch(
            f"json: cannot unmarshal {go_json_kind(result)} into Go value of type map"
        )
    return cast(Any, result)


def _check_operations(operations: Any) -> list[JsonObject]:
    if operations is None:
        return []
    if not isinstance(operations, list):
        raise _undecodable_error(operations, "Go value of type []handlers.jsonPatchOp")
    steps = cast("list[Any]", operations)
    for step in steps:
        if step is None:
            continue
        if not isinstance(step, dict):
            raise _undecodable_error(step, "Go value of type handlers.jsonPatchOp")
        fields = cast(JsonObject, step)
        for name in ("op", "path", "from"):
            if fields.get(name) is not None and not isinstance(fields[name], str):
                raise _undecodable_error(
                    fields[name], f"Go struct field jsonPatchOp.{name} of type string"
                )
    if len(steps) > MAX_OPERATIONS:
        raise too_many_operations(MAX_OPERATIONS, len(steps))
    return [step or {} for step in steps]


def _undecodable_error(value: Any, target: str) -> PatchError:
    return malformed_patch(
        f"error decoding patch: json: cannot unmarshal {go_json_kind(value)} into {target}"
    )


def _add(document: Any, step: JsonObject) -> Any:
    path = _get_pointer(step, "path")
    container, key = _find_container(document, path)
    _set_value(container, key, deep_copy(step.get("value")), path)
    return document


def _remove(document: Any, step: JsonObject) -> Any:
    path = _get_pointer(step, "path")
    container, key = _find_container(document, path)
    _remove_value(container, key, path)
    return document


def _replace(document: Any, step: JsonObject) -> Any:
    path = _get_pointer(step, "path")
    value = deep_copy(step.get("value"))
    if path == "":
        if not isinstance(value, dict | list):
            raise inapplicable_patch("replace operation value must be object or array")
        return cast(Any, value)
    container, key = _find_container(document, path)
    if isinstance(container, list):
        container[_parse_index(container, key, path)] = value
    else:
        container[key] = value
    return document


def _move(document: Any, step: JsonObject) -> Any:
    source = _get_pointer(step, "from")
    container, key = _find_container(document, source)
    value = _remove_value(container, key, source)
    path = _get_pointer(step, "path")
    container, key = _find_container(document, path)
    _set_value(container, key, value, path)
    return document


def _source_size(document: Any, step: JsonObject) -> int:
    source = _get_pointer(step, "from")
    container, key = _find_container(document, source)
    return len(msgspec.json.encode(_get_value(container, key, source)))


def _copy(document: Any, step: JsonObject) -> Any:
    source = _get_pointer(step, "from")
    container, key = _find_container(document, source)
    value = deep_copy(_get_value(container, key, source))
    path = _get_pointer(step, "path")
    container, key = _find_container(document, path)
    _set_value(container, key, value, path)
    return document


def _test(document: Any, step: JsonObject) -> Any:
    path = _get_pointer(step, "path")
    if path == "":
        found = document
    else:
        container, key = _find_container(document, path)
        found = _get_value(container, key, path)
    if not _is_identical(found, step.get("value")):
        raise inapplicable_patch(f"testing value {path} failed: test failed")
    return document


_OPERATIONS: dict[str, Callable[[Any, JsonObject], Any]] = {
    "add": _add,
    "remove": _remove,
    "replace": _replace,
    "move": _move,
    "copy": _copy,
    "test": _test,
}


def _get_pointer(step: JsonObject, name: str) -> str:
    path = step.get(name)
    if path is None:
        raise inapplicable_patch(f"{step['op']} operation is missing its {name} field")
    return path


def _find_container(document: Any, path: str) -> tuple[Any, str]:
    """The object or list that contains the value at the path, and its key there."""
    parts = path.split("/")
    if len(parts) < 2:
        raise inapplicable_patch(f'doc is missing path: "{path}"')
    container = document
    for part in parts[1:-1]:
        container = _get_value(container, _unescape(part), path)
        if type(container) not in (dict, list):
            raise inapplicable_patch(f'doc is missing path: "{path}"')
    return container, _unescape(parts[-1])


def _unescape(part: str) -> str:
    return part.replace("~1", "/").replace("~0", "~") if "~" in part else part


def _get_value(container: Any, key: str, path: str) -> Any:
    if isinstance(container, list):
        return cast("list[Any]", container)[_parse_index(container, key, path)]
    return cast(JsonObject, container).get(key)


def _remove_value(container: Any, key: str, path: str) -> Any:
    if isinstance(container, list):
        return cast("list[Any]", container).pop(_parse_index(container, key, path))
    if key not in container:
        raise inapplicable_patch(f"Unable to remove nonexistent key: {key} for path: '{path}'")
    return container.pop(key)


def _set_value(container: Any, key: str, value: Any, path: str) -> None:
    if not isinstance(container, list):
        container[key] = value
    elif key == "-":
        cast("list[Any]", container).append(value)
    else:
        cast("list[Any]", container).insert(_parse_index(container, key, path, extra=1), value)


def _parse_index(container: Any, key: str, path: str, extra: int = 0) -> int:
    """The list index that `key` denotes; `extra` is 1 where the end of the list is allowed."""
    size = len(container) + extra
    digits = key[1:] if key[:1] in ("-", "+") else key
    if not (digits.isascii() and digits.isdigit()):
        raise inapplicable_patch(f"value was not a proper array index: '{key}' for path: '{path}'")
    if len(digits) > _INDEX_DIGITS:
        raise inapplicable_patch(f"value was not a proper array index: '{key}' for path: '{path}'")
    index = int(key)
    if not -size <= index < size:
        raise inapplicable_patch(f"Unable to access invalid index: {index} for path: '{path}'")
    return index + size if index < 0 else index


def _is_identical(left: Any, right: Any) -> bool:
    """Equality of the JSON texts: 1 is neither 1.0 nor true."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        mapping = cast(JsonObject, left)
        return mapping.keys() == right.keys() and all(
            _is_identical(item, right[key]) for key, item in mapping.items()
        )
    if isinstance(left, list):
        items = cast("list[Any]", left)
        return len(items) == len(right) and all(map(_is_identical, items, right))
    return left == right
