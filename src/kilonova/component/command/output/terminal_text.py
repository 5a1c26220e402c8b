"""Lines on a terminal: display width, cropping, wrapping, and removal of control characters."""

import re
from unicodedata import category, east_asian_width

_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")

_TOKENS = re.compile(rf"{_ESCAPE.pattern}|\s+|[^\s\x1b]+")
_INDENT = 14

RESET = "\x1b[0m"


def to_one_line(text: str) -> str:
    """Text from the cluster on one line, without control characters."""
    return "".join(filter(str.isprintable, " ".join(text.split())))


def strip_control_characters(line: str) -> str:
    """A line without control characters; unlike `to_one_line`, it keeps runs of spaces."""
    if line.isprintable():
        return line
    spaced = (" " if character.isspace() else character for character in line)
    return "".join(filter(str.isprintable, spaced))


def display_width(line: str) -> int:
    """Columns that a line takes: two for wide East Asian characters, none for accents."""
    text = _ESCAPE.sub("", line)
    return len(text) if text.isascii() else sum(map(_character_width, text))


def crop(line: str, width: int) -> str:
    """A line cut to a width; colours are reset at its end."""
    if display_width(line) <= width:
        return line
    pieces: list[str] = []
    remaining = width - 1
    position = 0
    for escape in _ESCAPE.finditer(line):
        text = _truncate(line[position : escape.start()], remaining)
        pieces += [text, escape[0]]
        remaining -= display_width(text)
        position = escape.end()
    pieces += [_truncate(line[position:], remaining), "…", RESET if "\x1b" in line else ""]
    return "".join(pieces)


def wrap(line: str, width: int) -> list[str]:
    """A line broken between words into several, all but the first indented. Colours are reset at
    the end of each and resumed in the next."""
    if display_width(line) <= width:
        return [line]
    indent = " " * min(_INDENT, width // 2)
    lines, current, used, colour = list[str](), "", 0, ""
    for piece in _TOKENS.findall(line):
        if _ESCAPE.fullmatch(piece):
            colour = "" if piece == RESET else piece
            current += piece
            continue
        while used + display_width(piece) > width:
            # A word that is longer than a line is broken at the end of the line.
            is_long = display_width(piece) > width - len(indent) and not piece.isspace()
            head = _truncate(piece, width - used) if is_long else ""
            if not head and used <= len(indent):
                break  # not even one character fits
            lines.append(f"{current}{head}".rstrip() + (RESET if colour else ""))
            piece = piece[len(head) :].lstrip()
            current, used = f"{indent}{colour}", len(indent)
        current += piece
        used += display_width(piece)
    return [*lines, current.rstrip()]


def _truncate(text: str, width: int) -> str:
    """The start of a text without escape codes that fits a width."""
    if text.isascii():
        return text[:width]
    for index, character in enumerate(text):
        width -= _character_width(character)
        if width < 0:
            return text[:index]
    return text


def _character_width(character: str) -> int:
    if category(character) in ("Mn", "Me"):
        return 0
    return 2 if east_asian_width(character) in "WF" else 1
