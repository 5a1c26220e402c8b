"""Terminal colours of states; off if the output is not a terminal."""

import os
from collections.abc import Iterable, Mapping
from typing import Literal, TextIO
from zlib import crc32

Colour = Literal["", "green", "yellow", "red", "blue", "grey"]

_CODES: dict[Colour, str] = {"green": "32", "yellow": "33", "red": "31", "blue": "36", "grey": "90"}

_PALETTE = (39, 208, 42, 213, 220, 75, 203, 114, 141, 179, 51, 197, 148, 105, 173, 45)
"""Of the 256 terminal colours: distinct, readable on dark and on light backgrounds."""

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


def assign_owner_colours(names: Iterable[str]) -> dict[str, int]:
    """A colour for each owner, of the 256 of terminals.

    It is chosen by the hash of the name, so that it is stable while other owners come and go, and
    distinct as long as there are enough colours.
    """
    colours: dict[str, int] = {}
    free = set(_PALETTE)
    for name in sorted(set(names)):
        preferred = crc32(name.encode())
        probes = (_PALETTE[(preferred + step) % len(_PALETTE)] for step in range(len(_PALETTE)))
        colours[name] = next(
            (each for each in probes if each in free), _PALETTE[preferred % len(_PALETTE)]
        )
        free.discard(colours[name])
    return colours


def paint_with(text: str, number: int) -> str:
    """Text in one of the 256 colours, followed by a reset."""
    return f"\x1b[38;5;{number}m{text}\x1b[0m"
