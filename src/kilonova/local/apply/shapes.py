"""Shapes: what of a schema decides how values are owned and merged.

A value is a scalar, a map (objects with named fields and free maps alike) or a list; a shape
says which of the three it may be. Maps are granular or atomic; lists are atomic, sets of
scalars, or keyed like maps ("associative"). A value that the schema says nothing about is
deduced: maps are granular, lists atomic.

Shapes are compiled from a schema as they are reached, once, and kept as long as the schema is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from kilonova.api.json import JsonObject
from kilonova.local.apply.elements import field
from kilonova.local.apply.items import item_step
from kilonova.local.schema.node import Schema

_FIELDS = "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1"
_RAW_EXTENSION = "io.k8s.apimachinery.pkg.runtime.RawExtension"
_MOST_PLANS = 256
_SCALARS = frozenset({"integer", "number", "string", "boolean"})


Plan: TypeAlias = "tuple[JsonObject, tuple[tuple[str, str, Shape], ...]]"
"""The branch of an object with certain fields, and those of its fields that may have more
below them: name, step and shape."""


def shape_of(schema: Schema) -> Shape:
    """The shape of a kind, from the root of its schema."""
    known: Shape | None = schema.shape
    if known is None:
        known = schema.shape = Shape(schema, _Compiler())
    return known


class Shape:
    """How values of one schema node are taken apart. See the module for the words."""

    __slots__ = (
        "_compiler",
        "_declared",
        "_element",
        "_item",
        "_preserving",
        "_schema",
        "associative",
        "built_in",
        "granular",
        "is_list",
        "is_map",
        "is_scalar",
        "item_step",
        "list_type",
        "loose",
        "plans",
        "scalar_type",
        "splits",
        "steps",
    )

    def __init__(self, schema: Schema, compiler: _Compiler, preserving: bool = False) -> None:
        self._schema = schema
        self._compiler = compiler
        self._preserving = preserving or schema.preserve_unknown
        self._declared: dict[str, Shape] = {}
        self._element: Shape | None = None
        self._item: Shape | None = None
        anything = not schema.type and not schema.int_or_string
        raw = schema.definition == _RAW_EXTENSION
        self.is_scalar = anything or raw or schema.int_or_string or schema.type in _SCALARS
        self.is_map = anything or raw or schema.type == "object"
        self.is_list = anything or raw or schema.type == "array"
        self.granular = self.is_map and schema.map_type != "atomic" and not raw
        self.list_type = schema.list_type if self.is_list and not raw else "atomic"
        self.associative = self.list_type != "atomic"
        self.splits = self.granular or self.associative
        self.scalar_type = _scalar_type(schema)
        self.built_in = bool(schema.definition)
        self.loose = raw or compiler.is_loose(schema)
        self.item_step: Callable[[Any], str] = item_step(schema)
        self.steps = _Steps(self)
        self.plans = _Plans(self)

    @property
    def plain(self) -> bool:
        """Whether this is a map of anything to values that do not split."""
        return not self._schema.properties and not self.element.splits

    @property
    def open(self) -> bool:
        """Whether fields beside the declared ones are allowed."""
        schema = self._schema
        return schema.additional is not None or self._preserving or not schema.properties

    def declares(self, name: str) -> bool:
        return name in self._schema.properties

    def child(self, name: str) -> Shape:
        """The shape of a field of a map, declared or not."""
        known = self._declared.get(name)
        if known is not None:
            return known
        declared = self._schema.properties.get(name)
        if declared is None:
            return self.element
        shape = self._declared[name] = self._compiler.shape(declared, self._preserving)
        return shape

    @property
    def element(self) -> Shape:
        """The shape of fields that are not declared."""
        if self._element is None:
            additional = self._schema.additional
            if additional is None or additional.type == "" == additional.definition:
                self._element = DEDUCED
            else:
                self._element = self._compiler.shape(additional, self._preserving)
        return self._element

    @property
    def item(self) -> Shape:
        """The shape of items of a list."""
        if self._item is None:
            items = self._schema.items
            self._item = DEDUCED if items is None else self._compiler.shape(items, self._preserving)
        return self._item

    def initial(self) -> JsonObject:
        """What an object of a built-in kind holds before anything is set.

        There, structs that are not pointers always exist, and fields that are always written
        have their zero value: neither is set by whoever creates the object.
        """
        texts: JsonObject = self._schema.source.get("properties", {})
        found: JsonObject = {}
        for name, text in texts.items():
            default = text.get("default")
            if default == {}:
                found[name] = self.child(name).initial()
            elif default in ("", 0, False) and "default" in text:
                found[name] = default
            elif name in self._schema.required and text.get("type") in ("array", "object"):
                found[name] = None
        return found


class _Compiler:
    """Shares shapes among all places of a root that have the same schema node."""

    def __init__(self) -> None:
        self._shapes: dict[tuple[int, bool], Shape] = {}
        self._loose: dict[int, bool] = {}

    def shape(self, schema: Schema, preserving: bool) -> Shape:
        # A definition does not inherit from the place that refers to it.
        key = (id(schema), preserving and not schema.definition)
        known = self._shapes.get(key)
        if known is None:
            known = self._shapes[key] = Shape(schema, self, key[1])
        return known

    def is_loose(self, schema: Schema) -> bool:
        """Whether a value may hold, at any depth, what no schema describes.

        There `true` may stand where `1` stood, which Python's `==` takes for equal.
        """
        if id(schema) not in self._loose:
            self._find_loose(schema)
        return self._loose[id(schema)]

    def _find_loose(self, root: Schema) -> None:
        nodes: dict[int, Schema] = {}
        parents: dict[int, list[int]] = {}
        waiting = [root]
        while waiting:
            node = waiting.pop()
            if id(node) in nodes:
                continue
            nodes[id(node)] = node
            for below in (*node.properties.values(), node.additional, node.items):
                if below is not None:
                    parents.setdefault(id(below), []).append(id(node))
                    waiting.append(below)
        reached = [key for key, node in nodes.items() if _is_free(node)]
        loose = set(reached)
        while reached:
            for parent in parents.get(reached.pop(), ()):
                if parent not in loose:
                    loose.add(parent)
                    reached.append(parent)
        self._loose.update({key: key in loose for key in nodes})


def _is_free(schema: Schema) -> bool:
    if schema.int_or_string or schema.definition == _FIELDS:
        return False
    if schema.preserve_unknown or not schema.type:
        return True
    return schema.type == "object" and not schema.properties and schema.additional is None


class _Steps(dict[str, tuple[str, Shape]]):
    """Field names to their steps and shapes; keeps those that are declared."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self._shape = shape

    def __missing__(self, name: str) -> tuple[str, Shape]:
        pair = (field(name), self._shape.child(name))
        if self._shape.declares(name):
            self[name] = pair
        return pair


class _Plans(dict[tuple[str, ...], "Plan | None"]):
    """Names of fields, in any order, to the plan for an object that has just these.

    None where some are not declared: those are too many to keep a plan for each.
    """

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self._shape = shape

    def __missing__(self, names: tuple[str, ...]) -> Plan | None:
        if not all(map(self._shape.declares, names)):
            return None
        pairs = [(name, *self._shape.steps[name]) for name in sorted(names)]
        template: JsonObject = {".": {}, **{step: {} for _, step, _ in pairs}}
        plan = (template, tuple(each for each in pairs if each[2].splits))
        if len(self) < _MOST_PLANS:
            self[names] = plan
        return plan


def _scalar_type(schema: Schema) -> str:
    """The word that messages have for the scalar, or empty where any will do."""
    match schema.type:
        case "integer" | "number":
            return "numeric"
        case "boolean":
            return "boolean"
        case "string" if schema.format in ("", "byte"):
            return "string"
        case _:
            return ""


DEDUCED = Shape(Schema(), _Compiler())
"""The shape of a value that no schema describes."""
