"""A finding of `kilonova doctor`: how bad, about what, what was found, what to do."""

from typing import Literal

import msgspec

Level = Literal["ok", "warning", "problem"]


class Finding(msgspec.Struct, frozen=True):
    """One line of the report."""

    level: Level
    what: str
    found: str
    fix: str = ""


def ok(what: str, found: str) -> Finding:
    """As it should be."""
    return Finding("ok", what, found)


def warning(what: str, found: str, fix: str) -> Finding:
    """Something may not work."""
    return Finding("warning", what, found, fix)


def problem(what: str, found: str, fix: str) -> Finding:
    """Something does not work."""
    return Finding("problem", what, found, fix)
