"""Structs as people would have written them."""

from typing import cast

import msgspec

from kilonova.api.json import JsonObject


def written(struct: msgspec.Struct) -> JsonObject:
    """A Struct as plain JSON, without the fields that say nothing."""
    fields = cast("JsonObject", msgspec.to_builtins(struct))
    return {name: value for name, value in fields.items() if value not in (None, (), [], {}, "")}
