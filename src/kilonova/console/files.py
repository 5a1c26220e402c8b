"""The built files of the page, read once.

Paths are looked up among the files that there are; nothing a request says becomes a path on disk.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kilonova.kube import Reply, Request

STATIC = Path(__file__).parent / "static"
INDEX = "/index.html"

PAGES = {
    "/": False,
    "/fleet": False,
    "/workloads": True,
    "/queues": True,
    "/nodes": False,
    "/events": False,
}
"""Paths of pages, and whether there are others below: as `frontend/src/pages/index.ts` has them."""

_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".woff2": "font/woff2",
    ".json": "application/json",
    ".txt": "text/plain; charset=utf-8",
}


def is_page(path: str) -> bool:
    """Whether a page has this path."""
    first = "/" + path[1:].partition("/")[0]
    return path in PAGES or PAGES.get(first, False)


@dataclass(frozen=True, slots=True)
class File:
    """A file, and what tells it from other versions of it."""

    content: bytes
    content_type: str
    etag: str

    def reply(self, request: Request) -> Reply:
        """The file, or that the browser has it already."""
        headers = {
            "content-type": self.content_type,
            "cache-control": "no-cache",
            "etag": self.etag,
        }
        if self.etag in request.headers.get("if-none-match", ""):
            return Reply(304, b"", headers)
        return Reply(200, self.content, headers)

    def reply_not_found(self) -> Reply:
        """The file as the answer to an address that nothing has: the page says so itself."""
        headers = {"content-type": self.content_type, "cache-control": "no-store"}
        return Reply(404, self.content, headers)


def read_files(folder: Path = STATIC) -> Mapping[str, File]:
    """All files below a folder, by the path at which they are served."""
    found = sorted(path for path in folder.rglob("*") if path.is_file())
    return {f"/{path.relative_to(folder).as_posix()}": _read(path) for path in found}


def _read(path: Path) -> File:
    content = path.read_bytes()
    digest = hashlib.sha256(content).hexdigest()[:32]
    kind = _TYPES.get(path.suffix, "application/octet-stream")
    return File(content, kind, f'"{digest}"')
