"""Downloads over bad connections, onto full disks, and that are killed in the middle."""

import asyncio
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kilonova.kube import Backoff
from kilonova.serving.repositories.download import Progress, PullOptions, pull_repository
from kilonova.serving.repositories.errors import (
    FileDamaged,
    NoSpace,
    RepositoryError,
    RepositoryUnavailable,
)
from kilonova.serving.repositories.sources import open_source
from kilonova.serving.repositories.upload import push_repository, write_manifest
from tests.objectstore.conftest import Bucket
from tests.serving.repositories.conftest import read_files, write_files
from tests.serving.repositories.faulty_source import FaultySource

QUICK = PullOptions(retry=Backoff(0.001, 0.001))
WEIGHTS = "cat/1/model.onnx"


async def test_broken_connection_is_tried_again(repository: Path, tmp_path: Path) -> None:
    source = FaultySource(repository)
    source.breaks = {WEIGHTS: 3}
    progress = Progress()
    await pull_repository(source, tmp_path / "target", QUICK, progress)
    assert source.opened.count(WEIGHTS) == 4
    assert read_files(tmp_path / "target") == read_files(repository)
    assert progress.done_bytes == progress.bytes


async def test_place_that_does_not_answer_ends_the_download_and_the_next_one_goes_on(
    repository: Path, tmp_path: Path
) -> None:
    target = tmp_path / "target"
    source = FaultySource(repository)
    source.breaks = {WEIGHTS: 99}
    with pytest.raises(RepositoryUnavailable, match="connection reset"):
        await pull_repository(source, target, PullOptions(concurrency=1, retry=QUICK.retry))
    assert read_files(target) == {}, "nothing is published"
    second = FaultySource(repository)
    await pull_repository(second, target, QUICK)
    assert set(source.opened) & set(second.opened) == {WEIGHTS}
    assert read_files(target) == read_files(repository)


async def test_damage_on_the_way_is_repaired(repository: Path, tmp_path: Path) -> None:
    await write_manifest(repository)
    source = FaultySource(repository)
    source.damages = {WEIGHTS: 1}
    await pull_repository(source, tmp_path / "target", QUICK)
    assert read_files(tmp_path / "target") == read_files(repository)


async def test_damage_in_its_place_is_named_with_both_checksums(
    repository: Path, tmp_path: Path
) -> None:
    await write_manifest(repository)
    source = FaultySource(repository)
    source.damages = {WEIGHTS: 99}
    with pytest.raises(FileDamaged, match=r"cat/1/model.onnx: its SHA-256 is \w+, expected \w+"):
        await pull_repository(source, tmp_path / "target", QUICK)
    assert source.opened.count(WEIGHTS) == 2
    assert read_files(tmp_path / "target") == {}


async def test_file_that_is_longer_than_listed_is_refused(repository: Path, tmp_path: Path) -> None:
    source = FaultySource(repository)
    source.adds = {WEIGHTS: b"more"}
    with pytest.raises(FileDamaged, match="it has more than the 3072000 bytes that were listed"):
        await pull_repository(source, tmp_path / "target", QUICK)


async def test_missing_space_is_found_before_anything_is_fetched(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = FaultySource(repository)
    usage = os.statvfs(tmp_path)
    assert usage.f_bavail > 0
    sparse = repository / "huge/1/model.onnx"
    sparse.parent.mkdir(parents=True)
    with sparse.open("wb") as file:
        # A file with a hole, larger than any disk of a test.
        file.truncate(min(1 << 43, usage.f_bavail * usage.f_frsize * 4))
    with pytest.raises(NoSpace, match=r"bytes are missing, and its disk has \d+ bytes free"):
        await pull_repository(source, tmp_path / "target", QUICK)
    assert source.opened == []


@contextmanager
def limited_files(size: int) -> Generator[None]:
    """Writing a file beyond some size fails, as on a full disk."""
    former = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, former[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, former)
        signal.signal(signal.SIGXFSZ, handler)


async def test_full_disk_names_the_file(repository: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    with limited_files(1 << 20), pytest.raises(NoSpace, match=r"model\.onnx: the disk is full"):
        await pull_repository(FaultySource(repository), target, QUICK)
    assert read_files(target) == {}
    await pull_repository(FaultySource(repository), target, QUICK)
    assert read_files(target) == read_files(repository)


async def test_folder_of_another_program_is_not_replaced(repository: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    write_files(target, {"cat/1/model.onnx": b"of another program"})
    with pytest.raises(RepositoryError, match="target/cat: it exists, and no former download"):
        await pull_repository(FaultySource(repository), target, QUICK)
    assert read_files(target) == {"cat/1/model.onnx": b"of another program"}


@pytest.mark.parametrize(
    ("layout", "files", "link"),
    [
        ("Triton", {"cat/1/model.onnx": b"cat"}, "cat"),
        ("Triton", {"cat/1/model.onnx": b"cat"}, ".kilonova-download"),
        ("Triton", {"cat/1/model.onnx": b"cat", "README.md": b"cats"}, "README.md"),
        ("HuggingFace", {"acme/tiny/config.json": b"{}"}, "acme"),
        ("HuggingFace", {"config.json": b"{}", "onnx/model.onnx": b"weights"}, "onnx"),
    ],
)
async def test_no_file_is_written_through_a_symbolic_link(
    layout: Any, files: dict[str, bytes], link: str, tmp_path: Path
) -> None:
    folder, elsewhere, target = (tmp_path / name for name in ("models", "elsewhere", "target"))
    write_files(folder, files)
    elsewhere.mkdir()
    target.mkdir()
    (target / link).symlink_to(elsewhere)
    with pytest.raises(RepositoryError, match=f"target/{link}: it is a symbolic link"):
        await pull_repository(FaultySource(folder), target, PullOptions(layout))
    assert list(elsewhere.iterdir()) == []


async def test_link_out_of_the_repository_is_refused(repository: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"secret")
    (repository / "cat/1/weights").symlink_to(tmp_path / "secret")
    with pytest.raises(RepositoryError, match=r"it is a symbolic link to .*secret, outside of"):
        await pull_repository(FaultySource(repository), tmp_path / "target", QUICK)


@pytest.mark.parametrize(
    ("link", "problem"),
    [
        ("loop", "cat/1/loop: it is a symbolic link that leads to itself"),
        ("..", "cat/1/loop: it is a symbolic link to a folder"),
        ("nothing", "cat/1/loop: there is no such file or directory"),
    ],
)
async def test_link_that_is_no_file_is_named(
    link: str, problem: str, repository: Path, tmp_path: Path
) -> None:
    (repository / "cat/1/loop").symlink_to(link)
    # At once: what is wrong with the repository is not tried again.
    options = PullOptions(retry=Backoff(3600.0, 3600.0))
    with pytest.raises(RepositoryError, match=problem):
        await pull_repository(FaultySource(repository), tmp_path / "target", options)


async def test_pipe_is_refused(repository: Path, tmp_path: Path) -> None:
    os.mkfifo(repository / "cat/pipe")
    with pytest.raises(RepositoryError, match="it is neither a file nor a folder"):
        await pull_repository(FaultySource(repository), tmp_path / "target", QUICK)


async def test_two_downloads_of_the_same_take_turns(repository: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    first, second = FaultySource(repository), FaultySource(repository)
    await asyncio.gather(
        pull_repository(first, target, QUICK), pull_repository(second, target, QUICK)
    )
    assert sorted([len(first.opened), len(second.opened)]) == [0, 4]
    assert read_files(target) == read_files(repository)


async def test_file_that_was_damaged_since_is_fetched_again(
    repository: Path, tmp_path: Path
) -> None:
    target = tmp_path / "target"
    await pull_repository(FaultySource(repository), target, QUICK)
    (target / WEIGHTS).write_bytes(b"damaged")
    source = FaultySource(repository)
    await pull_repository(source, target, QUICK)
    assert source.opened == [WEIGHTS]
    assert read_files(target) == read_files(repository)


COMMAND = "from kilonova.serving.commands.models import app; app()"


async def test_killed_download_is_continued_and_shows_no_half_model(
    moto_bucket: Bucket, tmp_path: Path
) -> None:
    folder, target = tmp_path / "models", tmp_path / "target"
    files = {f"cat/1/part-{number:02}": bytes([number]) * 50_000 for number in range(40)}
    write_files(folder, files)
    url = f"s3://{moto_bucket.name}/models?endpoint={moto_bucket.url}&region=us-east-1"
    digest = await push_repository(folder, url)
    journal = target / ".kilonova-download/journal"
    process = subprocess.Popen(
        [sys.executable, "-c", COMMAND, "pull", url, str(target), "--concurrency", "1"],
        stdout=subprocess.DEVNULL,
    )

    def count_finished() -> int:
        return journal.read_bytes().count(b"\n") if journal.exists() else 0

    try:
        while count_finished() < 5:
            assert process.poll() is None, "it ended by itself"
            await asyncio.sleep(0.002)
    finally:
        process.kill()
        process.wait()
    assert read_files(target) == {}
    async with open_source(url) as source:
        done = await pull_repository(source, target, PullOptions(checksum=digest))
    assert done.progress.kept_files >= 4, "the last line of the journal may be cut off"
    found = read_files(target)
    found.pop("SHA256SUMS")
    assert found == files
    assert not (target / ".kilonova-download").exists()
