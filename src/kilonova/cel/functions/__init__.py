"""Kubernetes' CEL functions that the runtime lacks.

A `Function` is declared twice. For checking, its types are real (`quantity` is a type of its own).
For evaluation they are types of the runtime, which has no opaque types: a quantity, an address, a
URL or a version is a map with one entry, its type and its canonical text (`wrap_opaque`), so that
equal values compare equal. `FUNCTIONS` are those that every expression may use; `metering` has the
ones that are inserted into metered expressions.
"""

from kilonova.cel.functions.declaration import Function
from kilonova.cel.functions.jsonpatch import JSON_PATCH
from kilonova.cel.functions.lists import LISTS
from kilonova.cel.functions.network import NETWORK
from kilonova.cel.functions.quantities_and_versions import ORDERED
from kilonova.cel.functions.regex import TEXTS
from kilonova.cel.functions.urls import URLS

FUNCTIONS: tuple[Function, ...] = (*JSON_PATCH, *LISTS, *NETWORK, *ORDERED, *TEXTS, *URLS)
"""A name occurs once for each implementation."""

__all__ = ["FUNCTIONS", "Function"]
