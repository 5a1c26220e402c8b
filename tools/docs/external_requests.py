"""Finds requests of the built site to other servers: each is an error."""

import re
from collections.abc import Iterator
from pathlib import Path

_FETCHING_ATTRIBUTES = {
    ".html": re.compile(
        r"<(?:script|img|iframe|source|video|audio)\b[^>]*\bsrc(?:set)?=[\"']?((?:https?:)?//[^\"'\s>]+)"
        r"|<link\b(?=[^>]*rel=[\"']?(?:stylesheet|preload|preconnect|prefetch|dns-prefetch|icon))"
        r"[^>]*\bhref=[\"']?((?:https?:)?//[^\"'\s>]+)"
    ),
    ".css": re.compile(r"(?:url\([\"']?|@import [\"'])((?:https?:)?//[^\"')\s]+)"),
}


def find_external_requests(site: Path) -> Iterator[str]:
    """File and URL of everything that a browser would load from another server."""
    for file in sorted(site.rglob("*")):
        pattern = _FETCHING_ATTRIBUTES.get(file.suffix)
        if pattern is None:
            continue
        for match in pattern.finditer(file.read_text()):
            address = next(group for group in match.groups() if group)
            yield f"{file.relative_to(site)}: {address}"
