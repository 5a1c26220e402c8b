"""Checking of objects by schema: one `SchemaChecker` per kind, cached with its schema."""

from typing import Protocol

from kilonova.api.json import JsonObject
from kilonova.local.apimachinery.errors import FieldError
from kilonova.local.apiserver.schema.conformance import CONFORM_ERRORS, compile_conformer
from kilonova.local.apiserver.schema.decode_errors import (
    DecodeError,
    conform_with_errors,
    too_deep_error,
    undecodable_error,
)
from kilonova.local.apiserver.schema.duplicate_fields import find_duplicate_json_fields
from kilonova.local.apiserver.schema.node import Schema
from kilonova.local.apiserver.schema.structural.checker import StructuralChecker
from kilonova.local.apiserver.schema.structural.structural_validation import validate_structural

__all__ = ["SchemaChecker", "find_duplicate_json_fields", "schema_checker", "validate_structural"]


class SchemaChecker(Protocol):
    """Decode, default and validate an object of a kind, in this order."""

    def conform(self, obj: JsonObject, kind: str, version: str) -> list[str]:
        """Normalize a decoded object in place; returns the paths of unknown fields.

        Unknown fields are dropped. Raises 400 if a value has the wrong type. `kind` and `version`
        are for the message.
        """
        ...

    def default(self, obj: JsonObject) -> None:
        """Set the schema's defaults; also for objects read from disk."""
        ...

    def validate(self, obj: JsonObject, old: JsonObject | None = None) -> list[FieldError]:
        """Validate the object by its schema.

        With `old`, errors in unchanged values are ignored (ratcheting).
        """
        ...


def schema_checker(schema: Schema) -> SchemaChecker:
    """The checker of the kind with this schema, compiled at the first call."""
    found: SchemaChecker | None = schema.checker
    if found is None:
        found = BuiltinChecker(schema) if schema.definition else StructuralChecker(schema)
        schema.checker = found
    return found


class BuiltinChecker:
    """For built-in kinds: types only. Defaults and validation are in their strategies."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._conform = compile_conformer(schema)

    def conform(self, obj: JsonObject, kind: str, version: str) -> list[str]:
        try:
            self._conform(obj)
        except CONFORM_ERRORS:
            pass
        except RecursionError:
            raise too_deep_error(kind, version) from None
        else:
            return []
        try:
            return conform_with_errors(self._schema, obj)
        except DecodeError as error:
            raise undecodable_error(kind, version, str(error)) from None
        except RecursionError:
            raise too_deep_error(kind, version) from None

    def default(self, obj: JsonObject) -> None:
        pass

    def validate(self, obj: JsonObject, old: JsonObject | None = None) -> list[FieldError]:
        return []
