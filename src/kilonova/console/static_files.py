"""The built files of the page, read once.

Paths of requests are looked up in a dictionary and never used as file system paths.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from kilonova.component.console import Page
from kilonova.console.description import Description
from kilonova.kube import Reply, Request

STATIC = Path(__file__).parent / "static"
INDEX = "/index.html"

_DESCRIPTION_MARK = b'<script id="description" type="application/json">'
"""Before the description of pages and tables in the document; it is data, and not executed."""

_CONTENT_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".woff2": "font/woff2",
    ".json": "application/json",
    ".txt": "text/plain; charset=utf-8",
}


class PagePaths:
    """The addresses of all pages."""

    def __init__(self, pages: Iterable[Page]) -> None:
        self._has_details = {page.path: page.has_details or bool(page.table) for page in pages}

    def __contains__(self, path: str) -> bool:
        first = "/" + path[1:].partition("/")[0]
        return path == "/" or path in self._has_details or self._has_details.get(first, False)


@dataclass(frozen=True, slots=True)
class StaticFile:
    """A file with its entity tag."""

    content: bytes
    content_type: str
    etag: str

    def reply(self, request: Request) -> Reply:
        """The file, or 304 if the browser has it."""
        headers = {
            "content-type": self.content_type,
            "cache-control": "no-cache",
            "etag": self.etag,
        }
        if self.etag in request.headers.get("if-none-match", ""):
            return Reply(304, b"", headers)
        return Reply(200, self.content, headers)

    def reply_not_found(self) -> Reply:
        """The file with status 404, for an unknown address: the page shows the error."""
        headers = {"content-type": self.content_type, "cache-control": "no-store"}
        return Reply(404, self.content, headers)


def read_files(folder: Path = STATIC) -> Mapping[str, StaticFile]:
    """All files below a folder, by the path at which they are served."""
    found = sorted(path for path in folder.rglob("*") if path.is_file())
    return {f"/{path.relative_to(folder).as_posix()}": _read_file(path) for path in found}


def embed_description(
    files: Mapping[str, StaticFile], description: Description
) -> Mapping[str, StaticFile]:
    """The files with the description in the document of the page."""
    index = files.get(INDEX)
    if index is None:
        return files
    # `</script>` in a text would end the element.
    encoded = msgspec.json.encode(description).replace(b"<", b"\\u003c")
    before, mark, after = index.content.partition(_DESCRIPTION_MARK)
    assert mark, "frontend/index.html has no place for the description"
    rest = after[after.index(b"</script>") :]
    return {**files, INDEX: _make_file(b"".join((before, mark, encoded, rest)), index.content_type)}


def _read_file(path: Path) -> StaticFile:
    kind = _CONTENT_TYPES.get(path.suffix, "application/octet-stream")
    return _make_file(path.read_bytes(), kind)


def _make_file(content: bytes, content_type: str) -> StaticFile:
    digest = hashlib.sha256(content).hexdigest()[:32]
    return StaticFile(content, content_type, f'"{digest}"')
