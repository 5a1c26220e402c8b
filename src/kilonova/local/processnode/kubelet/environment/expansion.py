"""`$(NAME)` references in commands, arguments and values of variables. Pure."""

import re
from collections.abc import Callable, Mapping

_REFERENCE = re.compile(r"\$(?:(\$)|\(([^)]*)\))")


def expand_references(text: str, *variables: Mapping[str, str]) -> str:
    """Replace references; the first mapping that has the name wins.

    `$$` is a literal `$`; a reference to an unknown name is left unchanged.
    """

    def value(name: str) -> str:
        found = (each[name] for each in variables if name in each)
        return next(found, f"$({name})")

    return expand_references_with(text, value)


def expand_references_with(text: str, value: Callable[[str], str]) -> str:
    """Replace references by the values that a function returns."""

    def replaced(match: re.Match[str]) -> str:
        return "$" if match[1] else value(match[2])

    return _REFERENCE.sub(replaced, text)
