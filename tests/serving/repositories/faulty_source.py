"""A repository whose files fail as a test says it."""

from collections.abc import AsyncGenerator, AsyncIterable
from contextlib import asynccontextmanager
from pathlib import Path

from kilonova.serving.repositories.errors import RepositoryUnavailable
from kilonova.serving.repositories.sources import FolderSource, SourceFile


class FaultySource(FolderSource):
    """A folder over a bad connection."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.opened: list[str] = []
        self.breaks: dict[str, int] = {}
        """How many times the connection breaks in the middle of a file."""
        self.damages: dict[str, int] = {}
        """How many times a file arrives damaged."""
        self.adds: dict[str, bytes] = {}
        """What a file has more than was listed."""

    @asynccontextmanager
    async def open(self, file: SourceFile) -> AsyncGenerator[AsyncIterable[bytes]]:
        self.opened.append(file.path)
        async with super().open(file) as pieces:
            yield self._spoil(file.path, pieces)

    async def _spoil(self, path: str, pieces: AsyncIterable[bytes]) -> AsyncGenerator[bytes]:
        async for piece in pieces:
            if self.breaks.get(path, 0):
                self.breaks[path] -= 1
                yield piece[: len(piece) // 2]
                raise RepositoryUnavailable(self.locate(path), "connection reset", "wait")
            if self.damages.get(path, 0):
                self.damages[path] -= 1
                yield bytes([piece[0] ^ 1]) + piece[1:]
            else:
                yield piece
        yield self.adds.get(path, b"")
