"""List merging for strategic merge patch, and the order of the merged items.

Items of the patch are in the order of the patch (or of its `$setElementOrder`), items that only the
server has keep their order, and between the two the server's order decides where it has both.
"""

from collections.abc import Callable
from typing import Any, cast

from kilonova.api.json import JsonObject
from kilonova.local.apimachinery.patch.errors import (
    PatchError,
    inapplicable_patch,
    unprocessable_patch,
)
from kilonova.local.apimachinery.patch.values import format_go_value, go_type, json_equal

MergeItems = Callable[[JsonObject, JsonObject], JsonObject]


def merge_lists(
    original: list[Any],
    patch: list[Any],
    merge_key: str,
    merge_items: MergeItems,
    *,
    deleted_primitives: bool,
) -> list[Any]:
    """Merge two lists of objects by key, or two lists of scalars as sets."""
    if not original and not patch:
        return original
    if not _holds_objects(original, patch):
        if deleted_primitives:
            return [item for item in original if not _is_listed(item, patch)]
        both = _deduplicate([*original, *patch])
        return _interleave(both, patch, original, merge_key, objects=False)
    if not merge_key:
        raise unprocessable_patch("cannot merge lists without merge key for struct")
    original, updates, replacing = _apply_item_directives(original, patch, merge_key)
    if replacing:
        original, updates = updates, []
    merged = list(original)
    for item in updates:
        position = _find_position(merged, merge_key, _merge_key_value(item, merge_key))
        if position < 0:
            merged.append(item)
        else:
            merged[position] = merge_items(merged[position], item)
    return _interleave(merged, updates, original, merge_key, objects=True)


def check_order(patch: list[Any], order: list[Any], merge_key: str) -> None:
    """Items of the patch must appear in `$setElementOrder`, in the same order."""
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
            is_next = json_equal(
                _merge_key_value(items[done], merge_key), _merge_key_value(expected, merge_key)
            )
        else:
            is_next = json_equal(items[done], expected)
        done += is_next
    if done < len(items):
        raise unprocessable_patch(
            f"The order in patch list:\n{format_go_value(patch)}\n"
            f" doesn't match $setElementOrder list:\n{format_go_value(order)}\n"
        )


def reorder_list(
    merged: list[Any], original: list[Any], patch: list[Any], order: list[Any], merge_key: str
) -> list[Any]:
    """The merged list in the order of `$setElementOrder`."""
    objects = _holds_objects(original, patch)
    known = original
    if objects and merge_key:
        known = _server_order(original, patch, merge_key)
    return _interleave(merged, order, known, merge_key, objects=objects)


def _server_order(original: list[Any], patch: list[Any], merge_key: str) -> list[Any]:
    """The server's order of items, for use with `$setElementOrder`.

    In Kubernetes, new items fill the positions of deleted ones in the server's list, and from then
    on count as the server's.
    """
    kept, updates, replacing = _apply_item_directives(original, patch, merge_key)
    if replacing:
        return kept
    new = [
        item
        for item in updates
        if _find_position(kept, merge_key, _merge_key_value(item, merge_key)) < 0
    ]
    return [*kept, *new[: len(original) - len(kept)]]


def _apply_item_directives(
    original: list[Any], patch: list[Any], merge_key: str
) -> tuple[list[Any], list[Any], bool]:
    """Apply `$patch` items; returns the remaining items of both lists, and whether to replace."""
    updates: list[Any] = []
    replacing = False
    for item in patch:
        if "$patch" not in item:
            updates.append(item)
            continue
        match item["$patch"]:
            case "delete":
                deleted_key = _merge_key_value(item, merge_key)
                original = [old for old in original if not _has_key(old, merge_key, deleted_key)]
            case "replace":
                replacing = True
            case "merge":
                raise unprocessable_patch("merging lists cannot yet be specified in the patch")
            case word:
                raise unprocessable_patch(
                    f"unknown patch type: {format_go_value(word)} in map: {format_go_value(item)}"
                )
    return original, updates, replacing


def _interleave(
    merged: list[Any],
    patch_order: list[Any],
    server_order: list[Any],
    merge_key: str,
    *,
    objects: bool,
) -> list[Any]:
    """Split into items of the patch and the rest, sort both, and merge them."""

    def item_identity(item: Any) -> Any:
        return _merge_key_value(item, merge_key) if objects else item

    patch_identities = [item_identity(item) for item in patch_order]
    known = [item_identity(item) for item in server_order]
    patch_items: list[tuple[int, Any]] = []
    server_items: list[tuple[int, Any]] = []
    for item in merged:
        name = item_identity(item)
        position = _find_index(patch_identities, name)
        if position >= 0:
            patch_items.append((position, item))
        else:
            server_items.append((_find_index(known, name), item))
    patch_items.sort(key=_pair_position)
    server_items.sort(key=_pair_position)
    result: list[Any] = []
    waiting = [item for _, item in reversed(patch_items)]
    for position, item in server_items:
        while waiting:
            other = _find_index(known, item_identity(waiting[-1]))
            if 0 <= position < other:
                break
            result.append(waiting.pop())
        result.append(item)
    return [*result, *reversed(waiting)]


def _pair_position(pair: tuple[int, Any]) -> int:
    return pair[0]


def _holds_objects(original: list[Any], patch: list[Any]) -> bool:
    """Whether the items are objects; a list must not mix objects and scalars."""
    types = [go_type(item) for item in (*original, *patch)]
    if not types:
        raise unprocessable_patch("no elements in any of the given slices")
    if types[0] == "[]interface {}":
        raise inapplicable_patch("lists of lists are not supported")
    if any(type != types[0] for type in types):
        raise unprocessable_patch(
            f"list element types are not identical: {format_go_value([original, patch])}"
        )
    return types[0].startswith("map")


def _as_object(item: Any) -> JsonObject:
    if not isinstance(item, dict):
        raise unprocessable_patch(
            f"expected a map[string]interface {{}}, but received a {go_type(item)}"
        )
    return cast(JsonObject, item)


def _merge_key_value(item: Any, merge_key: str) -> Any:
    mapping = _as_object(item)
    if merge_key not in mapping:
        raise _missing_key_error(mapping, merge_key)
    return mapping[merge_key]


def _missing_key_error(item: JsonObject, merge_key: str) -> PatchError:
    return unprocessable_patch(
        f"map: {format_go_value(item)} does not contain declared merge key: {merge_key}"
    )


def _has_key(item: JsonObject, merge_key: str, value: Any) -> bool:
    return merge_key in item and json_equal(item[merge_key], value)


def _find_position(items: list[Any], merge_key: str, value: Any) -> int:
    for position, item in enumerate(items):
        if _has_key(item, merge_key, value):
            return position
    return -1


def _find_index(names: list[Any], name: Any) -> int:
    for position, other in enumerate(names):
        if json_equal(other, name):
            return position
    return -1


def _is_listed(item: Any, items: list[Any]) -> bool:
    return _find_index(items, item) >= 0


def _deduplicate(items: list[Any]) -> list[Any]:
    unique: list[Any] = []
    for item in items:
        if not _is_listed(item, unique):
            unique.append(item)
    return unique
