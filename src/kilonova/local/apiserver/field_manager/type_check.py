"""Validation of an applied object against its schema, with Kubernetes' messages."""

from typing import Any, TypeAlias

from kilonova.api.json import JsonObject
from kilonova.local.apimachinery.errors import ApiError
from kilonova.local.apimachinery.patch.values import format_go_value, go_type
from kilonova.local.apiserver.field_manager.list_items import ListItemError
from kilonova.local.apiserver.field_manager.merge_schema import MergeSchema
from kilonova.local.apiserver.field_manager.path_elements import format_element


def check_applied_object(schema: MergeSchema, applied: JsonObject) -> None:
    """Raise Kubernetes' error if the object does not match the merge schema."""
    messages = [
        f"{path}: {text}" if path else text for path, text in _find_problems(schema, applied)
    ]
    if not messages:
        return
    summary = messages[0] if len(messages) == 1 else "\n  ".join(["errors:", *messages])
    raise schema_mismatch_error("patch", applied, summary)


def schema_mismatch_error(source: str, obj: JsonObject, detail: str) -> ApiError:
    """The error for an object, the "patch" or the "live" one, that does not match its schema."""
    return ApiError(
        500, "", f"failed to create typed {source} object ({_describe_object(obj)}): {detail}"
    )


def _describe_object(obj: JsonObject) -> str:
    metadata: JsonObject = obj.get("metadata") or {}
    version = str(obj.get("apiVersion", ""))
    qualified = version if "/" in version else f"/{version}"
    return (
        f"{metadata.get('namespace', '')}/{metadata.get('name', '')}; "
        f"{qualified}, Kind={obj.get('kind', '')}"
    )


_Problems: TypeAlias = list[tuple[str, str]]
"""Paths and error messages."""

_NONE: _Problems = []


def _find_problems(schema: MergeSchema, value: Any) -> _Problems:
    kind = value.__class__
    if kind is dict:
        if schema.is_map:
            return _validate_map(schema, value)
    elif kind is list:
        if schema.is_list:
            return _validate_list(schema, value)
    elif value is None or (schema.is_scalar and kind in _ACCEPTED[schema.scalar_type]):
        return _NONE
    return [("", _mismatch_message(schema, value))]


def _validate_map(schema: MergeSchema, value: JsonObject) -> _Problems:
    found: _Problems = _NONE
    elements = schema.elements
    for name, item in value.items():
        element, child = elements[name]
        # Elements are cached for declared fields only.
        if name not in elements and not schema.allows_undeclared:
            return [*found, (format_element(element), "field not declared in schema")]
        if problems := _find_problems(child, item):
            found = [*found, *((format_element(element) + path, text) for path, text in problems)]
    return found


def _validate_list(schema: MergeSchema, items: list[Any]) -> _Problems:
    found: _Problems = []
    seen: set[str] = set()
    for position, item in enumerate(items):
        element = f"i:{position}"
        if schema.associative:
            try:
                element = schema.item_element(item)
            except ListItemError as error:
                return [*found, ("", f"element {position}: {error}")]
            if element in seen:
                found.append(("", f"duplicate entries for key {format_element(element)}"))
            seen.add(element)
        if problems := _find_problems(schema.item_schema, item):
            found += [(format_element(element) + path, text) for path, text in problems]
    return found


_ACCEPTED: dict[str, frozenset[type]] = {
    "numeric": frozenset({int, float}),
    "string": frozenset({str}),
    "boolean": frozenset({bool}),
    "": frozenset({int, float, str, bool}),
}


def _mismatch_message(schema: MergeSchema, value: Any) -> str:
    """The message for a value of a type that the merge schema does not allow."""
    if schema.is_map:
        return f"expected map, got &{{{format_go_value(value)}}}"
    if not schema.is_scalar:
        return f"expected list, got &{{{format_go_value(value)}}}"
    match schema.scalar_type:
        case "numeric":
            return f"expected numeric (int or float), got {go_type(value)}"
        case "string":
            return (
                f"expected string, got &value.valueUnstructured{{Value:{format_go_value(value)}}}"
            )
        case "boolean":
            return f"expected boolean, got &{{{format_go_value(value)}}}"
        case _:
            return f"expected any scalar, got &{{{format_go_value(value)}}}"
