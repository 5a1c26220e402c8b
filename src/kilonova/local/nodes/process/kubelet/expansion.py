"""`$(NAME)` in commands, arguments and values of variables. Pure."""

import re
from collections.abc import Callable, Mapping

_REFERENCE = re.compile(r"\$(?:(\$)|\(([^)]*)\))")


def expand(text: str, *variables: Mapping[str, str]) -> str:
    """With references replaced, the first mapping that has a name wins.

    `$$` stands for `$`; a reference that nothing answers stays as it is.
    """

    def value(name: str) -> str:
        found = (each[name] for each in variables if name in each)
        return next(found, f"$({name})")

    return expand_by(text, value)


def expand_by(text: str, value: Callable[[str], str]) -> str:
    """With references replaced by what a function says."""

    def replaced(match: re.Match[str]) -> str:
        return "$" if match[1] else value(match[2])

    return _REFERENCE.sub(replaced, text)
