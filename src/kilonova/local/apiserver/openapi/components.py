"""The component schemas of a document, with descriptions."""

from collections.abc import Iterator
from copy import deepcopy
from functools import cache
from typing import Any, cast

import msgspec

from kilonova.api.json import JsonObject
from kilonova.local.apiserver.kinds.kind import Kind
from kilonova.local.apiserver.schema.builtin import (
    OBJECT_META,
    builtin_definition_name,
    definition_source,
)
from kilonova.local.data import table

REFERENCE = "#/components/schemas/"
_META = "io.k8s.apimachinery.pkg.apis.meta.v1."
DELETE_OPTIONS = _META + "DeleteOptions"
PATCH = _META + "Patch"
STATUS = _META + "Status"
_LIST_META = _META + "ListMeta"
_COMMON_DEFINITIONS = (DELETE_OPTIONS, _META + "WatchEvent")
_GVK = "x-kubernetes-group-version-kind"


def components(group: str, version: str, kinds: list[Kind]) -> JsonObject:
    """Every definition that the kinds of this group-version reference, by name."""
    schemas: JsonObject = {}
    roots = [DELETE_OPTIONS, PATCH, STATUS, _META + "WatchEvent"]
    for kind in kinds:
        if kind.is_custom:
            schemas[definition_name(kind)] = _custom_resource_schema(kind)
            schemas[definition_name(kind, listed=True)] = _custom_list_schema(kind)
        else:
            roots += _builtin_roots(kind)
        roots += [
            name
            for each in kind.subresources.values()
            if (name := builtin_definition_name(each.group, each.version, each.kind))
        ]
    waiting = [*roots, *(name for schema in schemas.values() for name in _references(schema))]
    while waiting:
        name = waiting.pop()
        if name not in schemas:
            schemas[name] = _with_descriptions(name)
            waiting.extend(_references(schemas[name]))
    if group:
        for name in _COMMON_DEFINITIONS:
            schemas[name][_GVK].append(
                {"group": group, "version": version, "kind": name.rpartition(".")[2]}
            )
    return dict(sorted(schemas.items()))


def definition_name(kind: Kind, *, listed: bool = False) -> str:
    """The schema name of a kind (or of its list): `dev.example.v1.Foo`."""
    name = _list_kind(kind) if listed else kind.kind
    if not kind.is_custom:
        return builtin_definition_name(kind.group, kind.version, name) or ""
    return ".".join([*reversed(kind.group.split(".")), kind.version, name])


def _builtin_roots(kind: Kind) -> list[str]:
    names = (kind.kind, _list_kind(kind))
    found = (builtin_definition_name(kind.group, kind.version, name) for name in names)
    return [name for name in found if name]


def _list_kind(kind: Kind) -> str:
    return kind.list_kind or f"{kind.kind}List"


def _with_descriptions(name: str) -> JsonObject:
    schema = definition_source(name)
    texts = _descriptions()[name]
    if "" in texts:
        schema["description"] = texts[""]
    for field, child in schema.get("properties", {}).items():
        if field in texts:
            child["description"] = texts[field]
    return schema


def _custom_resource_schema(kind: Kind) -> JsonObject:
    schema: JsonObject = deepcopy(kind.schema.source) or {
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
    }
    _add_embedded_fields(schema)
    _add_object_fields(schema)
    schema[_GVK] = [{"group": kind.group, "version": kind.version, "kind": kind.kind}]
    return schema


def _add_embedded_fields(schema: JsonObject) -> None:
    for child in _children(schema):
        _add_embedded_fields(child)
        if child.get("x-kubernetes-embedded-resource"):
            _add_object_fields(child)


def _children(schema: JsonObject) -> list[JsonObject]:
    inside = [schema.get("items"), schema.get("additionalProperties")]
    inside += (schema.get("properties") or {}).values()
    return [cast(JsonObject, child) for child in inside if isinstance(child, dict)]


def _add_object_fields(schema: JsonObject) -> None:
    """Add apiVersion, kind and metadata."""
    texts = _descriptions()["io.k8s.api.core.v1.ConfigMap"]
    properties: JsonObject = {
        name: {"description": texts[name], "type": "string"} for name in ("apiVersion", "kind")
    }
    properties["metadata"] = _reference(OBJECT_META, texts["metadata"])
    schema["properties"] = {**(schema.get("properties") or {}), **properties}


def _custom_list_schema(kind: Kind) -> JsonObject:
    texts = _descriptions()["io.k8s.api.core.v1.ConfigMapList"]
    name = _list_kind(kind)
    item = {"$ref": REFERENCE + definition_name(kind)}
    return {
        "description": f"{name} is a list of {kind.kind}",
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": {"description": texts["apiVersion"], "type": "string"},
            "items": {"description": f"List of {kind.plural}.", "type": "array", "items": item},
            "kind": {"description": texts["kind"], "type": "string"},
            "metadata": _reference(_LIST_META, texts["metadata"]),
        },
        _GVK: [{"group": kind.group, "version": kind.version, "kind": name}],
    }


def _reference(name: str, description: str) -> JsonObject:
    return {"description": description, "allOf": [{"$ref": REFERENCE + name}]}


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in cast(JsonObject, value).items():
            if key == "$ref" and isinstance(inner, str):
                yield inner.removeprefix(REFERENCE)
            else:
                yield from _references(inner)
    elif isinstance(value, list):
        for inner in cast(list[Any], value):
            yield from _references(inner)


@cache
def _descriptions() -> dict[str, dict[str, str]]:
    return msgspec.json.decode(table("descriptions.json.gz"))
