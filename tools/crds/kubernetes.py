"""Types of Kubernetes' own API as structural schemas, without references.

They come from the table of built-in kinds (`tools.schemas.generate`), without descriptions: with
them a CRD that contains a PodSpec is too big for client-side `kubectl apply`. Defaults are omitted
too, because the pod is defaulted at its creation, except those of list map keys, without which a
list could not be merged.
"""

import json
from functools import cache
from typing import Any

from kilonova.api.json import JsonObject
from kilonova.local.data import table

_REFERENCE = "#/components/schemas/"
_META = "io.k8s.apimachinery.pkg.apis.meta.v1."

INT_OR_STRING: JsonObject = {
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    "x-kubernetes-int-or-string": True,
}
_QUANTITY: JsonObject = {
    **INT_OR_STRING,
    "pattern": r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)"
    r"([KMGTPE]i|[numkMGTPE]|[eE][+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+))?$",
}
_STRING_MAP: JsonObject = {"type": "object", "additionalProperties": {"type": "string"}}
_TEMPLATE_METADATA: JsonObject = {
    "type": "object",
    "properties": {
        "annotations": _STRING_MAP,
        "finalizers": {"type": "array", "items": {"type": "string"}},
        "labels": _STRING_MAP,
        "name": {"type": "string"},
        "namespace": {"type": "string"},
    },
}
_SPECIAL: dict[str, JsonObject] = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": _QUANTITY,
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": INT_OR_STRING,
    "io.k8s.apimachinery.pkg.runtime.RawExtension": {
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
    },
    _META + "ObjectMeta": _TEMPLATE_METADATA,
}
_KEPT_KEYWORDS = frozenset(
    {
        "type",
        "format",
        "required",
        "x-kubernetes-list-map-keys",
        "x-kubernetes-list-type",
        "x-kubernetes-map-type",
    }
)
_OMITTED_FIELDS = frozenset(
    {
        "default",
        "x-kubernetes-patch-merge-key",
        "x-kubernetes-patch-strategy",
        "x-kubernetes-unions",
    }
)


@cache
def get_kubernetes_schema(name: str) -> JsonObject:
    """The schema of a definition such as `io.k8s.api.core.v1.PodSpec`."""
    return _SPECIAL[name] if name in _SPECIAL else _to_structural(_load_definitions()[name])


def _to_structural(schema: JsonObject) -> JsonObject:
    result: JsonObject = {}
    for key, value in schema.items():
        if key == "$ref":
            result |= get_kubernetes_schema(value.removeprefix(_REFERENCE))
        elif key == "allOf":
            (only,) = value
            result |= _to_structural(only)
        elif key == "properties":
            result[key] = {name: _to_structural(each) for name, each in value.items()}
        elif key in ("items", "additionalProperties"):
            result[key] = _to_structural(value)
        elif key in _KEPT_KEYWORDS:
            result[key] = value
        elif key not in _OMITTED_FIELDS:
            raise ValueError(f"unknown schema keyword {key!r}: decide whether CRDs need it")
    return _add_list_keys(result, schema)


def _add_list_keys(result: JsonObject, schema: JsonObject) -> JsonObject:
    """A list whose elements may omit their key, with the key's default."""
    keys: list[str] = result.get("x-kubernetes-list-map-keys", [])
    if not keys:
        return result
    items: JsonObject = result["items"]
    properties: dict[str, Any] = dict(items["properties"])
    for key in keys:
        if key not in items.get("required", []):
            properties[key] = {**properties[key], "default": _get_key_default(schema["items"], key)}
    return {**result, "items": {**items, "properties": properties}}


def _get_key_default(items: JsonObject, key: str) -> Any:
    (only,) = items["allOf"]
    return _load_definitions()[only["$ref"].removeprefix(_REFERENCE)]["properties"][key]["default"]


@cache
def _load_definitions() -> dict[str, JsonObject]:
    return json.loads(table("schemas.json.gz"))["definitions"]
