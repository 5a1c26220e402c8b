"""Schemas of the built-in kinds, from the generated table.

The table is unpacked when the first schema is asked for, a definition is decoded when a
schema refers to it, and every schema shares the definitions that are read.
"""

from functools import cache

import msgspec

from kilonova.api.json import JsonObject
from kilonova.local.data import table
from kilonova.local.schema.node import Definitions, Schema, read

OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"


def builtin_schema(group: str, version: str, kind: str) -> Schema:
    """The schema of a built-in kind; `KeyError` if there is none of that name."""
    return _definitions()[_table().kinds[f"{group}/{version}/{kind}"]]


def definition_schema(name: str) -> Schema:
    """The schema of a definition by its name under `components.schemas`."""
    return _definitions()[name]


def definition_source(name: str) -> JsonObject:
    """The OpenAPI text of a definition, without descriptions; newly decoded at each call."""
    return msgspec.json.decode(_table().definitions[name])


def definition_of(group: str, version: str, kind: str) -> str | None:
    """The name of the definition of a built-in kind."""
    return _table().kinds.get(f"{group}/{version}/{kind}")


def custom_schema(source: JsonObject) -> Schema:
    """The schema of a custom kind, from the `openAPIV3Schema` of its definition.

    The root and every embedded resource gain what each object has and no author writes:
    apiVersion, kind and metadata. `source` stays as written.
    """
    root = read(source)
    _complete(root)
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if node.embedded_resource:
            _complete(node)
        waiting.extend(child for child in node.properties.values() if not child.definition)
        waiting.extend(child for child in (node.items, node.additional) if child is not None)
    return root


def _complete(node: Schema) -> None:
    for name in ("apiVersion", "kind"):
        node.properties.setdefault(name, Schema(type="string"))
    node.properties["metadata"] = definition_schema(OBJECT_META)


class _Table(msgspec.Struct):
    kinds: dict[str, str]  # "group/version/kind" to the name of its definition
    definitions: dict[str, msgspec.Raw]


@cache
def _table() -> _Table:
    return msgspec.json.decode(table("schemas.json.gz"), type=_Table)


@cache
def _definitions() -> Definitions:
    return Definitions(definition_source)
