"""A finding of `kilonova doctor`: level, subject, observation and fix.

A component adds findings by a check of its own, a `ComponentCheck` that its registration refers to.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Literal

import msgspec

from kilonova.kube import Client

Level = Literal["ok", "warning", "problem"]


class Finding(msgspec.Struct, frozen=True):
    """One line of the report."""

    level: Level
    check: str
    message: str
    fix: str = ""


def ok(check: str, message: str) -> Finding:
    """A passed check."""
    return Finding("ok", check, message)


def warning(check: str, message: str, fix: str) -> Finding:
    """Something may not work."""
    return Finding("warning", check, message, fix)


def problem(check: str, message: str, fix: str) -> Finding:
    """Something does not work."""
    return Finding("problem", check, message, fix)


ComponentCheck = Callable[[Client], Awaitable[Sequence[Finding]]]
"""Checks a component on the cluster of a client; it only reads."""
