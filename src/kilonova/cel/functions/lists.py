"""isSorted, sum, min, max, indexOf and lastIndexOf of lists."""

from itertools import pairwise
from typing import Any

from kilonova.cel.functions.declaration import FunctionLibrary

LISTS = FunctionLibrary()

_SUMMABLE = ("int", "uint", "double")
_COMPARABLE = (*_SUMMABLE, "bool", "string")
_SORTABLE = (*_COMPARABLE, "bytes", "duration", "timestamp")
_EQUATABLE = (*_SORTABLE, "map(dyn, dyn)")


@LISTS.method("isSorted", *(f"list({type}) -> bool" for type in _SORTABLE))
def is_sorted(items: list[Any]) -> bool:
    return all(left <= right for left, right in pairwise(items))


@LISTS.method("sum", *(f"list({type}) -> {type}" for type in _SUMMABLE))
def total(items: list[Any]) -> Any:
    return sum(items)


@LISTS.method("min", *(f"list({type}) -> {type}" for type in _COMPARABLE))
def smallest(items: list[Any]) -> Any:
    if not items:
        raise ValueError("min called on empty list")
    return min(items)


@LISTS.method("max", *(f"list({type}) -> {type}" for type in _COMPARABLE))
def largest(items: list[Any]) -> Any:
    if not items:
        raise ValueError("max called on empty list")
    return max(items)


@LISTS.method("indexOf", *(f"list({type}), {type} -> int" for type in _EQUATABLE))
def index_of(items: list[Any], item: Any) -> int:
    return items.index(item) if item in items else -1


@LISTS.method("lastIndexOf", *(f"list({type}), {type} -> int" for type in _EQUATABLE))
def last_index_of(items: list[Any], item: Any) -> int:
    return len(items) - 1 - items[::-1].index(item) if item in items else -1
