"""Matching of `pattern` in linear time.

The author of a definition chooses the pattern, the author of an object chooses the text, and all
requests share the event loop. Python's engine backtracks: `(a+)+$` takes it years on forty letters.
So it is used only for patterns that cannot backtrack. All others are matched by RE2, which is
linear and comes with the CEL runtime; it takes ten microseconds for a short text, Python's engine
one.
"""

import re
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any

from kilonova.cel.optional_imports import without_protobuf
from kilonova.local.apiserver.schema.structural.patterns import PatternError, compile_pattern

PatternPredicate = Callable[[str], bool]

_repetition = re.compile(r"[*+?{]").findall


@lru_cache(maxsize=1024)
def pattern_matcher(pattern: str) -> PatternPredicate:
    """A predicate that searches the pattern in a text. Raises `PatternError` with Go's message."""
    compiled = compile_pattern(pattern)
    if _cannot_backtrack(pattern):
        search = compiled.search
        return lambda text: search(text) is not None
    return _linear_matcher(pattern)


def _cannot_backtrack(pattern: str) -> bool:
    """No repetition, or a single one that is anchored at the start of the text."""
    repeated = len(_repetition(pattern))
    return not repeated or (repeated == 1 and pattern.startswith("^") and "|" not in pattern)


def _linear_matcher(pattern: str) -> PatternPredicate:
    environment = _cel_environment()
    # Written as code points, no pattern can terminate the string literal that contains it.
    literal = "".join(f"\\U{ord(letter):08x}" for letter in pattern)
    expression = environment.compile(f'text.matches("{literal}")')

    def matches(text: str) -> bool:
        result = expression.eval(environment.Activation({"text": text}))
        return result.value() is True

    outcome = expression.eval(environment.Activation({"text": ""}))
    if outcome.type().name() == "ERROR":
        detail = str(outcome.value()).rpartition("invalid regular expression: ")[2]
        raise PatternError(f"error parsing regexp: {detail}: `{pattern}`")
    return matches


@cache
def _cel_environment() -> Any:
    from cel_expr_python import cel

    with without_protobuf():
        return cel.NewEnv(variables={"text": cel.Type.STRING})
