"""Translation of Go's regular expressions (RE2) for Python's engine.

The two agree on nearly all of what schemas use. The differences are translated: anchors at the end
of the text, POSIX and Unicode classes, quoting; what RE2 lacks is rejected.
"""

import re
import sys
import unicodedata
from functools import cache, lru_cache


class PatternError(ValueError):
    """A pattern that Go would not compile, with Go's message."""


@lru_cache(maxsize=1024)
def compile_pattern(pattern: str) -> re.Pattern[str]:
    """A pattern whose `search` is equivalent to Go's `MatchString`."""
    try:
        return re.compile(_translate(pattern), re.ASCII)
    except (re.error, OverflowError, RecursionError) as error:
        detail = next(
            (go for python, go in _GO_ERROR_MESSAGES.items() if python in str(error)), str(error)
        )
        raise PatternError(f"error parsing regexp: {detail}: `{pattern}`") from None


_GO_ERROR_MESSAGES = {
    "unterminated subpattern": "missing closing )",
    "unbalanced parenthesis": "unexpected )",
    "unterminated character set": "missing closing ]",
    "bad character range": "invalid character class range",
    "nothing to repeat": "missing argument to repetition operator",
    "multiple repeat": "invalid nested repetition operator",
}
"""Python's error messages for patterns, and Go's."""


_POSIX = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "ascii": r"\x00-\x7F",
    "blank": r"\t ",
    "cntrl": r"\x00-\x1F\x7F",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": r"!-/:-@\[-`{-~",
    "space": r"\t\n\v\f\r ",
    "upper": "A-Z",
    "word": "0-9A-Za-z_",
    "xdigit": "0-9A-Fa-f",
}
_posix_class = re.compile(r"\[:(\^?)([a-z]+):\]").match
_unicode_class = re.compile(r"\\([pP])(?:\{(\^?)([A-Za-z_]+)\}|([A-Z]))").match
_hex_escape = re.compile(r"\\x\{([0-9A-Fa-f]+)\}").match
_group = re.compile(r"\(\?(?:P?<[A-Za-z_][A-Za-z0-9_]*>|[imsU-]*[:)])").match
_is_doubled_repetition = re.compile(r"(?:[*+?]|\{\d+(?:,\d*)?\})(?:\?[*+?]|[*+])").match


def _translate(pattern: str) -> str:
    translated: list[str] = []
    position = 0
    in_class = False
    multiline = re.match(r"\(\?[isU]*m", pattern) is not None
    while position < len(pattern):
        rest = pattern[position:]
        piece, text = _next_piece(pattern, position, in_class)
        if in_class:
            if rest[0] == "]" and translated[-1] not in ("[", "[^"):
                in_class = False
        elif rest[0] == "[":
            in_class = True
            piece, text = ("[^", "[^") if rest.startswith("[^") else ("[", "[")
        elif rest[0] == "$":
            text = "$" if multiline else r"\Z"
        elif rest[0] == "(" and rest.startswith("(?"):
            piece, text = _translate_group(rest)
        elif match := _is_doubled_repetition(rest):
            raise PatternError(
                f"error parsing regexp: invalid nested repetition operator: `{match.group()}`"
            )
        translated.append(text)
        position += len(piece)
    return "".join(translated)


def _next_piece(pattern: str, position: int, in_class: bool) -> tuple[str, str]:
    """The next piece of the pattern, as written and translated."""
    rest = pattern[position:]
    if in_class and (match := _posix_class(pattern, position)):
        negated, name = match.groups()
        if name not in _POSIX:
            raise PatternError(
                f"error parsing regexp: invalid character class range: `{match.group()}`"
            )
        return match.group(), _complement_class(_POSIX[name]) if negated else _POSIX[name]
    if in_class and rest[0] == "[":
        return "[", r"\["
    if rest[0] != "\\":
        return rest[0], rest[0]
    if match := _unicode_class(pattern, position):
        upper, caret, long, short = match.groups()
        name = long or short
        members = _unicode_members(name, (upper == "P") != bool(caret))
        return match.group(), members if in_class else f"[{members}]"
    if match := _hex_escape(pattern, position):
        return match.group(), re.escape(chr(int(match.group(1), 16)))
    if rest.startswith(r"\Q"):
        quoted = rest[2:].partition(r"\E")
        return r"\Q" + quoted[0] + quoted[1], re.escape(quoted[0])
    escape = rest[:2]
    if escape == r"\z":
        return escape, r"\Z"
    if len(escape) < 2:
        raise PatternError("error parsing regexp: trailing backslash at end of expression: ``")
    if escape[1].isalnum() and escape[1] not in "dDsSwWbBAaftnrvx01234567":
        raise PatternError(f"error parsing regexp: invalid escape sequence: `{escape}`")
    if escape[1] in "123456789":
        raise PatternError(f"error parsing regexp: invalid escape sequence: `{escape}`")
    return escape, escape


def _translate_group(rest: str) -> tuple[str, str]:
    match = _group(rest)
    if match is None:
        raise PatternError(
            f"error parsing regexp: invalid or unsupported Perl syntax: `{rest[:3]}`"
        )
    text = match.group()
    if text.startswith("(?<"):
        return text, "(?P<" + text[3:]
    return text, text.replace("U", "")


def _complement_class(members: str) -> str:
    """The members of a class that contains all others, for use inside another class."""
    inside = re.compile(f"[{members}]")
    return (
        "".join(f"\\x{code:02x}" for code in range(128) if not inside.match(chr(code)))
        + "\x80-\U0010ffff"
    )


@cache
def _unicode_members(name: str, negated: bool) -> str:
    """The ranges of characters of a general category (`L`, `Lu`, `S`)."""
    if not re.fullmatch("[CLMNPSZ][a-z]?", name):
        raise PatternError(f"error parsing regexp: invalid character class range: `\\p{{{name}}}`")
    ranges: list[str] = []
    start = -1
    for code in range(sys.maxunicode + 2):
        member = code <= sys.maxunicode and (
            unicodedata.category(chr(code)).startswith(name) != negated
        )
        if member and start < 0:
            start = code
        elif not member and start >= 0:
            ranges.append(f"\\U{start:08x}-\\U{code - 1:08x}")
            start = -1
    return "".join(ranges)
