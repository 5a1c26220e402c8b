"""Whether a text matches a `pattern`, in time that grows with the text and no faster.

The author of a definition chooses the pattern, whoever writes an object chooses the text, and
everybody waits for the event loop. Python's engine backtracks: `(a+)+$` takes it years on forty
letters. So it is given only patterns that cannot backtrack. All others go to RE2, which is linear
and comes with the CEL runtime; it costs ten microseconds for a short text, Python's engine one.
"""

import re
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any

from kilonova.local.schema.patterns import PatternError, compile_pattern

Matches = Callable[[str], bool]

_repetition = re.compile(r"[*+?{]").findall


@lru_cache(maxsize=1024)
def matcher(pattern: str) -> Matches:
    """What tells whether a text matches anywhere. Raises `PatternError`, in Go's words."""
    compiled = compile_pattern(pattern)
    if _cannot_backtrack(pattern):
        search = compiled.search
        return lambda text: search(text) is not None
    return _linear(pattern)


def _cannot_backtrack(pattern: str) -> bool:
    """Nothing is repeated, or one thing from the start of the text on."""
    repeated = len(_repetition(pattern))
    return not repeated or (repeated == 1 and pattern.startswith("^") and "|" not in pattern)


def _linear(pattern: str) -> Matches:
    environment = _environment()
    # Written in code points, no pattern can end the text that it stands in.
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
def _environment() -> Any:
    from cel_expr_python import cel

    return cel.NewEnv(variables={"text": cel.Type.STRING})
