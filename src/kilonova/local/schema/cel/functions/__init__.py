"""Kubernetes' own CEL functions, where the runtime does not bring them.

A `Function` is declared twice. To check an expression its types are real (`quantity` is a type
of its own). To run it they are what the runtime can carry: it knows no foreign types, so that
an amount, an address, a URL or a version travels as a map with one entry, its kind and its
canonical text (`sealed`), which also makes two of them equal where they mean the same.
"""

from kilonova.local.schema.cel.functions.authorization import AUTHORIZATION
from kilonova.local.schema.cel.functions.declare import OPAQUE_TYPES, Function
from kilonova.local.schema.cel.functions.jsonpatch import JSON_PATCH
from kilonova.local.schema.cel.functions.lists import LISTS
from kilonova.local.schema.cel.functions.metering import METERING
from kilonova.local.schema.cel.functions.network import NETWORK
from kilonova.local.schema.cel.functions.ordered import ORDERED
from kilonova.local.schema.cel.functions.texts import TEXTS
from kilonova.local.schema.cel.functions.urls import URLS

FUNCTIONS: tuple[Function, ...] = (
    *AUTHORIZATION,
    *JSON_PATCH,
    *LISTS,
    *METERING,
    *NETWORK,
    *ORDERED,
    *TEXTS,
    *URLS,
)
"""All of them. A name occurs once for each way it is implemented."""

__all__ = ["FUNCTIONS", "OPAQUE_TYPES", "Function"]
