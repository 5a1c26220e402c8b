"""Pod templates: are two the same, and a short name for one. Pure."""

from typing import Any, cast

import msgspec

from kilonova.api.json import JsonObject
from kilonova.local.kinds.walk import part

TEMPLATE_HASH = "pod-template-hash"

_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_MAPS = frozenset(
    {"labels", "annotations", "nodeSelector", "limits", "requests", "overhead", "matchLabels"}
)
"""Fields that are the same empty as absent; others are objects, whose presence says something."""


def same_template(one: JsonObject, other: JsonObject) -> bool:
    """Whether two templates make the same pods; the label that Deployments add is left out."""
    return _bare(one) == _bare(other)


def template_hash(template: JsonObject, collisions: int | None) -> str:
    """A short text that stands for a template; another one for each number of collisions."""
    return _short(msgspec.json.encode(_bare(template), order="deterministic"), collisions)


def data_hash(data: JsonObject, collisions: int | None) -> str:
    """A short text that stands for the data of a revision."""
    return _short(msgspec.json.encode(data, order="deterministic"), collisions)


def with_labels(template: JsonObject, labels: dict[str, str]) -> JsonObject:
    """The template with these labels as well."""
    metadata = part(template, "metadata")
    return {
        **template,
        "metadata": {**metadata, "labels": {**part(metadata, "labels"), **labels}},
    }


def _bare(template: JsonObject) -> JsonObject:
    metadata = part(template, "metadata")
    labels = {key: value for key, value in part(metadata, "labels").items() if key != TEMPLATE_HASH}
    plain: JsonObject = _without_nothing({**template, "metadata": {**metadata, "labels": labels}})
    return plain


def _without_nothing(value: Any) -> Any:
    if isinstance(value, dict):
        items = cast("JsonObject", value).items()
        return {
            name: _without_nothing(item)
            for name, item in items
            if not (item is None or item == [] or (item == {} and name in _MAPS))
        }
    if isinstance(value, list):
        return [_without_nothing(item) for item in cast("list[Any]", value)]
    return value


def _short(data: bytes, collisions: int | None) -> str:
    """FNV-1 of 32 bits, in letters that make no words."""
    value = 0x811C9DC5
    for byte in data + (b"" if collisions is None else str(collisions).encode()):
        value = (value * 0x01000193 & 0xFFFFFFFF) ^ byte
    return "".join(_ALPHABET[ord(digit) % len(_ALPHABET)] for digit in str(value))
