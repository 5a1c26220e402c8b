"""What is computed from schemas, shared by all definitions and clusters of a process."""

from collections import OrderedDict
from collections.abc import Callable
from hashlib import sha256
from typing import Generic, TypeVar

import msgspec

from kilonova.api.json import JsonObject
from kilonova.local.apiserver.schema.builtin import custom_schema
from kilonova.local.apiserver.schema.node import Schema

V = TypeVar("V")


class SchemaCache(Generic[V]):
    """Values by the content of a schema, the order of its fields included: errors and defaults are
    in this order. Only the `limit` values used last are remembered.

    Called from compile threads as well: each step is atomic.
    """

    def __init__(self, compute: Callable[[JsonObject], V], limit: int) -> None:
        self._compute = compute
        self._limit = limit
        self._values: OrderedDict[bytes, V] = OrderedDict()

    def __call__(self, source: JsonObject) -> V:
        """The value for an `openAPIV3Schema`, which must not be modified afterwards."""
        digest = sha256(msgspec.json.encode(source)).digest()
        try:
            value = self._values.pop(digest)
        except KeyError:
            value = self._compute(source)
        self._values[digest] = value
        if len(self._values) > self._limit:
            self._values.popitem(last=False)
        return value

    def __len__(self) -> int:
        return len(self._values)


shared_custom_schema: SchemaCache[Schema] = SchemaCache(custom_schema, limit=32)
"""The schema of a custom kind, with what is compiled from it. A kind keeps its own beyond the
limit, which is for other clusters and for definitions that are created again."""
