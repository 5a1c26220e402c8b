"""A download that ends between any two of its steps, and the next one."""

import os
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from kilonova.serving.repositories.download import PullOptions, pull_repository
from kilonova.serving.repositories.sources import open_source
from tests.serving.repositories.conftest import read_files, write_files

OLD = {"cat/1/model": b"old cat", "cat/config": b"cat", "dog/1/model": b"dog", "ox/1/model": b"ox"}
NEW = {"cat/2/model": b"new cat", "cat/config": b"cat", "dog/1/model": b"dog", "ant/1/model": b"a"}
"""One model is changed, one is as it was, one comes, one goes."""


class Crash(Exception):
    """The process ends here."""


class Crashing:
    """Ends at one of the steps that change what readers see."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, step: int) -> None:
        self.is_crashed = False
        self._left = step
        for owner, name in ((Path, "rename"), (Path, "replace"), (os, "link")):
            monkeypatch.setattr(owner, name, self._wrap(getattr(owner, name)))

    def _wrap(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any) -> Any:
            if self._left == 0:
                self.is_crashed = True
                raise Crash
            self._left -= 1
            return function(*arguments)

        return run


def read_models(folder: Path) -> dict[str, dict[str, bytes]]:
    """The files of each model that a reader finds."""
    models: dict[str, dict[str, bytes]] = {}
    for path, content in read_files(folder).items():
        models.setdefault(path.partition("/")[0], {})[path] = content
    return models


def select_model(files: dict[str, bytes], name: str) -> dict[str, bytes]:
    """The files of a model."""
    return {path: content for path, content in files.items() if path.startswith(f"{name}/")}


async def pull(folder: Path, target: Path) -> None:
    async with open_source(str(folder)) as source:
        await pull_repository(source, target, PullOptions(concurrency=1))


async def test_no_crash_leaves_a_half_model_and_the_next_download_completes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_files(tmp_path / "old", OLD)
    write_files(tmp_path / "new", NEW)
    crashes = 0
    for step in count():
        target = tmp_path / f"target-{step}"
        await pull(tmp_path / "old", target)
        with monkeypatch.context() as patch:
            crashing = Crashing(patch, step)
            if await is_complete(tmp_path / "new", target):
                break
            assert crashing.is_crashed
        crashes += 1
        for name, files in read_models(target).items():
            assert files in (select_model(OLD, name), select_model(NEW, name))
        await pull(tmp_path / "new", target)
        assert read_files(target) == NEW
        assert not (target / ".kilonova-download").exists()
    assert crashes > 8


async def is_complete(folder: Path, target: Path) -> bool:
    """Whether a download ends before the crash."""
    try:
        await pull(folder, target)
    except Crash:
        return False
    return True
