"""Paths to one field of a schema, in rules (`fieldPath`) and selectable fields."""

import re
from collections.abc import Iterator

from kilonova.local.apiserver.schema.node import Schema

_TOKEN = re.compile(r"'(?:[^'\\]|\\.)*'?|[.\[\]]|[^.\[\]]+", re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


class PathError(ValueError):
    """A path that does not exist in the schema."""


def resolve_path(text: str, schema: Schema, brackets: bool = True) -> tuple[str, Schema]:
    """Resolve a path like `.spec.names['x']`; returns the schema and the path for messages.

    `brackets`: whether `['name']` is allowed for `.name`.
    """
    parts = iter(_TOKEN.findall(text))
    formatted = ""
    for part in parts:
        if part == "[":
            if not brackets:
                raise PathError("array notation is not allowed")
            name = _unquote(_next_token(parts))
        elif part == ".":
            name = _next_token(parts)
        else:
            raise PathError(f"expected [ or . but got: {part}")
        if schema.properties:
            child = schema.properties.get(name)
            formatted += f".{name}" if formatted else name
        else:
            child = schema.additional
            formatted += f"[{name}]"
        if child is None:
            raise PathError("does not refer to a valid field")
        schema = child
        if part == "[" and (closing := _next_token(parts)) != "]":
            raise PathError(f"expected ] but got {closing}")
    return formatted, schema


def _next_token(parts: Iterator[str]) -> str:
    part = next(parts, None)
    if part is None:
        raise PathError("unexpected end of JSON path")
    return part


def _unquote(part: str) -> str:
    if len(part) < 2 or part[0] != "'" or part[-1] != "'":
        raise PathError(f"expected single quoted string but got {part}")

    def unescaped(match: re.Match[str]) -> str:
        character = match[1]
        if character in "'\\":
            return character
        if character not in _ESCAPES:
            raise PathError(f"invalid string literal: invalid escape char {match[0]}")
        return _ESCAPES[character]

    return _ESCAPED.sub(unescaped, part[1:-1])
