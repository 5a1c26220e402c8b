"""The elements of a field path, each a string in the FieldsV1 format.

`f:name` is a field of an object, `k:{"name":"a"}` the list item with that key, `v:"a"` the item of
a list of scalars with that value, `i:0` an item by index. The strings are canonical (keys sorted,
no spaces, escaped as by Go), so that equal elements are equal strings.
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import msgspec

_encode = msgspec.json.encode


def field_element(name: str) -> str:
    """The element of a field."""
    return "f:" + name


@lru_cache(maxsize=8192, typed=True)
def key_element(*names_and_values: Any) -> str:
    """The element of the item with these keys: name, value, name, value …, sorted by name."""
    pairs = zip(names_and_values[::2], names_and_values[1::2], strict=True)
    return _encode_key(pairs)


@lru_cache(maxsize=8192, typed=True)
def value_element(value: Any) -> str:
    """The element of a scalar item."""
    return "v:" + _encode_value(value)


def _encode_key(pairs: Iterable[tuple[str, Any]]) -> str:
    keys = ",".join(f"{_encode_value(name)}:{_encode_value(value)}" for name, value in pairs)
    return f"k:{{{keys}}}"


def _encode_value(value: Any) -> str:
    text = _encode(value).decode()
    # Go escapes these characters for use inside HTML.
    if "<" in text or ">" in text or "&" in text:
        text = text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    return text


def canonical_element(element: str) -> str | None:
    """The element in canonical form; None for a type of element that only a later version knows.

    Raises `ValueError` if it is not an element.
    """
    if len(element) < 2 or element[1] != ":":
        raise ValueError(f"not an element of a field path: {element!r}")
    prefix, text = element[0], element[2:]
    if prefix == "f":
        return element
    if prefix == "k":
        pairs = sorted(msgspec.json.decode(text, type=dict[str, Any]).items())
        return _encode_key(pairs)
    if prefix == "v":
        return "v:" + _encode_value(msgspec.json.decode(text))
    if prefix == "i":
        return f"i:{int(text)}"
    return None


def sort_elements(elements: Iterable[str]) -> list[str]:
    """Sort as Kubernetes does: fields, keys, values, indexes; numbers by size."""
    ordered = sorted(elements)
    # Sorted as text, an element that is not a field is last, if there is one.
    if len(ordered) > 1 and ordered[-1][0] != "f":
        ordered.sort(key=_sort_key)
    return ordered


@lru_cache(maxsize=8192)
def _sort_key(element: str) -> tuple[Any, ...]:
    if element == ".":
        return (0,)
    prefix, text = element[0], element[2:]
    if prefix == "f":
        return (1, text)
    if prefix == "k":
        pairs = msgspec.json.decode(text).items()
        return (2, tuple((name, _value_sort_key(value)) for name, value in pairs))
    if prefix == "v":
        return (3, _value_sort_key(msgspec.json.decode(text)))
    return (4, int(text))


def _value_sort_key(value: Any) -> tuple[Any, ...]:
    if isinstance(value, bool):
        return (2, value)
    if isinstance(value, int | float):
        return (0, value)
    if isinstance(value, str):
        return (1, value)
    return (3, _encode_value(value))


def format_element(element: str) -> str:
    """The element as in messages: `.name`, `[name="a"]`, `[="a"]`, `[0]`."""
    prefix, text = element[0], element[2:]
    if prefix == "f":
        return "." + text
    if prefix == "k":
        pairs = msgspec.json.decode(text).items()
        return f"[{','.join(f'{name}={_format_value(value)}' for name, value in pairs)}]"
    if prefix == "v":
        return f"[={_format_value(msgspec.json.decode(text))}]"
    return f"[{text}]"


def _format_value(value: Any) -> str:
    return _encode(value).decode()
