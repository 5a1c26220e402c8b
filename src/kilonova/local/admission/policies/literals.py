"""Objects and patches as expressions write them: `Object.spec{replicas: 3}`, `JSONPatch{op: …}`.

To the runtime these are types that it does not know. They are rewritten to maps, field by field,
before an expression is compiled; as values of one map must be of one type, each is made `dyn`.
An object keeps the name of its type beside its fields, until `untyped` has looked whether it
stands where its name says.
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


def plain_literals(source: str) -> str:
    """The expression with maps in place of objects and patches.

    What is not well formed stays as it is: the compiler will say what is wrong.
    """
    return _rewritten(_TOKEN.findall(source))


def untyped(value: Any, path: str, problems: list[str]) -> Any:
    """A value without the names of types; names that do not fit their place are `problems`.

    `path` is what the type of the value must be called: `Object.spec`.
    """
    if isinstance(value, list):
        return [untyped(item, path, problems) for item in cast(list[Any], value)]
    if not isinstance(value, dict):
        return value
    fields = cast(JsonObject, value)
    name = fields.get(_TYPE)
    if name is None:
        return {key: untyped(item, path, problems) for key, item in fields.items()}
    if name != path:
        problems.append(
            f'unexpected type name "{name}", expected "{path}", which matches field name path '
            "from root Object type"
        )
    return {
        key: untyped(item, f"{path}.{key}", problems)
        for key, item in fields.items()
        if key != _TYPE
    }


def type_of(value: Any) -> str:
    """The name of the type of an object; empty for other values."""
    return cast(JsonObject, value).get(_TYPE, "") if isinstance(value, dict) else ""


def _rewritten(tokens: Sequence[str]) -> str:
    result: list[str] = []
    at = 0
    while at < len(tokens):
        begin = _literal(tokens, at) if tokens[at] in _TYPES and _starts(result) else None
        made = None if begin is None else _map(tokens, at, begin)
        if made is None:
            result.append(tokens[at])
            at += 1
        else:
            text, at = made
            result.append(text)
    return "".join(result)


def _starts(before: Sequence[str]) -> bool:
    """Whether a name here is not a field of something."""
    last = next((token for token in reversed(before) if not token.isspace()), "")
    return last != "."


def _literal(tokens: Sequence[str], at: int) -> int | None:
    """Where the braces of a literal open whose type begins here: `Object.spec.template {`."""
    at = _next(tokens, at + 1)
    while at < len(tokens) and tokens[at] == ".":
        at = _next(tokens, at + 1)
        if at >= len(tokens) or not _is_field(tokens[at]):
            return None
        at = _next(tokens, at + 1)
    return at if at < len(tokens) and tokens[at] == "{" else None


def _map(tokens: Sequence[str], begin: int, brace: int) -> tuple[str, int] | None:
    """The map for the fields after `brace`, and where to go on. The type is written before."""
    name = "".join(token for token in tokens[begin:brace] if not token.isspace())
    entries = [] if name == "JSONPatch" else [f'"{_TYPE}": dyn("{name}")']
    at = _next(tokens, brace + 1)
    while at < len(tokens) and tokens[at] != "}":
        optional = tokens[at] == "?"
        if optional:
            at = _next(tokens, at + 1)
        if at >= len(tokens) or not _is_field(tokens[at]):
            return None
        field = tokens[at].strip("`")
        at = _next(tokens, at + 1)
        if at >= len(tokens) or tokens[at] != ":":
            return None
        end = _end_of_value(tokens, at + 1)
        value = _rewritten(tokens[at + 1 : end]).strip()
        entries.append(f'?"{field}": {value}' if optional else f'"{field}": dyn({value})')
        if end < len(tokens) and tokens[end] == ",":
            end = _next(tokens, end + 1)
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


def _next(tokens: Sequence[str], at: int) -> int:
    """The next token that is more than space."""
    while at < len(tokens) and (tokens[at].isspace() or tokens[at].startswith("//")):
        at += 1
    return at
