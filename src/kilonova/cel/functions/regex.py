"""find and findAll.

The search is RE2's, through the CEL runtime: its time is linear in the text, whereas Python's `re`
may backtrack without end on a user's pattern.
"""

from functools import cache
from typing import Any

from kilonova.cel.functions.declaration import FunctionLibrary
from kilonova.cel.optional_imports import without_protobuf

TEXTS = FunctionLibrary()


@TEXTS.method("find", "string, string -> string")
def find(text: str, pattern: str) -> str:
    found = _matches(text, pattern, 1)
    return found[0] if found else ""


@TEXTS.method(
    "findAll",
    "string, string -> list(string)",
    "string, string, int -> list(string)",
)
def find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    return _matches(text, pattern, limit)


def _matches(text: str, pattern: str, limit: int) -> list[str]:
    """Matches are marked by a replacement, and extracted from its result."""
    if limit == 0:
        return []
    opening, closing = _unused_characters(text)
    marked = _replacer().eval(
        data={
            "text": text,
            "pattern": f"({pattern})",
            "marked": f"{opening}\\1{closing}",
            "limit": limit,
        }
    )
    result: str = marked.value()
    if marked.type().name() == "ERROR":
        raise ValueError(f"Illegal regex: {result.removeprefix('INVALID_ARGUMENT: ')}")
    return [part.partition(closing)[0] for part in result.split(opening)[1:]]


def _unused_characters(text: str) -> tuple[str, str]:
    """Two characters of Unicode's private use area that the text does not contain."""
    unused = (mark for mark in map(chr, range(0xE000, 0xF8FF)) if mark not in text)
    return next(unused), next(unused)


@cache
def _replacer() -> Any:
    from cel_expr_python import cel

    config = cel.NewEnvConfigFromYaml("extensions:\n  - name: regex\n  - name: optional\n")
    texts = dict.fromkeys(("text", "pattern", "marked"), cel.Type.STRING)
    with without_protobuf():
        environment = cel.NewEnv(config=config, variables={**texts, "limit": cel.Type.INT})
    return environment.compile("regex.replace(text, pattern, marked, limit)")
