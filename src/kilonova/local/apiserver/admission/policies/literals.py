"""Object and patch literals of expressions: `Object.spec{replicas: 3}`, `JSONPatch{op: …}`.

The runtime does not know these types. They are rewritten to maps, field by field, before an
expression is compiled; as values of one map must have one type, each is made `dyn`. An object keeps
its type name beside its fields, until `strip_types` has checked that it matches its position.
"""

import re
from collections.abc import Sequence
from typing import Any, cast

from kilonova.api.json import JsonObject

_TOKEN = re.compile(
    r"""
      [rR] (?: '''.*?''' | \"\"\".*?\"\"\" | '[^'\n]*' | "[^"\n]*" )
    | [bB]? (?: '''(?:\\.|[^\\])*?''' | \"\"\"(?:\\.|[^\\])*?\"\"\" )
    | [bB]? (?: '(?:\\.|[^'\\\n])*' | "(?:\\.|[^"\\\n])*" )
    | //[^\n]*
    | `[^`\n]+`
    | [_a-zA-Z][_a-zA-Z0-9]*
    | \s+
    | .
    """,
    re.VERBOSE | re.DOTALL,
)
_TYPES = ("Object", "JSONPatch")
_TYPE = "@type"
_OPENING, _CLOSING = ("(", "[", "{"), (")", "]", "}")
_is_field = re.compile(r"`[^`]+`|[_a-zA-Z][_a-zA-Z0-9]*").fullmatch


def rewrite_typed_literals(source: str) -> str:
    """The expression with maps in place of objects and patches.

    Malformed literals stay as they are: the compiler reports the error.
    """
    return _rewrite(_TOKEN.findall(source))


def strip_types(value: Any, path: str, problems: list[str]) -> Any:
    """A value without type names; names that do not match their position are `problems`.

    `path` is the expected type name of the value: `Object.spec`.
    """
    if isinstance(value, list):
        return [strip_types(item, path, problems) for item in cast(list[Any], value)]
    if not isinstance(value, dict):
        return value
    fields = cast(JsonObject, value)
    name = fields.get(_TYPE)
    if name is None:
        return {key: strip_types(item, path, problems) for key, item in fields.items()}
    if name != path:
        problems.append(
            f'unexpected type name "{name}", expected "{path}", which matches field name path '
            "from root Object type"
        )
    return {
        key: strip_types(item, f"{path}.{key}", problems)
        for key, item in fields.items()
        if key != _TYPE
    }


def type_name_of(value: Any) -> str:
    """The name of the type of an object; empty for other values."""
    return cast(JsonObject, value).get(_TYPE, "") if isinstance(value, dict) else ""


def _rewrite(tokens: Sequence[str]) -> str:
    result: list[str] = []
    at = 0
    while at < len(tokens):
        start = (
            _find_literal_brace(tokens, at)
            if tokens[at] in _TYPES and _starts_expression(result)
            else None
        )
        made = None if start is None else _rewrite_fields(tokens, at, start)
        if made is None:
            result.append(tokens[at])
            at += 1
        else:
            text, at = made
            result.append(text)
    return "".join(result)


def _starts_expression(before: Sequence[str]) -> bool:
    """Whether a name here is not a field of another value."""
    last = next((token for token in reversed(before) if not token.isspace()), "")
    return last != "."


def _find_literal_brace(tokens: Sequence[str], at: int) -> int | None:
    """The opening brace of a literal whose type starts here: `Object.spec.template {`."""
    at = _next_token(tokens, at + 1)
    while at < len(tokens) and tokens[at] == ".":
        at = _next_token(tokens, at + 1)
        if at >= len(tokens) or not _is_field(tokens[at]):
            return None
        at = _next_token(tokens, at + 1)
    return at if at < len(tokens) and tokens[at] == "{" else None


def _rewrite_fields(tokens: Sequence[str], start: int, brace: int) -> tuple[str, int] | None:
    """The map for the fields after `brace`, and where to continue. The type precedes it."""
    name = "".join(token for token in tokens[start:brace] if not token.isspace())
    entries = [] if name == "JSONPatch" else [f'"{_TYPE}": dyn("{name}")']
    at = _next_token(tokens, brace + 1)
    while at < len(tokens) and tokens[at] != "}":
        optional = tokens[at] == "?"
        if optional:
            at = _next_token(tokens, at + 1)
        if at >= len(tokens) or not _is_field(tokens[at]):
            return None
        field = tokens[at].strip("`")
        at = _next_token(tokens, at + 1)
        if at >= len(tokens) or tokens[at] != ":":
            return None
        end = _end_of_value(tokens, at + 1)
        value = _rewrite(tokens[at + 1 : end]).strip()
        entries.append(f'?"{field}": {value}' if optional else f'"{field}": dyn({value})')
        if end < len(tokens) and tokens[end] == ",":
            end = _next_token(tokens, end + 1)
        at = end
    return ("{" + ", ".join(entries) + "}", at + 1) if at < len(tokens) else None


def _end_of_value(tokens: Sequence[str], at: int) -> int:
    depth = 0
    while at < len(tokens):
        token = tokens[at]
        if depth == 0 and token in (",", "}"):
            break
        depth += (token in _OPENING) - (token in _CLOSING)
        at += 1
    return at


def _next_token(tokens: Sequence[str], at: int) -> int:
    """The next token that is not whitespace."""
    while at < len(tokens) and (tokens[at].isspace() or tokens[at].startswith("//")):
        at += 1
    return at
