"""Merging lists for strategic merge patch, and the order that items then stand in.

Items of the patch stand in the order of the patch (or of its order directive), items that
only the server has keep their order, and between the two kinds the server's order decides
where it knows both.
"""

from collections.abc import Callable
from typing import Any, cast

from kilonova.api.json import JsonObject
from kilonova.local.patch.errors import PatchError, does_not_fit, unprocessable
from kilonova.local.patch.values import as_go, go_type, same

MergeItems = Callable[[JsonObject, JsonObject], JsonObject]


def merge_lists(
    original: list[Any],
    patch: list[Any],
    merge_key: str,
    merge_items: MergeItems,
    *,
    taking_out: bool,
) -> list[Any]:
    """Merge two lists of objects by key, or two lists of scalars as sets."""
    if not original and not patch:
        return original
    if not _holds_objects(original, patch):
        if taking_out:
            return [item for item in original if not _found(item, patch)]
        both = _without_duplicates([*original, *patch])
        return _ordered(both, patch, original, merge_key, objects=False)
    if not merge_key:
        raise unprocessable("cannot merge lists without merge key for struct")
    original, plain, replacing = _obeyed_directives(original, patch, merge_key)
    if replacing:
        original, plain = plain, []
    merged = list(original)
    for item in plain:
        position = _position(merged, merge_key, _key_of(item, merge_key))
        if position < 0:
            merged.append(item)
        else:
            merged[position] = merge_items(merged[position], item)
    return _ordered(merged, plain, original, merge_key, objects=True)


def check_order(patch: list[Any], order: list[Any], merge_key: str) -> None:
    """Items of the patch must appear in its order directive, in the same order."""
    if not patch or not order:
        return
    items = patch
    if merge_key:
        items = [item for item in patch if _as_object(item).get("$patch") != "delete"]
    done = 0
    for expected in order:
        while done < len(items) and isinstance(items[done], dict) and "$patch" in items[done]:
            done += 1
        if done == len(items):
            return
        if merge_key:
            met = same(_key_of(items[done], merge_key), _key_of(expected, merge_key))
        else:
            met = same(items[done], expected)
        done += met
    if done < len(items):
        raise unprocessable(
            f"The order in patch list:\n{as_go(patch)}\n doesn't match $setElementOrder list:\n"
            f"{as_go(order)}\n"
        )


def reordered(
    merged: list[Any], original: list[Any], patch: list[Any], order: list[Any], merge_key: str
) -> list[Any]:
    """The merged list in the order that an order directive wants."""
    objects = _holds_objects(original, patch)
    known = original
    if objects and merge_key:
        known = _with_vacancies_filled(original, patch, merge_key)
    return _ordered(merged, order, known, merge_key, objects=objects)


def _with_vacancies_filled(original: list[Any], patch: list[Any], merge_key: str) -> list[Any]:
    """The server's order, as far as an order directive is concerned.

    In Kubernetes, new items move into the places in the list of the server that deleted ones
    have left, and from then on count as the server's.
    """
    kept, plain, replacing = _obeyed_directives(original, patch, merge_key)
    if replacing:
        return kept
    new = [item for item in plain if _position(kept, merge_key, _key_of(item, merge_key)) < 0]
    return [*kept, *new[: len(original) - len(kept)]]


def _obeyed_directives(
    original: list[Any], patch: list[Any], merge_key: str
) -> tuple[list[Any], list[Any], bool]:
    """Items left of both lists when `$patch` items did their work, and whether to replace."""
    plain: list[Any] = []
    replacing = False
    for item in patch:
        if "$patch" not in item:
            plain.append(item)
            continue
        match item["$patch"]:
            case "delete":
                doomed = _key_of(item, merge_key)
                original = [old for old in original if not _has_key(old, merge_key, doomed)]
            case "replace":
                replacing = True
            case "merge":
                raise unprocessable("merging lists cannot yet be specified in the patch")
            case word:
                raise unprocessable(f"unknown patch type: {as_go(word)} in map: {as_go(item)}")
    return original, plain, replacing


def _ordered(
    merged: list[Any],
    patch_order: list[Any],
    server_order: list[Any],
    merge_key: str,
    *,
    objects: bool,
) -> list[Any]:
    """Split into items of the patch and the rest, sort both, and zip them together."""

    def identity(item: Any) -> Any:
        return _key_of(item, merge_key) if objects else item

    wanted = [identity(item) for item in patch_order]
    known = [identity(item) for item in server_order]
    ours: list[tuple[int, Any]] = []
    theirs: list[tuple[int, Any]] = []
    for item in merged:
        name = identity(item)
        place = _index(wanted, name)
        if place >= 0:
            ours.append((place, item))
        else:
            theirs.append((_index(known, name), item))
    ours.sort(key=_place)
    theirs.sort(key=_place)
    result: list[Any] = []
    waiting = [item for _, item in reversed(ours)]
    for place, item in theirs:
        while waiting:
            other = _index(known, identity(waiting[-1]))
            if 0 <= place < other:
                break
            result.append(waiting.pop())
        result.append(item)
    return [*result, *reversed(waiting)]


def _place(pair: tuple[int, Any]) -> int:
    return pair[0]


def _holds_objects(original: list[Any], patch: list[Any]) -> bool:
    """Whether the items are objects; both lists must be of one sort of items."""
    sorts = [go_type(item) for item in (*original, *patch)]
    if not sorts:
        raise unprocessable("no elements in any of the given slices")
    if sorts[0] == "[]interface {}":
        raise does_not_fit("lists of lists are not supported")
    if any(sort != sorts[0] for sort in sorts):
        raise unprocessable(f"list element types are not identical: {as_go([original, patch])}")
    return sorts[0].startswith("map")


def _as_object(item: Any) -> JsonObject:
    if not isinstance(item, dict):
        raise unprocessable(f"expected a map[string]interface {{}}, but received a {go_type(item)}")
    return cast(JsonObject, item)


def _key_of(item: Any, merge_key: str) -> Any:
    mapping = _as_object(item)
    if merge_key not in mapping:
        raise _no_key(mapping, merge_key)
    return mapping[merge_key]


def _no_key(item: JsonObject, merge_key: str) -> PatchError:
    return unprocessable(f"map: {as_go(item)} does not contain declared merge key: {merge_key}")


def _has_key(item: JsonObject, merge_key: str, value: Any) -> bool:
    return merge_key in item and same(item[merge_key], value)


def _position(items: list[Any], merge_key: str, value: Any) -> int:
    for position, item in enumerate(items):
        if _has_key(item, merge_key, value):
            return position
    return -1


def _index(names: list[Any], name: Any) -> int:
    for position, other in enumerate(names):
        if same(other, name):
            return position
    return -1


def _found(item: Any, items: list[Any]) -> bool:
    return _index(items, item) >= 0


def _without_duplicates(items: list[Any]) -> list[Any]:
    kept: list[Any] = []
    for item in items:
        if not _found(item, kept):
            kept.append(item)
    return kept
