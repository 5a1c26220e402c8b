"""Lines on a terminal: how wide they are, and what is left of them on a narrow one."""

import re

_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")

PLAIN = "\x1b[0m"


def one_line(text: str) -> str:
    """What others wrote, as it can stand in a line: without breaks, and without anything that a
    terminal would obey."""
    return "".join(filter(str.isprintable, " ".join(text.split())))


def width_of(line: str) -> int:
    """How many columns a line takes."""
    return len(_ESCAPE.sub("", line))


def cropped(line: str, width: int) -> str:
    """As much of a line as there is room for; colours end with it."""
    if width_of(line) <= width:
        return line
    kept: list[str] = []
    room = width - 1
    place = 0
    for escape in _ESCAPE.finditer(line):
        text = line[place : escape.start()][:room]
        kept += [text, escape[0]]
        room -= len(text)
        place = escape.end()
    kept += [line[place:][:room], "…", PLAIN if "\x1b" in line else ""]
    return "".join(kept)
