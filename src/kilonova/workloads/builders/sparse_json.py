"""Structs as JSON without empty fields."""

from typing import cast

import msgspec

from kilonova.api.json import JsonObject


def to_sparse_json(struct: msgspec.Struct) -> JsonObject:
    """A Struct as JSON, without empty fields."""
    fields = cast("JsonObject", msgspec.to_builtins(struct))
    return {name: value for name, value in fields.items() if value not in (None, (), [], {}, "")}
