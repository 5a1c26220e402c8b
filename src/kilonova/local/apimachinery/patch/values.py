"""Plain JSON values: copying, comparing, and formatting as in Kubernetes' messages."""

from typing import Any


def deep_copy(value: Any) -> Any:
    """A copy that shares no mutable value with `value`."""
    kind = value.__class__
    if kind is dict:
        result = value.copy()
        for key, item in value.items():
            kind = item.__class__
            if kind is dict or kind is list:
                result[key] = deep_copy(item)
        return result
    if kind is list:
        return [
            deep_copy(item) if item.__class__ is dict or item.__class__ is list else item
            for item in value
        ]
    return value


def json_equal(left: Any, right: Any) -> bool:
    """JSON equality: unlike Python's `==`, true is not 1; like it, 1 is 1.0."""
    if left is right:
        return True
    if left != right:
        return False
    return _same_boolean_positions(left, right)


def _same_boolean_positions(left: Any, right: Any) -> bool:
    """Whether values that Python compares equal have booleans in the same positions."""
    kind = left.__class__
    if kind is dict:
        return all(_same_boolean_positions(item, right[key]) for key, item in left.items())
    if kind is list:
        return all(map(_same_boolean_positions, left, right))
    return (kind is bool) == (type(right) is bool)


def format_go_value(value: Any) -> str:
    """The value as Go's `%v` formats it; some of Kubernetes' messages contain such text."""
    if value is None:
        return "<nil>"
    if value is True:
        return "true"
    if value is False:
        return "false"
    kind = value.__class__
    if kind is dict:
        return f"map[{' '.join(f'{key}:{format_go_value(value[key])}' for key in sorted(value))}]"
    if kind is list:
        return f"[{' '.join(format_go_value(item) for item in value)}]"
    if kind is float:
        return _go_float(value)
    return str(value)


def go_type(value: Any) -> str:
    """The Go type of a decoded JSON value."""
    return _GO_TYPES[type(value)]


def go_json_kind(value: Any) -> str:
    """Go's JSON decoder's name for the kind of a value, in its type errors."""
    return _GO_KINDS[type(value)]


_GO_TYPES: dict[type, str] = {
    type(None): "<nil>",
    bool: "bool",
    str: "string",
    int: "int64",
    float: "float64",
    list: "[]interface {}",
    dict: "map[string]interface {}",
}

_GO_KINDS: dict[type, str] = {
    type(None): "null",
    bool: "bool",
    str: "string",
    int: "number",
    float: "number",
    list: "array",
    dict: "object",
}


def _go_float(value: float) -> str:
    if value.is_integer() and abs(value) < 1e21:
        return str(int(value))
    mantissa, _, exponent = repr(value).partition("e")
    if not exponent:
        return mantissa
    sign = "-" if exponent.startswith("-") else "+"
    return f"{mantissa}e{sign}{exponent.lstrip('+-').rjust(2, '0')}"
