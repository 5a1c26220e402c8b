"""What tells the items of an associative list apart."""

from collections.abc import Callable
from typing import Any

from kilonova.local.apply.elements import keyed, valued
from kilonova.local.schema.node import Schema

_MOST_STEPS = 1024


class BadItemError(ValueError):
    """An item of an associative list that has no place in one."""


def item_step(schema: Schema) -> Callable[[Any], str]:
    """The function that gives the step to an item of an associative list.

    Keys that an item omits are taken from their defaults.
    """
    keys = sorted(schema.list_map_keys)
    if schema.list_type != "map" or not keys:
        return _scalar_step
    defaults = schema.key_defaults()
    listed = " ".join(f'"{key}"' for key in schema.list_map_keys)

    def keyed_step(item: Any) -> str:
        if item.__class__ is not dict:
            sort = "a null element" if item is None else "non-map elements"
            raise BadItemError(f"associative list with keys may not have {sort}")
        pairs: list[Any] = []
        for name in keys:
            value = item.get(name, _ABSENT)
            if value is _ABSENT:
                value = defaults.get(name)
                if value is None:
                    continue
            pairs += (name, value)
        if not pairs:
            raise BadItemError(
                "associative list with keys has an element that omits all key fields "
                f"[{listed}] (and doesn't have default values for any key fields)"
            )
        try:
            return keyed(*pairs)
        except TypeError:
            raise BadItemError("associative list has a key that is no scalar") from None

    if len(keys) > 1:
        return keyed_step
    key = keys[0]
    known: dict[str, str] = {}

    def single_key_step(item: Any) -> str:
        value: Any = item.get(key) if item.__class__ is dict else None
        if value.__class__ is not str:
            return keyed_step(item)
        step = known.get(value)
        if step is None:
            step = keyed(key, value)
            if len(known) < _MOST_STEPS:
                known[value] = step
        return step

    return single_key_step


_ABSENT: Any = object()


def _scalar_step(item: Any) -> str:
    if type(item) is dict:
        raise BadItemError("associative list without keys has an element that's a map type")
    if type(item) is list:
        raise BadItemError("not supported: associative list with lists as elements")
    if item is None:
        raise BadItemError("associative list without keys has an element that's an explicit null")
    return valued(item)
