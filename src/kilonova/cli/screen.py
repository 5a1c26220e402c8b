"""Lines on a terminal: how wide they are, and what is left of them on a narrow one."""

import re
from unicodedata import category, east_asian_width

_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")

_PIECES = re.compile(rf"{_ESCAPE.pattern}|\s+|[^\s\x1b]+")
_INDENT = 14

PLAIN = "\x1b[0m"


def one_line(text: str) -> str:
    """What others wrote, as it can stand in a line: without breaks, and without anything that a
    terminal would obey."""
    return "".join(filter(str.isprintable, " ".join(text.split())))


def tamed(line: str) -> str:
    """A line of ours with what others wrote in it, as `one_line` has it; but its columns stay."""
    if line.isprintable():
        return line
    blank = (" " if letter.isspace() else letter for letter in line)
    return "".join(filter(str.isprintable, blank))


def width_of(line: str) -> int:
    """How many columns a line takes: letters of East Asia and pictures take two, accents none."""
    text = _ESCAPE.sub("", line)
    return len(text) if text.isascii() else sum(map(_columns, text))


def cropped(line: str, width: int) -> str:
    """As much of a line as there is room for; colours end with it."""
    if width_of(line) <= width:
        return line
    kept: list[str] = []
    room = width - 1
    place = 0
    for escape in _ESCAPE.finditer(line):
        text = _beginning(line[place : escape.start()], room)
        kept += [text, escape[0]]
        room -= width_of(text)
        place = escape.end()
    kept += [_beginning(line[place:], room), "…", PLAIN if "\x1b" in line else ""]
    return "".join(kept)


def wrapped(line: str, width: int) -> list[str]:
    """All of a line, in as many as it takes: broken between words, further ones indented. Colours
    end with each and go on in the next."""
    if width_of(line) <= width:
        return [line]
    indent = " " * min(_INDENT, width // 2)
    lines, current, used, colour = list[str](), "", 0, ""
    for piece in _PIECES.findall(line):
        if _ESCAPE.fullmatch(piece):
            colour = "" if piece == PLAIN else piece
            current += piece
            continue
        while used + width_of(piece) > width:
            # A word that is longer than a line is broken where the line ends.
            is_long = width_of(piece) > width - len(indent) and not piece.isspace()
            kept = _beginning(piece, width - used) if is_long else ""
            if not kept and used <= len(indent):
                break  # not even one letter has room
            lines.append(f"{current}{kept}".rstrip() + (PLAIN if colour else ""))
            piece = piece[len(kept) :].lstrip()
            current, used = f"{indent}{colour}", len(indent)
        current += piece
        used += width_of(piece)
    return [*lines, current.rstrip()]


def _beginning(text: str, room: int) -> str:
    """As much of a text without codes as there is room for."""
    if text.isascii():
        return text[:room]
    for place, letter in enumerate(text):
        room -= _columns(letter)
        if room < 0:
            return text[:place]
    return text


def _columns(letter: str) -> int:
    if category(letter) in ("Mn", "Me"):
        return 0
    return 2 if east_asian_width(letter) in "WF" else 1
