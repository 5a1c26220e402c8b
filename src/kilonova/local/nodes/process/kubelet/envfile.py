"""Files of variables, as `fileKeyRef` reads them: `NAME='value'` lines, nothing else. Pure."""

import re


class EnvFileError(Exception):
    """The file is not of that form."""


_LINE = re.compile(r"([^=\s]+)=(.*)", re.DOTALL)


def value_in(text: str, key: str) -> str:
    """The value of a key; empty where the file has none.

    Values stand in single quotes, are literal and may go over several lines. A value that does
    not follow the `=` at once is an empty one, as a shell has it.
    """
    lines = iter(text.splitlines())
    for line in lines:
        bare = line.lstrip(" \t")
        if not bare or bare.startswith("#"):
            continue
        match = _LINE.fullmatch(bare)
        if match is None:
            raise EnvFileError(f"not NAME='value': {bare.partition('=')[0]!r}")
        name, value = match.groups()
        if value[:1] in (" ", "\t"):
            if name == key:
                return ""
            continue
        if value[:1] != "'":
            raise EnvFileError(f"the value of {name} must be enclosed in single quotes")
        content = value[1:]
        while "'" not in content:
            more = next(lines, None)
            if more is None:
                raise EnvFileError(f"the quote of {name} is not closed")
            content += "\n" + more
        content, _, rest = content.partition("'")
        rest = rest.lstrip(" \t")
        if rest and not rest.startswith("#"):
            raise EnvFileError(f"something follows the closing quote of {name}")
        if name == key:
            return content
    return ""
