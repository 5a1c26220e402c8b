"""Objects of custom kinds: pruned, defaulted and validated by the schema of their definition.

Everything is compiled into closures from the schema as its author wrote it. What every
object has beside that, apiVersion, kind and metadata, is known here: at the root, and in
each embedded resource.
"""

from collections.abc import Callable
from typing import Any

from kilonova.api.json import JsonObject
from kilonova.local.errors import Problem
from kilonova.local.schema.builtin import OBJECT_META, definition_schema
from kilonova.local.schema.conform import FAULTS, conformer
from kilonova.local.schema.defaults import defaulter
from kilonova.local.schema.embedded import embedded_problems, read_embedded
from kilonova.local.schema.explain import Refusal, explain, too_deep, unreadable
from kilonova.local.schema.limits import ABSENT
from kilonova.local.schema.listtypes import list_problems
from kilonova.local.schema.node import Schema, read
from kilonova.local.schema.prune import pruner
from kilonova.local.schema.validate import validator


class CustomChecker:
    """The checker of a custom kind (see `check.Checker`)."""

    def __init__(self, schema: Schema) -> None:
        self._root = read(schema.source)
        self._prune = pruner(self._root, is_resource=True)
        self._default = defaulter(self._root)
        self._validate = validator(schema.source)
        self._has_embedded = _some(self._root, lambda node: node.embedded_resource)
        self._has_lists = _some(self._root, lambda node: node.list_type in ("set", "map"))

    def admit(self, obj: JsonObject, kind: str, version: str) -> list[str]:
        try:
            unknown = self.prune(obj)
            unknown += _read_metadata(obj)
            if self._has_embedded:
                unknown += read_embedded(self._root, obj)
        except Refusal as refusal:
            raise unreadable(kind, version, str(refusal)) from None
        except RecursionError:
            raise too_deep(kind, version) from None
        return sorted(unknown)

    def prune(self, obj: JsonObject) -> list[str]:
        """Drop the fields that the schema does not know; return their paths."""
        unknown: list[str] = []
        self._prune(obj, "", unknown)
        return unknown

    def default(self, obj: JsonObject) -> None:
        """Nulls that the schema does not allow count as absent, and go."""
        self._default(obj)

    def validate(self, obj: JsonObject, old: JsonObject | None = None) -> list[Problem]:
        problems = self._validate(obj, ABSENT if old is None else old)
        if self._has_embedded:
            problems += embedded_problems(self._root, obj)
        if self._has_lists:
            problems += list_problems(self._root, obj)
        return problems


def _read_metadata(obj: JsonObject) -> list[str]:
    metadata: Any = obj.get("metadata")
    if metadata is None:
        return []
    schema = definition_schema(OBJECT_META)
    unknown: list[str] = []
    try:
        conformer(schema)(metadata)
    except FAULTS:
        unknown = explain(schema, metadata, "metadata")
    for name in _OMITTED_IF_EMPTY:
        if name in metadata and not metadata[name]:
            del metadata[name]
    return unknown


_OMITTED_IF_EMPTY = ("labels", "annotations", "finalizers", "ownerReferences")
"""Fields of metadata, which Kubernetes reads into a Go struct for custom kinds too."""


def _some(schema: Schema, holds: Callable[[Schema], bool]) -> bool:
    """Whether it holds for the schema or one inside."""
    if holds(schema):
        return True
    children = [*schema.properties.values(), schema.items, schema.additional]
    return any(_some(child, holds) for child in children if child is not None)
