"""What the terminal of a command can show."""

import shutil
from dataclasses import dataclass
from typing import Literal, TextIO

from kilonova.component.command.output.colours import should_use_colour

_MIN_WIDTH = 40


@dataclass(frozen=True, slots=True)
class Terminal:
    """Width, colours, and whether it shows more than ASCII."""

    width: int
    coloured: bool
    ascii_only: bool


def find_terminal(
    stream: TextIO, width: int, color: Literal["auto", "always", "never"]
) -> Terminal:
    """The terminal of a stream; a width of 0 is its own, and 80 if it has none."""
    encoding = (stream.encoding or "ascii").lower().replace("-", "")
    coloured = should_use_colour(stream) if color == "auto" else color == "always"
    columns = width or shutil.get_terminal_size((80, 24)).columns
    return Terminal(max(columns, _MIN_WIDTH), coloured, not encoding.startswith("utf"))
