"""Paths to one field of a schema, as rules (`fieldPath`) and selectable fields write them."""

import re
from collections.abc import Iterator

from kilonova.local.schema.node import Schema

_TOKEN = re.compile(r"'(?:[^'\\]|\\.)*'?|[.\[\]]|[^.\[\]]+", re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


class PathError(ValueError):
    """A path that leads nowhere in the schema."""


def resolve_path(text: str, schema: Schema, brackets: bool = True) -> tuple[str, Schema]:
    """Where a path like `.spec.names['x']` leads, and the path as messages write it.

    `brackets` tells whether `['name']` may stand for `.name`.
    """
    tokens = iter(_TOKEN.findall(text))
    written = ""
    for mark in tokens:
        if mark == "[":
            if not brackets:
                raise PathError("array notation is not allowed")
            name = _quoted(_next(tokens))
        elif mark == ".":
            name = _next(tokens)
        else:
            raise PathError(f"expected [ or . but got: {mark}")
        if schema.properties:
            child = schema.properties.get(name)
            written += f".{name}" if written else name
        else:
            child = schema.additional
            written += f"[{name}]"
        if child is None:
            raise PathError("does not refer to a valid field")
        schema = child
        if mark == "[" and (closing := _next(tokens)) != "]":
            raise PathError(f"expected ] but got {closing}")
    return written, schema


def _next(tokens: Iterator[str]) -> str:
    token = next(tokens, None)
    if token is None:
        raise PathError("unexpected end of JSON path")
    return token


def _quoted(token: str) -> str:
    if len(token) < 2 or token[0] != "'" or token[-1] != "'":
        raise PathError(f"expected single quoted string but got {token}")

    def unescaped(match: re.Match[str]) -> str:
        character = match[1]
        if character in "'\\":
            return character
        if character not in _ESCAPES:
            raise PathError(f"invalid string literal: invalid escape char {match[0]}")
        return _ESCAPES[character]

    return _ESCAPED.sub(unescaped, token[1:-1])
