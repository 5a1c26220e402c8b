"""Whether a value of a file has the type of its key, and values as texts. Pure."""

import sys
from datetime import date
from typing import TypeGuard, cast

import msgspec

from kilonova.api.scheduling import Duration
from kilonova.serving.supersonic.keys import ValueType

FIXES = {
    ValueType.TEXT: 'write text, in quotes where YAML would read a number, as "1"',
    ValueType.FLAG: "write true or false",
    ValueType.WHOLE: "write a whole number",
    ValueType.NUMBER: "write a number",
    ValueType.DURATION: "write a duration, as 30s or 1m30s",
    ValueType.TEXTS: "write a list of texts: [a, b]",
    ValueType.OBJECTS: "write a list of objects: [{…}]",
    ValueType.OBJECT: "write fields with values: {…}",
    ValueType.MAP: 'write names and texts: {name: "text"}',
    ValueType.ANYTHING: "",
}
"""What to write instead of a value of another type."""


def has_type(value: object, type_: ValueType) -> bool:
    """Whether a value other than null has a type."""
    match type_:
        case ValueType.TEXT:
            return isinstance(value, str)
        case ValueType.FLAG:
            return isinstance(value, bool)
        case ValueType.WHOLE:
            is_whole = isinstance(value, float) and value.is_integer()
            return is_whole or (isinstance(value, int) and not isinstance(value, bool))
        case ValueType.NUMBER:
            if not isinstance(value, int | float) or isinstance(value, bool):
                return False
            return abs(value) <= sys.float_info.max
        case ValueType.DURATION:
            return _is_duration(value)
        case ValueType.TEXTS:
            return _is_list_of(value, str)
        case ValueType.OBJECTS:
            return has_names(value) and _is_list_of(value, dict)
        case ValueType.OBJECT:
            return has_names(value) and isinstance(value, dict)
        case ValueType.MAP:
            return isinstance(value, dict) and all(
                isinstance(name, str) and isinstance(each, str | int | float | date | None)
                for name, each in cast(dict[object, object], value).items()
            )
        case ValueType.ANYTHING:
            return True


def has_names(value: object) -> bool:
    """Whether the names of all fields are texts, as those of JSON are."""
    if isinstance(value, dict):
        fields = cast(dict[object, object], value)
        return all(isinstance(name, str) and has_names(each) for name, each in fields.items())
    if isinstance(value, list):
        return all(has_names(each) for each in cast(list[object], value))
    return True


def is_port(value: object) -> TypeGuard[int]:
    """Whether it is the number of a port."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value < 65536


def to_text(value: object) -> str:
    """The text of a label or annotation: `true` and `5` are written without quotes, too."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))  # numbers of Helm are floating-point numbers
    return str(value)


def _is_duration(value: object) -> bool:
    try:
        msgspec.convert(value, Duration)
    except msgspec.ValidationError:
        return False
    return True


def _is_list_of(value: object, type_: type[object]) -> bool:
    return isinstance(value, list) and all(
        isinstance(each, type_) for each in cast(list[object], value)
    )
