"""Schemas of the built-in kinds, from the generated table.

The table is loaded when the first schema is used, a definition is decoded when a schema refers to
it, and all schemas share their definitions.
"""

from functools import cache

import msgspec

from kilonova.api.json import JsonObject
from kilonova.local.apiserver.schema.node import Schema, SchemaDefinitions, parse_schema
from kilonova.local.data import table

OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"


def builtin_schema(group: str, version: str, kind: str) -> Schema:
    """The schema of a built-in kind; `KeyError` if there is none."""
    return _definitions()[_schema_table().kinds[f"{group}/{version}/{kind}"]]


def definition_schema(name: str) -> Schema:
    """The schema of a definition by its name under `components.schemas`."""
    return _definitions()[name]


def definition_source(name: str) -> JsonObject:
    """The OpenAPI source of a definition, without descriptions; decoded at each call."""
    return msgspec.json.decode(_schema_table().definitions[name])


def builtin_definition_name(group: str, version: str, kind: str) -> str | None:
    """The definition name of a built-in kind."""
    return _schema_table().kinds.get(f"{group}/{version}/{kind}")


def custom_schema(source: JsonObject) -> Schema:
    """The schema of a custom kind, from the `openAPIV3Schema` of its definition.

    apiVersion, kind and metadata are added to the root and to every embedded resource. `source` is
    not modified.
    """
    root = parse_schema(source)
    _add_type_meta(root)
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if node.embedded_resource:
            _add_type_meta(node)
        waiting.extend(child for child in node.properties.values() if not child.definition)
        waiting.extend(child for child in (node.items, node.additional) if child is not None)
    return root


def _add_type_meta(node: Schema) -> None:
    for name in ("apiVersion", "kind"):
        node.properties.setdefault(name, Schema(type="string"))
    node.properties["metadata"] = definition_schema(OBJECT_META)


class _Table(msgspec.Struct):
    kinds: dict[str, str]  # "group/version/kind" to the definition name
    definitions: dict[str, msgspec.Raw]


@cache
def _schema_table() -> _Table:
    return msgspec.json.decode(table("schemas.json.gz"), type=_Table)


@cache
def _definitions() -> SchemaDefinitions:
    return SchemaDefinitions(definition_source)
