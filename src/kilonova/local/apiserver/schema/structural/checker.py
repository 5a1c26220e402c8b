"""Pruning, defaulting and validation of custom resources by the schema of their definition.

Everything is compiled into closures from the schema as written. apiVersion, kind and metadata,
which every object has, are handled here: at the root, and in each embedded resource.
"""

from collections.abc import Callable
from typing import Any

from kilonova.api.json import JsonObject
from kilonova.local.apimachinery.errors import FieldError
from kilonova.local.apiserver.schema.builtin import OBJECT_META, definition_schema
from kilonova.local.apiserver.schema.conformance import CONFORM_ERRORS, compile_conformer
from kilonova.local.apiserver.schema.decode_errors import (
    DecodeError,
    conform_with_errors,
    too_deep_error,
    undecodable_error,
)
from kilonova.local.apiserver.schema.node import Schema, parse_schema
from kilonova.local.apiserver.schema.structural.defaulting import defaulter
from kilonova.local.apiserver.schema.structural.embedded_resources import (
    conform_embedded_metadata,
    validate_embedded_resources,
)
from kilonova.local.apiserver.schema.structural.list_types import validate_lists
from kilonova.local.apiserver.schema.structural.pruning import pruner
from kilonova.local.apiserver.schema.structural.validation import compile_validator
from kilonova.local.apiserver.schema.structural.value_checks import ABSENT


class StructuralChecker:
    """The `SchemaChecker` of a custom kind."""

    def __init__(self, schema: Schema) -> None:
        self._root = parse_schema(schema.source)
        self._prune = pruner(self._root, is_resource=True)
        self._default = defaulter(self._root)
        self._validate = compile_validator(schema.source)
        self._has_embedded = _any_node(self._root, lambda node: node.embedded_resource)
        self._has_lists = _any_node(self._root, lambda node: node.list_type in ("set", "map"))

    def conform(self, obj: JsonObject, kind: str, version: str) -> list[str]:
        try:
            unknown = self.prune(obj)
            unknown += _conform_metadata(obj)
            if self._has_embedded:
                unknown += conform_embedded_metadata(self._root, obj)
        except DecodeError as error:
            raise undecodable_error(kind, version, str(error)) from None
        except RecursionError:
            raise too_deep_error(kind, version) from None
        return sorted(unknown)

    def prune(self, obj: JsonObject) -> list[str]:
        """Drop unknown fields; returns their paths."""
        unknown: list[str] = []
        self._prune(obj, "", unknown)
        return unknown

    def default(self, obj: JsonObject) -> None:
        """Set defaults. Nulls that the schema does not allow are treated as absent and dropped."""
        self._default(obj)

    def validate(self, obj: JsonObject, old: JsonObject | None = None) -> list[FieldError]:
        problems = self._validate(obj, ABSENT if old is None else old)
        if self._has_embedded:
            problems += validate_embedded_resources(self._root, obj)
        if self._has_lists:
            problems += validate_lists(self._root, obj)
        return problems


def _conform_metadata(obj: JsonObject) -> list[str]:
    metadata: Any = obj.get("metadata")
    if metadata is None:
        return []
    schema = definition_schema(OBJECT_META)
    unknown: list[str] = []
    try:
        compile_conformer(schema)(metadata)
    except CONFORM_ERRORS:
        unknown = conform_with_errors(schema, metadata, "metadata")
    for name in _OMITTED_IF_EMPTY:
        if name in metadata and not metadata[name]:
            del metadata[name]
    return unknown


_OMITTED_IF_EMPTY = ("labels", "annotations", "finalizers", "ownerReferences")
"""Fields of metadata, which Kubernetes decodes into a Go struct for custom kinds too."""


def _any_node(schema: Schema, holds: Callable[[Schema], bool]) -> bool:
    """Whether the predicate is true for the schema or one inside."""
    if holds(schema):
        return True
    children = [*schema.properties.values(), schema.items, schema.additional]
    return any(_any_node(child, holds) for child in children if child is not None)
