"""The JSON patch (RFC 6902) that turns one object into another. Pure."""

from typing import Any, cast

from kilonova.api.json import JsonObject


def json_patch_between(old: JsonObject, new: JsonObject) -> list[JsonObject]:
    """Operations that make `new` out of `old`, only where they differ; empty if they do not.

    In a list the common beginning and end are left alone, so that an insertion in the middle
    is one `add`.
    """
    operations: list[JsonObject] = []
    _compare(old, new, "", operations)
    return operations


def _compare(old: Any, new: Any, path: str, operations: list[JsonObject]) -> None:
    if isinstance(old, dict) and isinstance(new, dict):
        _compare_objects(cast("JsonObject", old), cast("JsonObject", new), path, operations)
    elif isinstance(old, list) and isinstance(new, list):
        _compare_lists(cast("list[Any]", old), cast("list[Any]", new), path, operations)
    elif not _same(old, new):
        operations.append({"op": "replace", "path": path, "value": new})


def _compare_objects(
    old: JsonObject, new: JsonObject, path: str, operations: list[JsonObject]
) -> None:
    for name in old:
        if name not in new:
            operations.append({"op": "remove", "path": f"{path}/{_escaped(name)}"})
    for name, value in new.items():
        below = f"{path}/{_escaped(name)}"
        if name in old:
            _compare(old[name], value, below, operations)
        else:
            operations.append({"op": "add", "path": below, "value": value})


def _compare_lists(old: list[Any], new: list[Any], path: str, operations: list[JsonObject]) -> None:
    shorter = min(len(old), len(new))
    start = 0
    while start < shorter and _same(old[start], new[start]):
        start += 1
    end = 0
    while end < shorter - start and _same(old[-1 - end], new[-1 - end]):
        end += 1
    paired = range(start, shorter - end)
    for index in paired:
        _compare(old[index], new[index], f"{path}/{index}", operations)
    # From the back, so that the indices before are still true.
    for index in reversed(range(paired.stop, len(old) - end)):
        operations.append({"op": "remove", "path": f"{path}/{index}"})
    for index in range(paired.stop, len(new) - end):
        operations.append({"op": "add", "path": f"{path}/{index}", "value": new[index]})


def _same(old: Any, new: Any) -> bool:
    # Python's equality takes true for 1, at any depth.
    if isinstance(old, dict) and isinstance(new, dict):
        left, right = cast("JsonObject", old), cast("JsonObject", new)
        return left.keys() == right.keys() and all(_same(left[k], right[k]) for k in left)
    if isinstance(old, list) and isinstance(new, list):
        ours, theirs = cast("list[Any]", old), cast("list[Any]", new)
        return len(ours) == len(theirs) and all(map(_same, ours, theirs))
    return old == new and isinstance(old, bool) == isinstance(new, bool)


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
