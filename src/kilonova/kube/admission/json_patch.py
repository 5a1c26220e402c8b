"""Computes the JSON patch (RFC 6902) between two objects. Pure."""

from typing import Any, cast

from kilonova.api.json import JsonObject


def create_json_patch(old: JsonObject, new: JsonObject) -> list[JsonObject]:
    """Operations that turn `old` into `new`; empty if they are equal.

    The common start and end of a list are not touched, so that an insertion in the middle is one
    `add`.
    """
    operations: list[JsonObject] = []
    _diff_values(old, new, "", operations)
    return operations


def _diff_values(old: Any, new: Any, path: str, operations: list[JsonObject]) -> None:
    if isinstance(old, dict) and isinstance(new, dict):
        _diff_objects(cast("JsonObject", old), cast("JsonObject", new), path, operations)
    elif isinstance(old, list) and isinstance(new, list):
        _diff_lists(cast("list[Any]", old), cast("list[Any]", new), path, operations)
    elif not _is_equal(old, new):
        operations.append({"op": "replace", "path": path, "value": new})


def _diff_objects(
    old: JsonObject, new: JsonObject, path: str, operations: list[JsonObject]
) -> None:
    for name in old:
        if name not in new:
            operations.append({"op": "remove", "path": f"{path}/{_escape_token(name)}"})
    for name, value in new.items():
        child_path = f"{path}/{_escape_token(name)}"
        if name in old:
            _diff_values(old[name], value, child_path, operations)
        else:
            operations.append({"op": "add", "path": child_path, "value": value})


def _diff_lists(old: list[Any], new: list[Any], path: str, operations: list[JsonObject]) -> None:
    shorter = min(len(old), len(new))
    start = 0
    while start < shorter and _is_equal(old[start], new[start]):
        start += 1
    end = 0
    while end < shorter - start and _is_equal(old[-1 - end], new[-1 - end]):
        end += 1
    paired = range(start, shorter - end)
    for index in paired:
        _diff_values(old[index], new[index], f"{path}/{index}", operations)
    # In reverse, so that the remaining indices stay valid.
    for index in reversed(range(paired.stop, len(old) - end)):
        operations.append({"op": "remove", "path": f"{path}/{index}"})
    for index in range(paired.stop, len(new) - end):
        operations.append({"op": "add", "path": f"{path}/{index}", "value": new[index]})


def _is_equal(old: Any, new: Any) -> bool:
    # In Python, True equals 1 at any depth; in JSON it does not.
    if isinstance(old, dict) and isinstance(new, dict):
        left, right = cast("JsonObject", old), cast("JsonObject", new)
        return left.keys() == right.keys() and all(_is_equal(left[k], right[k]) for k in left)
    if isinstance(old, list) and isinstance(new, list):
        ours, theirs = cast("list[Any]", old), cast("list[Any]", new)
        return len(ours) == len(theirs) and all(map(_is_equal, ours, theirs))
    return old == new and isinstance(old, bool) == isinstance(new, bool)


def _escape_token(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
