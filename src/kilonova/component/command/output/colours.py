"""Terminal colours of states; off if the output is not a terminal."""

import os
from collections.abc import Mapping
from typing import Literal, TextIO

Colour = Literal["", "green", "yellow", "red", "blue", "grey"]

_CODES: dict[Colour, str] = {"green": "32", "yellow": "33", "red": "31", "blue": "36", "grey": "90"}

_STATES_BY_COLOUR: dict[Colour, tuple[str, ...]] = {
    "red": (
        *("NotReady", "Unknown", "GPULost", "Failed", "Degraded", "Error", "CrashLoopBackOff"),
        *("problem", "Lost", "no"),
    ),
    "yellow": (
        *("Pending", "Partial", "Creating", "Starting", "Updating", "Suspended", "Cordoned"),
        "warning",
    ),
    "grey": ("Deleted", "Terminating", "Empty"),
    "green": ("Ready", "Running", "Succeeded", "Completed", "yes", "ok"),
}
"""Most severe first."""


def should_use_colour(stream: TextIO, environment: Mapping[str, str] = os.environ) -> bool:
    """Whether to colour a stream: NO_COLOR, then CLICOLOR_FORCE, else on terminals."""
    if environment.get("NO_COLOR"):
        return False
    if environment.get("CLICOLOR_FORCE", "0") != "0":
        return True
    return stream.isatty() and environment.get("TERM") != "dumb"


def paint(text: str, colour: Colour) -> str:
    """Text in a colour, followed by a reset."""
    return f"\x1b[{_CODES[colour]}m{text}\x1b[0m" if colour and text else text


def colour_of_state(state: str) -> Colour:
    """The colour of the most severe word of a state: `Ready,Cordoned` is coloured as `Cordoned`."""
    words = state.replace(",", " ").split()
    for colour, known in _STATES_BY_COLOUR.items():
        if any(word in known for word in words):
            return colour
    return ""
