"""Validation of a custom kind's schema: forbidden keywords, and list and map types."""

from collections.abc import Iterator
from typing import cast

from kilonova.api.json import JsonObject
from kilonova.local.apimachinery.errors import (
    FieldError,
    forbidden_value,
    invalid_value,
    not_supported_value,
    required_value,
)

_TYPES = ("array", "boolean", "integer", "number", "object", "string")
_UNSUPPORTED = (
    "id",
    "additionalItems",
    "patternProperties",
    "definitions",
    "dependencies",
    "$ref",
)
_META_FIELDS = ("apiVersion", "kind", "metadata")
_LIST = "x-kubernetes-list-type"
_KEYS = "x-kubernetes-list-map-keys"
_MAP = "x-kubernetes-map-type"


def validate_schema(source: JsonObject, path: str) -> list[FieldError]:
    """All errors of this kind in the schema and all schemas inside."""
    return list(_validate_nested(source, path, is_root=True))


def _validate_nested(
    source: JsonObject, path: str, *, is_root: bool = False, no_defaults: str = ""
) -> Iterator[FieldError]:
    yield from _validate_node(source, path, no_defaults)
    additional = source.get("additionalProperties")
    properties: dict[str, JsonObject] = source.get("properties") or {}
    if additional is not None and additional is not True and properties:
        yield forbidden_value(
            f"{path}.additionalProperties",
            "additionalProperties and properties are mutual exclusive",
        )
    if isinstance(additional, dict):
        yield from _validate_nested(
            cast(JsonObject, additional), f"{path}.additionalProperties", no_defaults=no_defaults
        )
    for name, child in properties.items():
        detail = f"in top-level {name}" if is_root and name in _META_FIELDS else no_defaults
        yield from _validate_nested(child, f"{path}.properties[{name}]", no_defaults=detail)
    for key in ("not", "items"):
        if isinstance(source.get(key), dict):
            yield from _validate_nested(source[key], f"{path}.{key}", no_defaults=no_defaults)
    for key in ("allOf", "oneOf", "anyOf"):
        for index, child in enumerate(cast(list[JsonObject], source.get(key) or [])):
            yield from _validate_nested(child, f"{path}.{key}[{index}]", no_defaults=no_defaults)
    yield from _validate_list_and_map_types(source, path)


def _validate_node(source: JsonObject, path: str, no_defaults: str) -> Iterator[FieldError]:
    kind: str = source.get("type", "")
    if kind and kind not in _TYPES:
        yield not_supported_value(f"{path}.type", kind, list(_TYPES))
    if kind == "null":
        yield forbidden_value(
            f"{path}.type", "type cannot be set to null, use nullable as an alternative"
        )
    if no_defaults and source.get("default") is not None:
        yield forbidden_value(f"{path}.default", f"must not be set {no_defaults}")
    for key in _UNSUPPORTED:
        if source.get(key) not in (None, "", {}):
            yield forbidden_value(f"{path}.{key}", f"{key} is not supported")
    if isinstance(source.get("items"), list):
        yield forbidden_value(f"{path}.items", "items must be a schema object and not an array")
    if source.get("uniqueItems"):
        yield forbidden_value(
            f"{path}.uniqueItems",
            "uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
        )
    if source.get("x-kubernetes-preserve-unknown-fields") is False:
        field_path = f"{path}.x-kubernetes-preserve-unknown-fields"
        yield invalid_value(field_path, False, "must be true or undefined")


def _validate_list_and_map_types(source: JsonObject, path: str) -> Iterator[FieldError]:
    list_type, map_type = source.get(_LIST), source.get(_MAP)
    if map_type is not None:
        yield from _require_type("object", source, path, _MAP)
        if map_type not in ("atomic", "granular"):
            yield _unsupported_error(f"{path}.{_MAP}", map_type, ("atomic", "granular"))
    items = cast(JsonObject, source["items"]) if isinstance(source.get("items"), dict) else None
    if list_type is not None:
        yield from _require_type("array", source, path, _LIST)
        if list_type == "set" and source.get("type") == "array" and items is not None:
            yield from _validate_set_items(items, f"{path}.items")
        if list_type not in ("atomic", "set", "map"):
            yield _unsupported_error(f"{path}.{_LIST}", list_type, ("atomic", "set", "map"))
    keys: list[str] = source.get(_KEYS) or []
    if keys and list_type != "map":
        detail = f"must be map if {_KEYS} is non-empty"
        field_path = f"{path}.{_LIST}"
        yield (
            required_value(field_path, detail)
            if list_type is None
            else invalid_value(field_path, list_type, detail)
        )
    if list_type == "map":
        yield from _validate_map_items(items, keys, path)
    if list_type in ("set", "map") and items is not None and items.get("nullable"):
        yield forbidden_value(
            f"{path}.items.nullable", f"cannot be nullable when {_LIST} is {list_type}"
        )


def _require_type(
    expected: str, source: JsonObject, path: str, extension: str
) -> Iterator[FieldError]:
    found: str = source.get("type", "")
    if found != expected:
        detail = f"must be {expected} if {extension} is specified"
        field_path = f"{path}.type"
        yield (
            invalid_value(field_path, found, detail)
            if found
            else required_value(field_path, detail)
        )


def _validate_set_items(items: JsonObject, path: str) -> Iterator[FieldError]:
    detail = "must be atomic as item of a list with x-kubernetes-list-type=set"
    if items.get("type") == "array" and items.get(_LIST, "atomic") != "atomic":
        yield invalid_value(f"{path}.{_LIST}", items.get(_LIST), detail)
    if items.get("type") == "object" and items.get(_MAP) != "atomic":
        yield invalid_value(f"{path}.{_MAP}", items.get(_LIST), detail)


def _validate_map_items(
    items: JsonObject | None, keys: list[str], path: str
) -> Iterator[FieldError]:
    if not keys:
        yield required_value(f"{path}.{_KEYS}", f"must not be empty if {_LIST} is map")
    if items is None:
        yield required_value(f"{path}.items", f"must have a schema if {_LIST} is map")
        return
    if items.get("type") != "object":
        detail = f"must be object if parent array's {_LIST} is map"
        yield invalid_value(f"{path}.items.type", items.get("type", ""), detail)
        return
    properties: dict[str, JsonObject] = items.get("properties") or {}
    for index, key in enumerate(keys):
        found = properties.get(key)
        if found is None:
            detail = "entries must all be names of item properties"
            yield invalid_value(f"{path}.{_KEYS}", keys, detail)
        elif found.get("type") in ("array", "object"):
            detail = f"must be a scalar type if parent array's {_LIST} is map"
            yield invalid_value(f"{path}.items.properties[{key}].type", "object", detail)
        if key in keys[:index]:
            yield invalid_value(f"{path}.{_KEYS}", keys, "must not contain duplicate entries")
    yield from _validate_map_keys(items, keys, f"{path}.items")


def _validate_map_keys(items: JsonObject, keys: list[str], path: str) -> Iterator[FieldError]:
    """A key must be required or have a default, and must not be nullable."""
    properties: dict[str, JsonObject] = items.get("properties") or {}
    for key in (key for key in keys if key in properties):
        found = properties[key]
        field_path = f"{path}.properties[{key}]"
        if key not in (items.get("required") or []) and found.get("default") is None:
            yield required_value(
                f"{field_path}.default",
                "this property is in x-kubernetes-list-map-keys, so it must have a default or be "
                "a required property",
            )
        if found.get("nullable"):
            yield forbidden_value(
                f"{field_path}.nullable",
                "this property is in x-kubernetes-list-map-keys, so it cannot be nullable",
            )


def _unsupported_error(path: str, value: str, allowed: tuple[str, ...]) -> FieldError:
    values = ", ".join(f'"{item}"' for item in allowed)
    detail = f'Unsupported value: "{value}": supported values: {values}'
    return FieldError(path, "FieldValueNotSupported", detail)
