"""A schema node, built-in or custom, with Kubernetes' extensions as plain fields."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any, cast

from kilonova.api.json import JsonObject

UNSET: Any = object()
"""No default; `None` is an explicit null default."""


@dataclass(slots=True, eq=False)
class Schema:
    """The schema of a value. Nodes are shared and immutable after parsing.

    Compared by identity: the schema of a recursive kind (JSONSchemaProps) contains itself.
    """

    type: str = ""  # object, array, string, integer, number, boolean; empty: any
    format: str = ""
    properties: dict[str, Schema] = field(default_factory=dict[str, "Schema"])
    additional: Schema | None = None  # values of a map
    items: Schema | None = None
    required: tuple[str, ...] = ()
    nullable: bool = False
    default: Any = UNSET
    enum: tuple[Any, ...] = ()
    int_or_string: bool = False
    preserve_unknown: bool = False
    embedded_resource: bool = False
    list_type: str = "atomic"  # atomic, set, map
    list_map_keys: tuple[str, ...] = ()
    map_type: str = "granular"  # granular, atomic (maps and structs alike)
    patch_merge_key: str = ""
    patch_strategies: tuple[str, ...] = ()  # merge, replace, retainKeys
    definition: str = ""  # name under components.schemas, for built-in kinds
    source: JsonObject = field(default_factory=dict[str, Any])  # the OpenAPI source: limits, rules
    checker: Any = field(default=None, repr=False)  # of a kind's root: cache of `schema_checker`
    merge_schema: Any = field(default=None, repr=False)  # of a kind's root: cache of field_manager
    rule_sets: Any = field(default=None, repr=False)  # of a custom kind's root: its compiled rules

    def key_defaults(self) -> dict[str, Any]:
        """Defaults of the keys of a `map` list (a port's protocol), for items that omit them."""
        if self.items is None:
            return {}
        properties = self.items.properties
        return {
            key: properties[key].default
            for key in self.list_map_keys
            if key in properties and properties[key].default is not UNSET
        }


def parse_schema(source: JsonObject, definitions: SchemaDefinitions | None = None) -> Schema:
    """Parse an OpenAPI v3 schema; `$ref`s are resolved in `definitions`."""
    if definitions is not None:
        return definitions.parse(source)
    node = Schema()
    _parse_node(node, source, _reject_reference)
    return node


class SchemaDefinitions:
    """Named schemas that refer to one another, each parsed on first use, then shared.

    Parsing has two phases, so that a definition may contain itself: first every reachable
    definition becomes a node, then the copies that differ from their definition in a field (`allOf`
    around a `$ref`, beside a patch strategy) are made from the finished nodes.
    """

    def __init__(self, source_of: Callable[[str], JsonObject]) -> None:
        self._source_of = source_of
        self._nodes: dict[str, Schema] = {}
        self._pending: list[tuple[Schema, JsonObject]] = []
        self._overridden: list[tuple[Schema, Schema, JsonObject]] = []

    def __getitem__(self, name: str) -> Schema:
        """The definition of that name; raises what `source_of` raises for an unknown one."""
        node = self._node(name)
        self._parse_pending()
        return node

    def parse(self, source: JsonObject) -> Schema:
        """Parse a schema that is not a definition, and all definitions it refers to."""
        node = self._child(source)
        self._parse_pending()
        return node

    def _node(self, name: str) -> Schema:
        node = self._nodes.get(name)
        if node is None:
            source = self._source_of(name)
            node = self._nodes[name] = Schema(definition=name)
            self._pending.append((node, source))
        return node

    def _child(self, source: JsonObject) -> Schema:
        name = _reference_name(source)
        if not name:
            node = Schema()
            _parse_node(node, source, self._child)
            return node
        settings = {key: source[key] for key in source if key in _OVERRIDES}
        # Go's generator writes an empty default beside every struct that is not a pointer.
        if settings.get("default") == {}:
            del settings["default"]
        if not settings:
            return self._node(name)
        copy = Schema()
        self._overridden.append((copy, self._node(name), settings))
        return copy

    def _parse_pending(self) -> None:
        while self._pending:
            node, source = self._pending.pop()
            _parse_node(node, source, self._child)
        for copy, original, settings in self._overridden:
            for each in fields(Schema):
                setattr(copy, each.name, getattr(original, each.name))
            copy.checker = copy.merge_schema = copy.rule_sets = None
            _apply_overrides(copy, settings)
        self._overridden.clear()


_OVERRIDES = frozenset(
    {
        "default",
        "nullable",
        "x-kubernetes-list-map-keys",
        "x-kubernetes-list-type",
        "x-kubernetes-map-type",
        "x-kubernetes-patch-merge-key",
        "x-kubernetes-patch-strategy",
    }
)
"""Fields beside a reference that override those of the definition."""

_REFERENCE = "#/components/schemas/"

_META = "io.k8s.apimachinery.pkg.apis.meta.v1."
_EXTENSIONS = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1."

_FREE_FORM = frozenset(
    {
        _META + "FieldsV1",
        _META + "Patch",
        "io.k8s.apimachinery.pkg.runtime.RawExtension",
        _EXTENSIONS + "JSON",
        _EXTENSIONS + "JSONSchemaPropsOrArray",
        _EXTENSIONS + "JSONSchemaPropsOrBool",
        _EXTENSIONS + "JSONSchemaPropsOrStringArray",
    }
)
"""Definitions whose values are stored without decoding."""

_FORMATS = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": "quantity",
    _META + "MicroTime": "micro-time",
}
"""Definitions that are strings with a format that OpenAPI does not name."""


def _reject_reference(source: JsonObject) -> Schema:
    node = Schema()
    _parse_node(node, source, _reject_reference)
    return node


def _reference_name(source: JsonObject) -> str:
    reference = source.get("$ref")
    if reference is None:
        parts = source.get("allOf", ())
        if len(parts) != 1 or "$ref" not in parts[0]:
            return ""
        reference = parts[0]["$ref"]
    return reference.removeprefix(_REFERENCE)


def _parse_node(node: Schema, source: JsonObject, child: Callable[[JsonObject], Schema]) -> None:
    node.source = source
    node.type = source.get("type", "")
    node.format = source.get("format", "")
    node.required = tuple(source.get("required", ()))
    node.enum = tuple(source.get("enum", ()))
    node.int_or_string = (
        source.get("x-kubernetes-int-or-string", False) or node.format == "int-or-string"
    )
    node.preserve_unknown = source.get("x-kubernetes-preserve-unknown-fields", False)
    node.embedded_resource = source.get("x-kubernetes-embedded-resource", False)
    for name, value in source.get("properties", {}).items():
        node.properties[name] = child(value)
    items = source.get("items")
    if isinstance(items, dict):  # a list of schemas is rejected, but parsed before that
        node.items = child(cast(JsonObject, items))
    additional = source.get("additionalProperties")
    if isinstance(additional, dict):
        node.additional = child(cast(JsonObject, additional))
    elif additional:
        node.additional = Schema()
    if node.definition in _FREE_FORM:
        node.preserve_unknown = True
    elif node.definition in _FORMATS:
        node.type = "string"
        node.format = _FORMATS[node.definition]
    _apply_overrides(node, source)


def _apply_overrides(node: Schema, source: JsonObject) -> None:
    node.default = source.get("default", node.default)
    node.nullable = source.get("nullable", node.nullable)
    node.list_type = source.get("x-kubernetes-list-type", node.list_type)
    node.map_type = source.get("x-kubernetes-map-type", node.map_type)
    node.patch_merge_key = source.get("x-kubernetes-patch-merge-key", node.patch_merge_key)
    if keys := source.get("x-kubernetes-list-map-keys"):
        node.list_map_keys = tuple(keys)
    if strategy := source.get("x-kubernetes-patch-strategy"):
        node.patch_strategies = tuple(strategy.split(","))
