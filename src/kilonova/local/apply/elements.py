"""The steps of a field path, each a string as FieldsV1 has it.

`f:name` is a field of an object, `k:{"name":"a"}` the item of a list with that key,
`v:"a"` the item of a list of scalars that is that value, `i:0` an item by position. The
strings are canonical (keys sorted, no spaces, escaped as Go escapes), so that two steps are
the same step when their strings are equal.
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import msgspec

_encode = msgspec.json.encode


def field(name: str) -> str:
    """The step to a field."""
    return "f:" + name


@lru_cache(maxsize=8192, typed=True)
def keyed(*names_and_values: Any) -> str:
    """The step to the item with these keys: name, value, name, value …, sorted by name."""
    pairs = zip(names_and_values[::2], names_and_values[1::2], strict=True)
    return f"k:{{{','.join(f'{_text(name)}:{_text(value)}' for name, value in pairs)}}}"


@lru_cache(maxsize=8192, typed=True)
def valued(value: Any) -> str:
    """The step to the item that is this scalar."""
    return "v:" + _text(value)


def _text(value: Any) -> str:
    text = _encode(value).decode()
    # Go writes these characters as escapes, to be safe inside HTML.
    if "<" in text or ">" in text or "&" in text:
        text = text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    return text


def canonical(step: str) -> str | None:
    """The step as we write it; None for a sort of step that only a later version knows.

    Raises `ValueError` if it is no step at all.
    """
    if len(step) < 2 or step[1] != ":":
        raise ValueError(f"not a step of a field path: {step!r}")
    sort, text = step[0], step[2:]
    if sort == "f":
        return step
    if sort == "k":
        pairs = sorted(msgspec.json.decode(text, type=dict[str, Any]).items())
        return f"k:{{{','.join(f'{_text(name)}:{_text(value)}' for name, value in pairs)}}}"
    if sort == "v":
        return "v:" + _text(msgspec.json.decode(text))
    if sort == "i":
        return f"i:{int(text)}"
    return None


def in_order(steps: Iterable[str]) -> list[str]:
    """Sorted as Kubernetes sorts them: fields, keys, values, positions; numbers by size."""
    ordered = sorted(steps)
    # Sorted as text, a step that is not a field is last, if there is one.
    if len(ordered) > 1 and ordered[-1][0] != "f":
        ordered.sort(key=_rank)
    return ordered


@lru_cache(maxsize=8192)
def _rank(step: str) -> tuple[Any, ...]:
    if step == ".":
        return (0,)
    sort, text = step[0], step[2:]
    if sort == "f":
        return (1, text)
    if sort == "k":
        pairs = msgspec.json.decode(text).items()
        return (2, tuple((name, _value_rank(value)) for name, value in pairs))
    if sort == "v":
        return (3, _value_rank(msgspec.json.decode(text)))
    return (4, int(text))


def _value_rank(value: Any) -> tuple[Any, ...]:
    if isinstance(value, bool):
        return (2, value)
    if isinstance(value, int | float):
        return (0, value)
    if isinstance(value, str):
        return (1, value)
    return (3, _text(value))


def shown(step: str) -> str:
    """The step as messages show it: `.name`, `[name="a"]`, `[="a"]`, `[0]`."""
    sort, text = step[0], step[2:]
    if sort == "f":
        return "." + text
    if sort == "k":
        pairs = msgspec.json.decode(text).items()
        return f"[{','.join(f'{name}={_shown_value(value)}' for name, value in pairs)}]"
    if sort == "v":
        return f"[={_shown_value(msgspec.json.decode(text))}]"
    return f"[{text}]"


def _shown_value(value: Any) -> str:
    return _encode(value).decode()
