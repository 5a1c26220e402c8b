"""Env files of `fileKeyRef`: `NAME='value'` lines and nothing else. Pure."""

import re


class EnvFileError(Exception):
    """The file has a syntax error."""


_LINE = re.compile(r"([^=\s]+)=(.*)", re.DOTALL)


def read_value(text: str, key: str) -> str:
    """The value of a key; empty if the file does not have it.

    Values are literal, in single quotes, and may span lines. As in a shell, a value that does not
    directly follow the `=` is empty.
    """
    lines = iter(text.splitlines())
    for line in lines:
        stripped = line.lstrip(" \t")
        if not stripped or stripped.startswith("#"):
            continue
        match = _LINE.fullmatch(stripped)
        if match is None:
            raise EnvFileError(f"not NAME='value': {stripped.partition('=')[0]!r}")
        name, value = match.groups()
        if value[:1] in (" ", "\t"):
            if name == key:
                return ""
            continue
        if value[:1] != "'":
            raise EnvFileError(f"value of {name} must be enclosed in single quotes")
        content = value[1:]
        while "'" not in content:
            more = next(lines, None)
            if more is None:
                raise EnvFileError(f"value of {name} has no closing quote")
            content += "\n" + more
        content, _, rest = content.partition("'")
        rest = rest.lstrip(" \t")
        if rest and not rest.startswith("#"):
            raise EnvFileError(f"unexpected text after the closing quote of {name}")
        if name == key:
            return content
    return ""
