"""The identity of items in associative lists."""

from collections.abc import Callable
from typing import Any

from kilonova.local.apiserver.field_manager.path_elements import key_element, value_element
from kilonova.local.apiserver.schema.node import Schema

_ELEMENT_CACHE_SIZE = 1024


class ListItemError(ValueError):
    """An item that is not valid in an associative list."""


def item_element_function(schema: Schema) -> Callable[[Any], str]:
    """The function that returns the path element of an item of an associative list.

    Keys that an item omits have their default values.
    """
    keys = sorted(schema.list_map_keys)
    if schema.list_type != "map" or not keys:
        return _scalar_element
    defaults = schema.key_defaults()
    key_names = " ".join(f'"{key}"' for key in schema.list_map_keys)

    def keyed_element(item: Any) -> str:
        if item.__class__ is not dict:
            description = "a null element" if item is None else "non-map elements"
            raise ListItemError(f"associative list with keys may not have {description}")
        pairs: list[Any] = []
        for name in keys:
            value = item.get(name, _ABSENT)
            if value is _ABSENT:
                value = defaults.get(name)
                if value is None:
                    continue
            pairs += (name, value)
        if not pairs:
            raise ListItemError(
                "associative list with keys has an element that omits all key fields "
                f"[{key_names}] (and doesn't have default values for any key fields)"
            )
        try:
            return key_element(*pairs)
        except TypeError:
            raise ListItemError("associative list has a key that is no scalar") from None

    if len(keys) > 1:
        return keyed_element
    key = keys[0]
    known: dict[str, str] = {}

    def single_key_element(item: Any) -> str:
        value: Any = item.get(key) if item.__class__ is dict else None
        if value.__class__ is not str:
            return keyed_element(item)
        element = known.get(value)
        if element is None:
            element = key_element(key, value)
            if len(known) < _ELEMENT_CACHE_SIZE:
                known[value] = element
        return element

    return single_key_element


_ABSENT: Any = object()


def _scalar_element(item: Any) -> str:
    if type(item) is dict:
        raise ListItemError("associative list without keys has an element that's a map type")
    if type(item) is list:
        raise ListItemError("not supported: associative list with lists as elements")
    if item is None:
        raise ListItemError("associative list without keys has an element that's an explicit null")
    return value_element(item)
