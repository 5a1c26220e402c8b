"""JSON merge patch (RFC 7386), with the habits of the library that Kubernetes uses.

It differs from the RFC in lists: nulls in objects inside a list that the patch brings are
dropped as well, unless the list takes the place of an object.
"""

from typing import Any, cast

from kilonova.api.json import JsonObject
from kilonova.local.patch.errors import malformed
from kilonova.local.patch.values import copied, go_kind


def merge_patch(document: JsonObject, patch: Any) -> JsonObject:
    """The document with the patch laid over it; null removes a key.

    The result shares with the document what the patch does not touch: the caller gives it up.
    """
    if patch is None:
        raise malformed("Invalid JSON Patch")
    if not isinstance(patch, dict):
        raise malformed(
            f"error decoding patch: json: cannot unmarshal {go_kind(patch)} into Go value of "
            "type map[string]interface {}"
        )
    return _merged(document, cast(JsonObject, patch))


def _merged(document: JsonObject, patch: JsonObject) -> JsonObject:
    result = {key: value for key, value in document.items() if key not in patch}
    for key, value in patch.items():
        if value is None:
            continue
        old = document.get(key)
        if not isinstance(old, dict):
            result[key] = _without_nulls(value)
        elif isinstance(value, dict):
            result[key] = _merged(cast(JsonObject, old), cast(JsonObject, value))
        else:
            result[key] = copied(value)
    return result


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        mapping = cast(JsonObject, value)
        return {key: _without_nulls(item) for key, item in mapping.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in cast("list[Any]", value)]
    return value
