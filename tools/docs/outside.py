"""What a page of the built site would fetch from elsewhere: nothing, or it is an error."""

import re
from collections.abc import Iterator
from pathlib import Path

_FETCHED = {
    ".html": re.compile(
        r"<(?:script|img|iframe|source|video|audio)\b[^>]*\bsrc(?:set)?=[\"']?((?:https?:)?//[^\"'\s>]+)"
        r"|<link\b(?=[^>]*rel=[\"']?(?:stylesheet|preload|preconnect|prefetch|dns-prefetch|icon))"
        r"[^>]*\bhref=[\"']?((?:https?:)?//[^\"'\s>]+)"
    ),
    ".css": re.compile(r"(?:url\([\"']?|@import [\"'])((?:https?:)?//[^\"')\s]+)"),
}


def fetched_from_outside(site: Path) -> Iterator[str]:
    """File and address of everything that a browser would get from another server."""
    for file in sorted(site.rglob("*")):
        pattern = _FETCHED.get(file.suffix)
        if pattern is None:
            continue
        for match in pattern.finditer(file.read_text()):
            address = next(group for group in match.groups() if group)
            yield f"{file.relative_to(site)}: {address}"
