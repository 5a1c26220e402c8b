"""Merge schemas: the parts of a schema that determine how values are owned and merged.

A value is a scalar, a map (objects with named fields and free-form maps alike) or a list; a merge
schema specifies which of the three are allowed. Maps are granular or atomic; lists are atomic, sets
of scalars, or keyed like maps (*associative*). A value without a schema is *deduced*: maps are
granular, lists atomic.

Merge schemas are compiled from a schema on first access, once, and cached with it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from kilonova.api.json import JsonObject
from kilonova.local.apiserver.field_manager.list_items import item_element_function
from kilonova.local.apiserver.field_manager.path_elements import field_element
from kilonova.local.apiserver.schema.node import Schema

_FIELDS = "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1"
_RAW_EXTENSION = "io.k8s.apimachinery.pkg.runtime.RawExtension"
_MAX_TEMPLATES = 256
_SCALARS = frozenset({"integer", "number", "string", "boolean"})


ObjectTemplate: TypeAlias = "tuple[JsonObject, tuple[tuple[str, str, MergeSchema], ...]]"
"""The branch of an object with certain fields, and those of its fields that may contain more: name,
path element and merge schema.
"""


def compile_merge_schema(schema: Schema) -> MergeSchema:
    """The merge schema of a kind, from the root of its schema."""
    known: MergeSchema | None = schema.merge_schema
    if known is None:
        known = schema.merge_schema = MergeSchema(schema, _MergeSchemaCompiler())
    return known


class MergeSchema:
    """How values of one schema node are split into fields; the module defines the terms."""

    __slots__ = (
        "_additional",
        "_compiler",
        "_declared",
        "_item",
        "_preserving",
        "_schema",
        "associative",
        "built_in",
        "contains_schemaless",
        "elements",
        "granular",
        "is_list",
        "is_map",
        "is_scalar",
        "is_split",
        "item_element",
        "list_type",
        "scalar_type",
        "templates",
    )

    def __init__(
        self, schema: Schema, compiler: _MergeSchemaCompiler, preserving: bool = False
    ) -> None:
        self._schema = schema
        self._compiler = compiler
        self._preserving = preserving or schema.preserve_unknown
        self._declared: dict[str, MergeSchema] = {}
        self._additional: MergeSchema | None = None
        self._item: MergeSchema | None = None
        is_untyped = not schema.type and not schema.int_or_string
        raw = schema.definition == _RAW_EXTENSION
        self.is_scalar = is_untyped or raw or schema.int_or_string or schema.type in _SCALARS
        self.is_map = is_untyped or raw or schema.type == "object"
        self.is_list = is_untyped or raw or schema.type == "array"
        self.granular = self.is_map and schema.map_type != "atomic" and not raw
        self.list_type = schema.list_type if self.is_list and not raw else "atomic"
        self.associative = self.list_type != "atomic"
        self.is_split = self.granular or self.associative
        self.scalar_type = _scalar_type(schema)
        self.built_in = bool(schema.definition)
        self.contains_schemaless = raw or compiler.contains_schemaless(schema)
        self.item_element: Callable[[Any], str] = item_element_function(schema)
        self.elements = _ElementsByName(self)
        self.templates = _ObjectTemplates(self)

    @property
    def is_scalar_map(self) -> bool:
        """Whether this is a map of arbitrary keys to values that are not split."""
        return not self._schema.properties and not self.additional_schema.is_split

    @property
    def allows_undeclared(self) -> bool:
        """Whether undeclared fields are allowed."""
        schema = self._schema
        return schema.additional is not None or self._preserving or not schema.properties

    def declares_field(self, name: str) -> bool:
        return name in self._schema.properties

    def field_schema(self, name: str) -> MergeSchema:
        """The merge schema of a field of a map, declared or not."""
        known = self._declared.get(name)
        if known is not None:
            return known
        declared = self._schema.properties.get(name)
        if declared is None:
            return self.additional_schema
        known = self._declared[name] = self._compiler.compile(declared, self._preserving)
        return known

    @property
    def additional_schema(self) -> MergeSchema:
        """The merge schema of undeclared fields."""
        if self._additional is None:
            additional = self._schema.additional
            if additional is None or additional.type == "" == additional.definition:
                self._additional = DEDUCED_SCHEMA
            else:
                self._additional = self._compiler.compile(additional, self._preserving)
        return self._additional

    @property
    def item_schema(self) -> MergeSchema:
        """The merge schema of list items."""
        if self._item is None:
            items = self._schema.items
            self._item = (
                DEDUCED_SCHEMA if items is None else self._compiler.compile(items, self._preserving)
            )
        return self._item

    def zero_object(self) -> JsonObject:
        """The fields that an object of a built-in kind has before any is set.

        Structs that are not pointers always exist in Go, and fields without omitempty always have
        their zero value: the creator of the object does not own either.
        """
        sources: JsonObject = self._schema.source.get("properties", {})
        found: JsonObject = {}
        for name, source in sources.items():
            default = source.get("default")
            if default == {}:
                found[name] = self.field_schema(name).zero_object()
            elif default in ("", 0, False) and "default" in source:
                found[name] = default
            elif name in self._schema.required and source.get("type") in ("array", "object"):
                found[name] = None
        return found


class _MergeSchemaCompiler:
    """Shares merge schemas between all uses of a schema node below one root."""

    def __init__(self) -> None:
        self._compiled: dict[tuple[int, bool], MergeSchema] = {}
        self._schemaless: dict[int, bool] = {}

    def compile(self, schema: Schema, preserving: bool) -> MergeSchema:
        # A definition does not inherit from the node that refers to it.
        key = (id(schema), preserving and not schema.definition)
        known = self._compiled.get(key)
        if known is None:
            known = self._compiled[key] = MergeSchema(schema, self, key[1])
        return known

    def contains_schemaless(self, schema: Schema) -> bool:
        """Whether a value may contain, at any depth, values without a schema.

        These may change from `1` to `true`, which Python's `==` compares equal.
        """
        if id(schema) not in self._schemaless:
            self._find_schemaless(schema)
        return self._schemaless[id(schema)]

    def _find_schemaless(self, root: Schema) -> None:
        nodes: dict[int, Schema] = {}
        parents: dict[int, list[int]] = {}
        waiting = [root]
        while waiting:
            node = waiting.pop()
            if id(node) in nodes:
                continue
            nodes[id(node)] = node
            for child in (*node.properties.values(), node.additional, node.items):
                if child is not None:
                    parents.setdefault(id(child), []).append(id(node))
                    waiting.append(child)
        reached = [key for key, node in nodes.items() if _is_schemaless_node(node)]
        schemaless = set(reached)
        while reached:
            for parent in parents.get(reached.pop(), ()):
                if parent not in schemaless:
                    schemaless.add(parent)
                    reached.append(parent)
        self._schemaless.update({key: key in schemaless for key in nodes})


def _is_schemaless_node(schema: Schema) -> bool:
    if schema.int_or_string or schema.definition == _FIELDS:
        return False
    if schema.preserve_unknown or not schema.type:
        return True
    return schema.type == "object" and not schema.properties and schema.additional is None


class _ElementsByName(dict[str, tuple[str, MergeSchema]]):
    """Field names to path elements and merge schemas; caches declared fields only."""

    def __init__(self, schema: MergeSchema) -> None:
        super().__init__()
        self._schema = schema

    def __missing__(self, name: str) -> tuple[str, MergeSchema]:
        pair = (field_element(name), self._schema.field_schema(name))
        if self._schema.declares_field(name):
            self[name] = pair
        return pair


class _ObjectTemplates(dict[tuple[str, ...], "ObjectTemplate | None"]):
    """Sets of field names, in any order, to the template for an object with exactly these.

    None if some are not declared: the number of such sets is unbounded.
    """

    def __init__(self, schema: MergeSchema) -> None:
        super().__init__()
        self._schema = schema

    def __missing__(self, names: tuple[str, ...]) -> ObjectTemplate | None:
        if not all(map(self._schema.declares_field, names)):
            return None
        pairs = [(name, *self._schema.elements[name]) for name in sorted(names)]
        branch: JsonObject = {".": {}, **{element: {} for _, element, _ in pairs}}
        template = (branch, tuple(pair for pair in pairs if pair[2].is_split))
        if len(self) < _MAX_TEMPLATES:
            self[names] = template
        return template


def _scalar_type(schema: Schema) -> str:
    """The scalar type in messages; empty if any scalar is allowed."""
    match schema.type:
        case "integer" | "number":
            return "numeric"
        case "boolean":
            return "boolean"
        case "string" if schema.format in ("", "byte"):
            return "string"
        case _:
            return ""


DEDUCED_SCHEMA = MergeSchema(Schema(), _MergeSchemaCompiler())
"""The merge schema of a value without a schema."""
