"""Comparison and hashing of pod templates. Pure."""

from typing import Any, cast

import msgspec

from kilonova.api.json import JsonObject
from kilonova.local.apimachinery.unstructured import nested_object

TEMPLATE_HASH = "pod-template-hash"

_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_MAPS = frozenset(
    {"labels", "annotations", "nodeSelector", "limits", "requests", "overhead", "matchLabels"}
)
"""Fields for which empty equals absent; others are objects whose presence has a meaning."""


def is_same_template(one: JsonObject, other: JsonObject) -> bool:
    """Whether two templates are equal, ignoring the pod-template-hash label."""
    return _normalize_template(one) == _normalize_template(other)


def compute_template_hash(template: JsonObject, collisions: int | None) -> str:
    """The hash of a template; another one for each collision count."""
    return _safe_fnv_hash(
        msgspec.json.encode(_normalize_template(template), order="deterministic"), collisions
    )


def compute_data_hash(data: JsonObject, collisions: int | None) -> str:
    """The hash of a revision's data."""
    return _safe_fnv_hash(msgspec.json.encode(data, order="deterministic"), collisions)


def add_labels(template: JsonObject, labels: dict[str, str]) -> JsonObject:
    """The template with these labels added."""
    metadata = nested_object(template, "metadata")
    return {
        **template,
        "metadata": {**metadata, "labels": {**nested_object(metadata, "labels"), **labels}},
    }


def _normalize_template(template: JsonObject) -> JsonObject:
    metadata = nested_object(template, "metadata")
    labels = {
        key: value
        for key, value in nested_object(metadata, "labels").items()
        if key != TEMPLATE_HASH
    }
    plain: JsonObject = _drop_empty_values({**template, "metadata": {**metadata, "labels": labels}})
    return plain


def _drop_empty_values(value: Any) -> Any:
    if isinstance(value, dict):
        items = cast("JsonObject", value).items()
        return {
            name: _drop_empty_values(item)
            for name, item in items
            if not (item is None or item == [] or (item == {} and name in _MAPS))
        }
    if isinstance(value, list):
        return [_drop_empty_values(item) for item in cast("list[Any]", value)]
    return value


def _safe_fnv_hash(data: bytes, collisions: int | None) -> str:
    """32-bit FNV-1, in an alphabet without vowels."""
    value = 0x811C9DC5
    for byte in data + (b"" if collisions is None else str(collisions).encode()):
        value = (value * 0x01000193 & 0xFFFFFFFF) ^ byte
    return "".join(_ALPHABET[ord(digit) % len(_ALPHABET)] for digit in str(value))
