"""One node of a schema, built-in or custom, with Kubernetes' extensions as plain fields."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kilonova.api.json import JsonObject

UNSET: Any = object()
"""No default given; `None` is a default that somebody wrote."""


@dataclass(slots=True, eq=False)
class Schema:
    """What is known of a value. Nodes are shared and must not be changed after reading.

    Compared by identity: the schema of a recursive kind (JSONSchemaProps) contains itself.
    """

    type: str = ""  # object, array, string, integer, number, boolean; empty: anything
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
    source: JsonObject = field(default_factory=dict[str, Any])  # the OpenAPI text: limits, rules

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
