"""JSON merge patch (RFC 7386), as implemented by the library that Kubernetes uses.

It differs from the RFC in lists: nulls in objects inside a list of the patch are dropped as well,
unless the list replaces an object.
"""

from typing import Any, cast

from kilonova.api.json import JsonObject
from kilonova.local.apimachinery.patch.errors import malformed_patch
from kilonova.local.apimachinery.patch.values import deep_copy, go_json_kind


def merge_patch(document: JsonObject, patch: Any) -> JsonObject:
    """The document with the patch merged into it; null removes a key.

    The result shares with the document what the patch does not change: the caller must not use the
    document afterwards.
    """
    if patch is None:
        raise malformed_patch("Invalid JSON Patch")
    if not isinstance(patch, dict):
        raise malformed_patch(
            f"error decoding patch: json: cannot unmarshal {go_json_kind(patch)} into Go value of "
            "type map[string]interface {}"
        )
    return _merge(document, cast(JsonObject, patch))


def _merge(document: JsonObject, patch: JsonObject) -> JsonObject:
    result = {key: value for key, value in document.items() if key not in patch}
    for key, value in patch.items():
        if value is None:
            continue
        old = document.get(key)
        if not isinstance(old, dict):
            result[key] = _strip_nulls(value)
        elif isinstance(value, dict):
            result[key] = _merge(cast(JsonObject, old), cast(JsonObject, value))
        else:
            result[key] = deep_copy(value)
    return result


def _strip_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        mapping = cast(JsonObject, value)
        return {key: _strip_nulls(item) for key, item in mapping.items() if item is not None}
    if isinstance(value, list):
        return [_strip_nulls(item) for item in cast("list[Any]", value)]
    return value
