"""Strategic merge patch: a merge patch that knows which lists are keyed.

Keys of a patch that begin with `$` are directives:

- `$patch: replace | delete` beside other keys: do not merge this object, or drop it;
- `$retainKeys: [...]`: drop keys of the object that are not named;
- `$setElementOrder/<list>: [...]`: the order in which items of the list shall stand;
- `$deleteFromPrimitiveList/<list>: [...]`: values to take out of a list of scalars.

Lists are merged by `kilonova.local.patch.lists` where the schema says so, else replaced.
"""

from typing import Any, cast

from kilonova.api.json import JsonObject
from kilonova.local.patch.errors import malformed, unprocessable
from kilonova.local.patch.lists import check_order, merge_lists, reordered
from kilonova.local.patch.values import as_go, copied, go_kind, go_type
from kilonova.local.schema.node import Schema

_DIRECTIVE = "$patch"
_RETAIN = "$retainKeys"
_ORDER = "$setElementOrder"
_TAKE_OUT = "$deleteFromPrimitiveList"


def strategic_merge_patch(document: JsonObject, patch: Any, schema: Schema) -> JsonObject:
    """The document with the patch merged into it as the schema's strategies say.

    The schema must be that of a built-in kind: custom kinds do not take this patch type,
    which is for the caller to refuse (415). Takes the document over.
    """
    if patch is None:
        return document
    if not isinstance(patch, dict):
        raise malformed(
            f"json: cannot unmarshal {go_kind(patch)} into Go value of "
            "type map[string]interface {}"
        )
    return _merge_objects(document, copied(patch), schema)


# From here on both sides are our own, and are changed in place.


def _merge_objects(original: JsonObject, patch: JsonObject, schema: Schema | None) -> JsonObject:
    directive = patch.get(_DIRECTIVE)
    if directive == "replace":
        del patch[_DIRECTIVE]
        return patch
    if directive == "delete":
        return {}
    if _DIRECTIVE in patch:
        raise unprocessable(f"unknown patch type: {as_go(directive)} in map: {as_go(patch)}")
    _retain_keys(original, patch)
    _merge_ordered_lists(original, patch, schema)
    for key, value in patch.items():
        taking_out = key.startswith(_TAKE_OUT)
        if taking_out:
            key = _list_name(key, _TAKE_OUT, "invalid patch format of primitive list")
        if value is None:
            original.pop(key, None)
            continue
        old = original.get(key)
        if type(old) is not type(value) or key not in original:
            if not taking_out:
                _take_over(original, key, value)
        elif isinstance(value, dict):
            below = _below(schema, key)
            if _strategy(below) == "replace":
                original[key] = value
            else:
                original[key] = _merge_objects(
                    cast(JsonObject, old), cast(JsonObject, value), below
                )
        elif isinstance(value, list):
            original[key] = _merged_list(old, cast("list[Any]", value), schema, key, taking_out)
        else:
            original[key] = value
    return original


def _merged_list(
    old: Any, value: list[Any], schema: Schema | None, key: str, taking_out: bool
) -> list[Any]:
    below = _below(schema, key)
    if _strategy(below) != "merge" and not taking_out:
        return value
    merge_key = below.patch_merge_key if below else ""
    item = below.items if below else None

    def merge_items(left: JsonObject, right: JsonObject) -> JsonObject:
        return _merge_objects(left, right, item)

    return merge_lists(old, value, merge_key, merge_items, taking_out=taking_out)


def _retain_keys(original: JsonObject, patch: JsonObject) -> None:
    if _RETAIN not in patch:
        return
    kept = patch.pop(_RETAIN)
    if not isinstance(kept, list):
        raise malformed("invalid patch format of retainKeys")
    for key, value in patch.items():
        if value is None or key.startswith((_TAKE_OUT, _ORDER)):
            continue
        if key not in kept:
            raise malformed("invalid patch format of retainKeys")
    for key in [key for key in original if key not in kept]:
        del original[key]


def _merge_ordered_lists(original: JsonObject, patch: JsonObject, schema: Schema | None) -> None:
    """Merge each list that has an order directive, and consume directive and list."""
    for directive in [key for key in patch if key.startswith(_ORDER)]:
        order = _as_list(patch.pop(directive))
        key = _list_name(directive, _ORDER, "invalid patch format of setElementOrder list")
        old = _as_list(original[key]) if key in original else None
        new = _as_list(patch[key]) if key in patch else None
        below = schema.properties.get(key) if schema else None
        if below is None:
            raise unprocessable(
                f'unable to find api field in struct {_go_name(schema)} for the json field "{key}"'
            )
        check_order(new or [], order, below.patch_merge_key)
        if old is None and new is None:
            continue
        if new is None:
            merged = old or []
        elif old is None:
            merged = [item for item in map(_without_directives, new) if item is not _DROPPED]
        else:
            merged = _merged_list(old, new, schema, key, taking_out=False)
        original[key] = reordered(merged, old or [], new or [], order, below.patch_merge_key)
        patch.pop(key, None)


def _take_over(original: JsonObject, key: str, value: Any) -> None:
    """Set what the document does not have, or has with another type."""
    kept = _plain(value)
    if kept is _DROPPED:
        original.pop(key, None)
    else:
        original[key] = kept


_DROPPED: Any = object()


def _without_directives(value: Any) -> Any:
    if isinstance(value, dict):
        mapping = cast(JsonObject, value)
        if _DIRECTIVE in mapping:
            return _DROPPED
        cleaned = ((key, _without_directives(item)) for key, item in mapping.items())
        return {key: item for key, item in cleaned if item is not _DROPPED}
    if isinstance(value, list):
        items = map(_without_directives, cast("list[Any]", value))
        return [item for item in items if item is not _DROPPED]
    return value


def _plain(value: Any) -> Any:
    """The value without nulls in objects, and without objects that are directives."""
    kind = value.__class__
    if kind is dict:
        if value.get(_DIRECTIVE) is not None:
            return _DROPPED
        return {
            key: kept
            for key, item in value.items()
            if item is not None and (kept := _plain(item)) is not _DROPPED
        }
    if kind is list:
        return [kept for item in value if (kept := _plain(item)) is not _DROPPED]
    return value


def _as_list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise unprocessable(f"expected a []interface {{}}, but received a {go_type(value)}")
    return cast("list[Any]", value)


def _list_name(directive: str, prefix: str, complaint: str) -> str:
    found, _, name = directive.partition("/")
    if found != prefix or "/" not in directive:
        raise malformed(complaint)
    return name


def _below(schema: Schema | None, key: str) -> Schema | None:
    if schema is None:
        return None
    return schema.properties.get(key, schema.additional)


def _strategy(schema: Schema | None) -> str:
    if schema is None:
        return ""
    return next((word for word in schema.patch_strategies if word != "retainKeys"), "")


def _go_name(schema: Schema | None) -> str:
    return schema.definition.rpartition(".")[2] if schema else "struct"
