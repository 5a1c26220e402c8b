"""Objects against schemas: one `Checker` per kind, made once and kept with its schema."""

from typing import Protocol

from kilonova.api.json import JsonObject
from kilonova.local.errors import Problem
from kilonova.local.schema.conform import FAULTS, conformer
from kilonova.local.schema.custom import CustomChecker
from kilonova.local.schema.duplicates import duplicate_fields
from kilonova.local.schema.explain import Refusal, explain, too_deep, unreadable
from kilonova.local.schema.node import Schema
from kilonova.local.schema.structural import structural_problems

__all__ = ["Checker", "checker", "duplicate_fields", "structural_problems"]


class Checker(Protocol):
    """What is done with an object of a kind before anything else may see it, in this order."""

    def admit(self, obj: JsonObject, kind: str, version: str) -> list[str]:
        """Bring a decoded object into form, in place; return the paths of unknown fields.

        Unknown fields are dropped. Raises 400 where a value cannot be read. `kind` and
        `version` are for the message.
        """
        ...

    def default(self, obj: JsonObject) -> None:
        """Fill in the defaults that the schema gives; also done to objects read from disk."""
        ...

    def validate(self, obj: JsonObject, old: JsonObject | None = None) -> list[Problem]:
        """What the schema has against the object.

        With `old`, what was wrong before and has not changed is let pass.
        """
        ...


def checker(schema: Schema) -> Checker:
    """The checker of the kind with this schema, compiled at the first call."""
    found: Checker | None = schema.compiled
    if found is None:
        found = BuiltinChecker(schema) if schema.definition else CustomChecker(schema)
        schema.compiled = found
    return found


class BuiltinChecker:
    """For built-in kinds: types only. Defaults and rules are the kinds' own."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._conform = conformer(schema)

    def admit(self, obj: JsonObject, kind: str, version: str) -> list[str]:
        try:
            self._conform(obj)
        except FAULTS:
            pass
        except RecursionError:
            raise too_deep(kind, version) from None
        else:
            return []
        try:
            return explain(self._schema, obj)
        except Refusal as refusal:
            raise unreadable(kind, version, str(refusal)) from None
        except RecursionError:
            raise too_deep(kind, version) from None

    def default(self, obj: JsonObject) -> None:
        pass

    def validate(self, obj: JsonObject, old: JsonObject | None = None) -> list[Problem]:
        return []
