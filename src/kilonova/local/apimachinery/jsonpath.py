r"""JSONPath as CustomResourceDefinitions use it, in printer columns and selectable fields.

This is Kubernetes' own dialect: `.spec.x`, `['x']`, `[0]`, `[-1]`, `[1:3]`, `[*]`, `.*`,
`['a','b']`, `..name`, `[?(@.type=="Ready")].status`. A dot inside a name is written `\.`, also
between quotes. A path is compiled once to a chain of functions from values to values.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, cast

import msgspec

Values = list[Any]
_Step = Callable[[Values], Values]

_QUOTED_KEY = re.compile(r"'([^']*)'")
_SLICE = re.compile(r"(-?[0-9]*)(:-?[0-9]*)?(:-?[0-9]*)?")
_COMPARISON = re.compile(r"([^!<>=]+)([!<>=]+)(.+)", re.DOTALL)
_NUMBER = re.compile(r"[+-]?[0-9.]+")
_NAME_ENDS = frozenset(" \t\r\n.,[]$@{}")


class JsonPathError(ValueError):
    """The path does not parse, or cannot be evaluated on a value."""


class JsonPath:
    """A compiled path."""

    __slots__ = ("_steps", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self._steps = _Parser(text).steps()

    def find(self, obj: Any) -> Values:
        """All values at the path, in order; a missing field has none.

        Raises `JsonPathError` where a step does not apply to the value (an index out of bounds).
        """
        values: Values = [obj]
        for step in self._steps:
            values = step(values)
            if not values:
                break
        return values

    def first(self, obj: Any) -> Any:
        """The first value, or None if there is none: what a printer column shows."""
        try:
            values = self.find(obj)
        except JsonPathError:
            return None
        return values[0] if values else None


def format_value(value: Any) -> str:
    """Format a value as the text that Kubernetes prints for it."""
    if isinstance(value, str):
        return value
    if value is None:
        return "<no value>"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (dict, list)):
        text = msgspec.json.encode(cast(object, value), order="sorted").decode()
        # Go's encoder escapes these characters for use inside HTML.
        return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
    if isinstance(value, float):
        return _format_float(value)
    return str(value)


def _format_float(value: float) -> str:
    if value.is_integer() and abs(value) < 1e21:
        return str(int(value))
    return re.sub(r"e([+-])(\d)$", r"e\g<1>0\2", repr(value))


class _Parser:
    """Parses a path from left to right into steps."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0

    def steps(self) -> list[_Step]:
        steps: list[_Step] = []
        after_descent = False
        while self._position < len(self._text):
            rest = self._text[self._position :]
            descent = rest.startswith("..")
            if rest.startswith("[?("):
                steps.append(self._parse_filter())
            elif descent:
                if after_descent:
                    raise JsonPathError("invalid multiple recursive descent")
                self._position += 2
                steps.append(_descendants)
                if self._position < len(self._text) and self._text[self._position].isidentifier():
                    steps.append(self._parse_field())
                    descent = False
            elif rest[0] in " @$":
                self._position += 1
            elif rest[0] == "[":
                steps += self._parse_brackets()
            elif rest[0] == ".":
                self._position += 1
                steps.append(self._parse_field())
            elif rest[0] in "\"'":
                steps.append(_constant_step(self._parse_quoted(rest[0])))
            elif match := _NUMBER.match(rest):
                self._position += match.end()
                steps.append(_constant_step(_parse_number(match[0])))
            elif match := re.match("true|false", rest):
                self._position += match.end()
                steps.append(_constant_step(match[0] == "true"))
            else:
                raise JsonPathError(f"unrecognized character in action: {rest[0]!r}")
            after_descent = descent
        return steps

    def _parse_field(self) -> _Step:
        name: list[str] = []
        text = self._text
        while self._position < len(text) and text[self._position] not in _NAME_ENDS:
            if text[self._position] == "\\":
                self._position += 1
                if self._position == len(text):
                    break
            name.append(text[self._position])
            self._position += 1
        return _children if name == ["*"] else _field_step("".join(name))

    def _parse_brackets(self) -> list[_Step]:
        end = self._text.find("]", self._position)
        if end < 0:
            raise JsonPathError("unterminated array")
        inside = self._text[self._position + 1 : end]
        self._position = end + 1
        if "," in inside:
            return [_union_step([JsonPath(f"[{part.strip()}]") for part in inside.split(",")])]
        if match := _QUOTED_KEY.fullmatch(inside):
            return _Parser(f".{match[1]}").steps()
        match = _SLICE.fullmatch(":" if inside == "*" else inside)
        if match is None:
            raise JsonPathError(f"invalid array index {inside}")
        start, stop, stride = (
            None if part is None else part.lstrip(":") for part in match.groups()
        )
        return [
            _slice_step(
                _parse_index(start),
                None if stop is None else (_parse_index(stop),),
                _parse_index(stride),
            )
        ]

    def _parse_filter(self) -> _Step:
        start = self._position + 3
        quote = ""
        for at in range(start, len(self._text)):
            character = self._text[at]
            if quote:
                if character == quote and self._text[at - 1] != "\\":
                    quote = ""
            elif character in "\"'":
                quote = character
            elif character == ")":
                break
        else:
            raise JsonPathError("unterminated filter")
        if self._text[at + 1 : at + 2] != "]":
            raise JsonPathError("unclosed array expect ]")
        self._position = at + 2
        inside = self._text[start:at]
        match = _COMPARISON.fullmatch(inside)
        if match is None:
            return _exists_step(JsonPath(inside))
        if match[2] not in _OPERATORS:
            raise JsonPathError(f"unrecognized filter operator {match[2]}")
        return _compare_step(JsonPath(match[1]), _OPERATORS[match[2]], JsonPath(match[3]))

    def _parse_quoted(self, quote: str) -> str:
        at = self._position + 1
        while at < len(self._text) and (self._text[at] != quote or self._text[at - 1] == "\\"):
            at += 1
        if at >= len(self._text):
            raise JsonPathError("unterminated quoted string")
        inside = self._text[self._position + 1 : at]
        self._position = at + 1
        return re.sub(r"\\(.)", r"\1", inside)


def _parse_index(text: str | None) -> int | None:
    return int(text) if text and text != "-" else None


def _parse_number(text: str) -> int | float:
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        raise JsonPathError(f"cannot parse number {text}") from None


def _constant_step(value: Any) -> _Step:
    return lambda values: [value] * len(values)


def _field_step(name: str) -> _Step:
    def step(values: Values) -> Values:
        return [value[name] for value in values if isinstance(value, dict) and name in value]

    return step


def _children(values: Values) -> Values:
    found: Values = []
    for value in values:
        if isinstance(value, dict):
            found.extend(cast(dict[str, Any], value).values())
        elif isinstance(value, list):
            found.extend(cast(Values, value))
    return found


def _descendants(values: Values) -> Values:
    found: Values = []
    for value in values:
        below = _children([value])
        if below:
            found.append(value)
            found.extend(_descendants(below))
    return found


def _union_step(paths: list[JsonPath]) -> _Step:
    def step(values: Values) -> Values:
        return [found for path in paths for value in values for found in path.find(value)]

    return step


def _slice_step(start: int | None, stop: tuple[int | None] | None, stride: int | None) -> _Step:
    """`stop` is None for a single index, and contains None for a slice up to the end."""

    def step(values: Values) -> Values:
        found: Values = []
        for value in values:
            if value is None:
                continue
            if not isinstance(value, list):
                raise JsonPathError(f"{type(value).__name__} is not array or slice")
            items = cast(Values, value)
            first = start or 0
            if first < 0:
                first += len(items)
            if stop is None:
                last = first + 1
            elif stop[0] is None:
                last = len(items)
            else:
                last = stop[0] + len(items) if stop[0] < 0 else stop[0]
            if first == last:
                continue
            if not (0 <= first < len(items) and first <= last <= len(items)):
                raise JsonPathError(
                    f"array index out of bounds: index {first}, length {len(items)}"
                )
            found.extend(items[first : last : stride or 1])
        return found

    if stride is not None and stride <= 0:
        raise JsonPathError("step must be > 0")
    return step


def _exists_step(path: JsonPath) -> _Step:
    return lambda values: [item for item in _flatten_items(values) if path.find(item)]


def _compare_step(left: JsonPath, holds: Callable[[Any, Any], bool], right: JsonPath) -> _Step:
    def passes(item: Any) -> bool:
        first, second = left.find(item), right.find(item)
        if len(first) > 1 or len(second) > 1:
            raise JsonPathError("can only compare one element at a time")
        if not first or not second:
            return False
        if type(first[0]) is not type(second[0]):
            raise JsonPathError("incompatible types for comparison")
        return holds(first[0], second[0])

    return lambda values: [item for item in _flatten_items(values) if passes(item)]


def _flatten_items(values: Values) -> Values:
    items: Values = []
    for value in values:
        if not isinstance(value, list):
            raise JsonPathError(f"{value} is not array or slice and cannot be filtered")
        items.extend(cast(Values, value))
    return items


_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "==": lambda left, right: left == right,
    "!=": lambda left, right: left != right,
    "<": lambda left, right: left < right,
    "<=": lambda left, right: left <= right,
    ">": lambda left, right: left > right,
    ">=": lambda left, right: left >= right,
}
