"""The schema of a type, from its annotations, markers and docstrings.

Markers are msgspec's `Meta(…)`; in addition, `extra` may contain
- `format`, `default`: as in the schema;
- `maximum`: checked on writes, not when decoding;
- `required`: the field is required, although the type has a default;
- `kubernetes`, `kubernetes items`: a definition of Kubernetes' own to be used here;
- `int or string`, `duration`: a number or percentage, a duration;
- `amount`: a non-negative quantity;
- `list` and `keys`: how elements of a list are merged.
"""

from collections.abc import Iterable
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec
from msgspec import Meta
from msgspec.structs import FieldInfo

from kilonova.api.json import JsonObject
from kilonova.api.meta import Condition
from kilonova.api.validation_rules import ValidationRule
from tools.crds.docstrings import get_field_description, get_type_description
from tools.crds.kubernetes import INT_OR_STRING, get_kubernetes_schema

_SCALARS: dict[Any, JsonObject] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer", "format": "int64"},
    float: {"type": "number", "format": "double"},
}
_DURATION = r"^[+-]?(0|(([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|ms|s|m|h))+)$"
_PERCENTAGE = r"^[0-9]+%$"
_QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
_MAX_QUANTITY_LENGTH = 64
"""Bounds the estimated cost of CEL rules that read many of them."""
_CONDITION: JsonObject = {
    "type": "object",
    "description": "Something that holds of the object, or does not, and since when.",
    "required": ["lastTransitionTime", "message", "reason", "status", "type"],
    "properties": {
        "lastTransitionTime": {"type": "string", "format": "date-time"},
        "message": {"type": "string", "maxLength": 32768},
        "observedGeneration": {"type": "integer", "format": "int64", "minimum": 0},
        "reason": {
            "type": "string",
            "minLength": 1,
            "maxLength": 1024,
            "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
        },
        "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
        "type": {"type": "string", "maxLength": 316},
    },
}
"""The schema of metav1.Condition."""


def build_object_schema(cls: type[msgspec.Struct], *, exclude: Iterable[str] = ()) -> JsonObject:
    """The schema of a type's objects, without the excluded fields."""
    fields = [each for each in msgspec.structs.fields(cls) if each.encode_name not in exclude]
    schema: JsonObject = {
        "type": "object",
        "description": get_type_description(cls),
        "properties": {each.encode_name: _build_field_schema(cls, each) for each in fields},
    }
    required = [each.encode_name for each in fields if _is_required(each)]
    if required:
        schema["required"] = sorted(required)
    rules: tuple[ValidationRule, ...] = getattr(cls, "RULES", ())
    if rules:
        schema["x-kubernetes-validations"] = [msgspec.to_builtins(each) for each in rules]
    return schema


def _build_field_schema(cls: type, field: FieldInfo) -> JsonObject:
    schema = _build_schema(field.type)
    text = get_field_description(cls, field.name) or schema.get("items", schema).get(
        "description", ""
    )
    return {**schema, "description": text} if text else schema


def _is_required(field: FieldInfo) -> bool:
    _, metas = _split_annotation(field.type)
    return field.required or any((each.extra or {}).get("required") for each in metas)


def _build_schema(annotation: Any) -> JsonObject:
    bare, metas = _split_annotation(annotation)
    extra = {key: value for each in metas for key, value in (each.extra or {}).items()}
    schema = _build_bare_schema(bare, extra)
    for meta in metas:
        schema |= _apply_limits(meta, schema)
    for key in ("format", "default", "maximum"):
        if key in extra:
            schema[key] = extra[key]
    if "list" in extra:
        schema["x-kubernetes-list-type"] = extra["list"]
    if "keys" in extra:
        schema["x-kubernetes-list-map-keys"] = extra["keys"]
    return schema


def _build_bare_schema(bare: Any, extra: dict[str, Any]) -> JsonObject:
    if "kubernetes" in extra:
        return dict(get_kubernetes_schema(extra["kubernetes"]))
    if "kubernetes items" in extra:
        return {"type": "array", "items": get_kubernetes_schema(extra["kubernetes items"])}
    if "int or string" in extra:
        return {**INT_OR_STRING, "minimum": 0, "pattern": _PERCENTAGE}
    if "amount" in extra:
        return _build_unsigned_quantity_schema()
    if "duration" in extra:
        return {"type": "string", "pattern": _DURATION}
    if bare in _SCALARS:
        return dict(_SCALARS[bare])
    origin, arguments = get_origin(bare), get_args(bare)
    if origin is Literal:
        return {"type": "string", "enum": list(arguments)}
    if origin is tuple:
        return _build_list_schema(arguments[0])
    if origin is dict:
        return {"type": "object", "additionalProperties": _build_schema(arguments[1])}
    if isinstance(bare, type) and issubclass(bare, msgspec.Struct):
        return build_object_schema(bare)
    raise TypeError(f"no schema for type {bare!r}")


def _build_unsigned_quantity_schema() -> JsonObject:
    quantity = get_kubernetes_schema(_QUANTITY)
    unsigned = quantity["pattern"].replace("[+-]?", r"\+?", 1)
    return {**quantity, "pattern": unsigned, "minimum": 0, "maxLength": _MAX_QUANTITY_LENGTH}


def _build_list_schema(element: Any) -> JsonObject:
    if element is Condition:
        keys = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}
        return {"type": "array", "items": _CONDITION, **keys}
    return {"type": "array", "items": _build_schema(element)}


def _apply_limits(meta: Meta, schema: JsonObject) -> JsonObject:
    counted = {"array": "Items", "object": "Properties"}.get(schema.get("type", ""), "Length")
    named = {
        "minimum": meta.ge,
        "maximum": meta.le,
        "pattern": meta.pattern,
        f"min{counted}": meta.min_length,
        f"max{counted}": meta.max_length,
    }
    return {name: value for name, value in named.items() if value is not None}


def _split_annotation(annotation: Any) -> tuple[Any, list[Meta]]:
    """The type without markers and without None, and the markers."""
    metas: list[Meta] = []
    while True:
        origin, arguments = get_origin(annotation), get_args(annotation)
        if origin is Annotated:
            metas += [each for each in arguments[1:] if isinstance(each, Meta)]
            annotation = arguments[0]
        elif origin in (Union, UnionType) and NoneType in arguments:
            present = tuple(each for each in arguments if each is not NoneType)
            annotation = Union[present]  # noqa: UP007  # made from values
        else:
            return annotation, metas
