"""Strategic merge patch: a merge patch that merges keyed lists item by item.

Keys of a patch that begin with `$` are directives:

- `$patch: replace | delete` beside other keys: replace this object, or delete it;
- `$retainKeys: [...]`: remove other keys of the object;
- `$setElementOrder/<list>: [...]`: the order of the items;
- `$deleteFromPrimitiveList/<list>: [...]`: values to remove from a list of scalars.

Lists with the patch strategy `merge` are merged by `lists`, others are replaced.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, Self, cast

from kilonova.api.json import JsonObject
from kilonova.local.apimachinery.patch.errors import malformed_patch, unprocessable_patch
from kilonova.local.apimachinery.patch.lists import check_order, merge_lists, reorder_list
from kilonova.local.apimachinery.patch.values import (
    deep_copy,
    format_go_value,
    go_json_kind,
    go_type,
)

_DIRECTIVE = "$patch"
_RETAIN = "$retainKeys"
_ORDER = "$setElementOrder"
_DELETE_FROM_LIST = "$deleteFromPrimitiveList"


class PatchSchema(Protocol):
    """What patching needs to know of a value's schema, as upstream's LookupPatchMeta."""

    @property
    def properties(self) -> Mapping[str, Self]: ...
    @property
    def additional(self) -> Self | None: ...
    @property
    def items(self) -> Self | None: ...
    @property
    def patch_merge_key(self) -> str: ...
    @property
    def patch_strategies(self) -> Sequence[str]: ...
    @property
    def definition(self) -> str: ...


def strategic_merge_patch(document: JsonObject, patch: Any, schema: PatchSchema) -> JsonObject:
    """The document with the patch merged into it by the patch strategies of the schema.

    The schema must be that of a built-in kind: for custom kinds the caller rejects this patch type
    (415). The document is modified: the caller must not use it afterwards.
    """
    if patch is None:
        return document
    if not isinstance(patch, dict):
        raise malformed_patch(
            f"json: cannot unmarshal {go_json_kind(patch)} into Go value of "
            "type map[string]interface {}"
        )
    return _merge_objects(document, deep_copy(patch), schema)


# Document and patch are private copies from here on, and are modified in place.


def _merge_objects(
    original: JsonObject, patch: JsonObject, schema: PatchSchema | None
) -> JsonObject:
    directive = patch.get(_DIRECTIVE)
    if directive == "replace":
        del patch[_DIRECTIVE]
        return patch
    if directive == "delete":
        return {}
    if _DIRECTIVE in patch:
        raise unprocessable_patch(
            f"unknown patch type: {format_go_value(directive)} in map: {format_go_value(patch)}"
        )
    _apply_retain_keys(original, patch)
    _merge_ordered_lists(original, patch, schema)
    for key, value in patch.items():
        is_deletion = key.startswith(_DELETE_FROM_LIST)
        if is_deletion:
            key = _list_name(key, _DELETE_FROM_LIST, "invalid patch format of primitive list")
        if value is None:
            original.pop(key, None)
            continue
        old = original.get(key)
        if type(old) is not type(value) or key not in original:
            if not is_deletion:
                _set_if_absent(original, key, value)
        elif isinstance(value, dict):
            field_schema = _field_schema(schema, key)
            if _patch_strategy(field_schema) == "replace":
                original[key] = value
            else:
                original[key] = _merge_objects(
                    cast(JsonObject, old), cast(JsonObject, value), field_schema
                )
        elif isinstance(value, list):
            original[key] = _merge_list(old, cast("list[Any]", value), schema, key, is_deletion)
        else:
            original[key] = value
    return original


def _merge_list(
    old: Any, value: list[Any], schema: PatchSchema | None, key: str, deleted_primitives: bool
) -> list[Any]:
    field_schema = _field_schema(schema, key)
    if _patch_strategy(field_schema) != "merge" and not deleted_primitives:
        return value
    merge_key = field_schema.patch_merge_key if field_schema else ""
    item = field_schema.items if field_schema else None

    def merge_items(left: JsonObject, right: JsonObject) -> JsonObject:
        return _merge_objects(left, right, item)

    return merge_lists(old, value, merge_key, merge_items, deleted_primitives=deleted_primitives)


def _apply_retain_keys(original: JsonObject, patch: JsonObject) -> None:
    if _RETAIN not in patch:
        return
    retained = patch.pop(_RETAIN)
    if not isinstance(retained, list):
        raise malformed_patch("invalid patch format of retainKeys")
    for key, value in patch.items():
        if value is None or key.startswith((_DELETE_FROM_LIST, _ORDER)):
            continue
        if key not in retained:
            raise malformed_patch("invalid patch format of retainKeys")
    for key in [key for key in original if key not in retained]:
        del original[key]


def _merge_ordered_lists(
    original: JsonObject, patch: JsonObject, schema: PatchSchema | None
) -> None:
    """Merge each list that has `$setElementOrder`, and remove directive and list from the patch."""
    for directive in [key for key in patch if key.startswith(_ORDER)]:
        order = _as_list(patch.pop(directive))
        key = _list_name(directive, _ORDER, "invalid patch format of setElementOrder list")
        old = _as_list(original[key]) if key in original else None
        new = _as_list(patch[key]) if key in patch else None
        field_schema = schema.properties.get(key) if schema else None
        if field_schema is None:
            raise unprocessable_patch(
                f"unable to find api field in struct {_go_type_name(schema)} "
                f'for the json field "{key}"'
            )
        check_order(new or [], order, field_schema.patch_merge_key)
        if old is None and new is None:
            continue
        if new is None:
            merged = old or []
        elif old is None:
            merged = [item for item in map(_strip_directives, new) if item is not _REMOVED]
        else:
            merged = _merge_list(old, new, schema, key, deleted_primitives=False)
        original[key] = reorder_list(
            merged, old or [], new or [], order, field_schema.patch_merge_key
        )
        patch.pop(key, None)


def _set_if_absent(original: JsonObject, key: str, value: Any) -> None:
    """Set a key that the document lacks or has with another type."""
    stripped = _strip_nulls_and_directives(value)
    if stripped is _REMOVED:
        original.pop(key, None)
    else:
        original[key] = stripped


_REMOVED: Any = object()


def _strip_directives(value: Any) -> Any:
    if isinstance(value, dict):
        mapping = cast(JsonObject, value)
        if _DIRECTIVE in mapping:
            return _REMOVED
        cleaned = ((key, _strip_directives(item)) for key, item in mapping.items())
        return {key: item for key, item in cleaned if item is not _REMOVED}
    if isinstance(value, list):
        items = map(_strip_directives, cast("list[Any]", value))
        return [item for item in items if item is not _REMOVED]
    return value


def _strip_nulls_and_directives(value: Any) -> Any:
    """The value without nulls in objects and without objects that are directives."""
    kind = value.__class__
    if kind is dict:
        if value.get(_DIRECTIVE) is not None:
            return _REMOVED
        return {
            key: stripped
            for key, item in value.items()
            if item is not None and (stripped := _strip_nulls_and_directives(item)) is not _REMOVED
        }
    if kind is list:
        return [
            stripped
            for item in value
            if (stripped := _strip_nulls_and_directives(item)) is not _REMOVED
        ]
    return value


def _as_list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise unprocessable_patch(f"expected a []interface {{}}, but received a {go_type(value)}")
    return cast("list[Any]", value)


def _list_name(directive: str, prefix: str, error_message: str) -> str:
    found, _, name = directive.partition("/")
    if found != prefix or "/" not in directive:
        raise malformed_patch(error_message)
    return name


def _field_schema(schema: PatchSchema | None, key: str) -> PatchSchema | None:
    if schema is None:
        return None
    return schema.properties.get(key, schema.additional)


def _patch_strategy(schema: PatchSchema | None) -> str:
    if schema is None:
        return ""
    return next((strategy for strategy in schema.patch_strategies if strategy != "retainKeys"), "")


def _go_type_name(schema: PatchSchema | None) -> str:
    return schema.definition.rpartition(".")[2] if schema else "struct"
