"""Colours on terminals: for states only, and never where a program reads."""

import os
from collections.abc import Mapping
from typing import Literal, TextIO

Colour = Literal["", "green", "yellow", "red", "blue", "grey"]

_CODES: dict[Colour, str] = {"green": "32", "yellow": "33", "red": "31", "blue": "36", "grey": "90"}

_STATES: dict[Colour, tuple[str, ...]] = {
    "red": (
        *("NotReady", "Unknown", "GPULost", "Failed", "Degraded", "Error", "CrashLoopBackOff"),
        *("problem", "Lost", "no"),
    ),
    "yellow": (
        *("Pending", "Waiting", "Partial", "Starting", "Updating", "Suspended", "Cordoned"),
        "warning",
    ),
    "grey": ("Deleted", "Terminating", "Empty"),
    "green": ("Ready", "Running", "Succeeded", "Completed", "yes", "ok"),
}
"""The worst first."""


def wanted(stream: TextIO, environment: Mapping[str, str] = os.environ) -> bool:
    """Whether what goes to a stream is coloured: NO_COLOR, CLICOLOR_FORCE, else on terminals."""
    if environment.get("NO_COLOR"):
        return False
    if environment.get("CLICOLOR_FORCE", "0") != "0":
        return True
    return stream.isatty() and environment.get("TERM") != "dumb"


def painted(text: str, colour: Colour) -> str:
    """Text in a colour; what is around it stays as it is."""
    return f"\x1b[{_CODES[colour]}m{text}\x1b[0m" if colour and text else text


def of_state(state: str) -> Colour:
    """The colour of a state, by the worst of its words: `Ready,Cordoned` is as `Cordoned`."""
    words = state.replace(",", " ").split()
    for colour, known in _STATES.items():
        if any(word in known for word in words):
            return colour
    return ""
