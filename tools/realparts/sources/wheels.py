"""Wheels of PyPI, pinned by hash, in a folder of their own."""

import importlib.util
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from tools.realparts.part import PartUnavailable
from tools.realparts.progress import Progress
from tools.realparts.sources.go_modules import LOCKS
from tools.realparts.sources.processes import run_command


@dataclass(frozen=True)
class Wheels:
    """The wheels of `locks/LOCK/requirements.lock`, which names all of them with their hashes."""

    lock: str
    files: tuple[str, ...]

    @property
    def pins(self) -> bytes:
        return self._requirements.read_bytes()

    def make(self, folder: Path, progress: Progress) -> str | None:
        words = ["--require-hashes", "--no-deps", "--only-binary=:all:", "--target", folder]
        with progress.step("installing wheels"):
            run_command([*_find_installer(), *words, "-r", self._requirements])

    @property
    def _requirements(self) -> Path:
        return LOCKS / self.lock / "requirements.lock"


def _find_installer() -> list[str]:
    """pip of this Python, or uv where it made the environment."""
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip", "install", "--quiet", "--no-input", "--upgrade"]
    if uv := shutil.which("uv"):
        return [uv, "pip", "install", "--quiet", "--python", sys.executable]
    raise PartUnavailable("it comes from PyPI, and there is neither pip nor `uv` here")
