"""The folder of CDI specs that a container runtime reads."""

import asyncio
import contextlib
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from kilonova.gpu.cdi.files import replace_file
from kilonova.gpu.cdi.spec import KIND, ContainerEdits, check_name, encode_spec

DEFAULT_FOLDER = Path("/var/run/cdi")
"""Where all runtimes look for specs that do not outlive the machine's next start."""
_PREFIX = KIND.replace("/", "-")
_MODE = 0o644
_FILE = re.compile(re.escape(_PREFIX) + r"_(.+)\.json")


class CdiFolder:
    """Writes and removes specs, one file for each holder. Files of others are left alone."""

    def __init__(self, path: Path = DEFAULT_FOLDER) -> None:
        self._path = path

    async def write(self, holder: str, devices: Mapping[str, ContainerEdits]) -> None:
        """Write the spec of a holder, unless it is there already."""
        await asyncio.to_thread(self._write, self._file(holder), encode_spec(devices))

    async def remove(self, holder: str) -> None:
        """Remove the spec of a holder, if there is one."""
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            await asyncio.to_thread(self._file(holder).unlink)

    async def remove_others(self, holders: Iterable[str]) -> None:
        """Remove the specs of all but these: what a crash has left."""
        kept = {self._file(each) for each in holders}
        await asyncio.to_thread(self._remove_others, kept)

    def has(self, holder: str) -> bool:
        """Whether the spec of a holder is there."""
        return self._file(holder).exists()

    def _file(self, holder: str) -> Path:
        return self._path / f"{_PREFIX}_{check_name(holder)}.json"

    def _write(self, file: Path, content: bytes) -> None:
        if not file.exists() or file.read_bytes() != content:
            replace_file(file, content, _MODE)

    def _remove_others(self, kept: set[Path]) -> None:
        if self._path.is_dir():
            for file in self._path.iterdir():
                if _FILE.fullmatch(file.name) and file not in kept:
                    file.unlink(missing_ok=True)
