"""Reading logs: which lines, in which form, over rotated files, until the end."""

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from kilonova.local.kubelet_api import LogRequest
from kilonova.local.processnode.kubelet.containers.logs import read_log
from kilonova.local.processnode.kubelet.containers.termination_message import (
    read_termination_message,
)
from tests.local.processnode.kubelet.kubelet_pods import pod

BEGIN = datetime(2026, 5, 1, tzinfo=UTC)


def line(second: int, text: str, stream: str = "stdout", tag: str = "F") -> str:
    moment = BEGIN + timedelta(seconds=second)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.123456789Z {stream} {tag} {text}\n"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Seven lines in three files."""
    path = tmp_path / "0.log"
    (tmp_path / "0.log.2").write_text(line(0, "zero") + line(1, "one", "stderr"))
    (tmp_path / "0.log.1").write_text(line(2, "two") + line(3, "three"))
    path.write_text(line(4, "fo", tag="P") + line(5, "ur") + line(6, "five"))
    return path


async def read(
    log: Path,
    *,
    follow: bool = False,
    timestamps: bool = False,
    tail: int | None = None,
    since_seconds: int | None = None,
    since: datetime | None = None,
    limit_bytes: int | None = None,
    running: list[bool] | None = None,
) -> str:
    desired = LogRequest("c", follow, False, timestamps, tail, since_seconds, since, limit_bytes)
    now = BEGIN + timedelta(seconds=6)
    left = running if running is not None else [False]
    chunks = [
        chunk
        async for chunk in read_log(
            log, desired, now, lambda: left.pop(0) if len(left) > 1 else left[0]
        )
    ]
    return b"".join(chunks).decode()


async def test_all_lines_of_all_files(log: Path) -> None:
    assert await read(log) == "zero\none\ntwo\nthree\nfour\nfive\n"


@pytest.mark.parametrize(
    ("tail", "expected"),
    [
        (0, ""),
        (1, "five\n"),
        (3, "four\nfive\n"),
        (4, "three\nfour\nfive\n"),
        (5, "two\nthree\nfour\nfive\n"),
        (6, "one\ntwo\nthree\nfour\nfive\n"),
        (99, "zero\none\ntwo\nthree\nfour\nfive\n"),
    ],
)
async def test_the_last_lines(log: Path, tail: int, expected: str) -> None:
    assert await read(log, tail=tail) == expected


async def test_timestamps_precede_complete_lines(log: Path) -> None:
    assert (await read(log, tail=3, timestamps=True)).splitlines() == [
        "2026-05-01T00:00:04.123456789Z four",
        "2026-05-01T00:00:06.123456789Z five",
    ]


async def test_lines_since_a_time(log: Path) -> None:
    assert await read(log, since_seconds=2) == "four\nfive\n"
    assert await read(log, since=BEGIN + timedelta(seconds=6)) == "five\n"


async def test_byte_limit(log: Path) -> None:
    assert await read(log, limit_bytes=7) == "zero\non"


async def test_a_line_that_was_never_ended(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    path.write_text(line(0, "whole") + line(1, "half").rstrip("\n"))
    assert await read(path) == "whole\nhalf\n"


async def test_no_log_is_an_empty_one(tmp_path: Path) -> None:
    assert await read(tmp_path / "0.log") == ""
    assert await read(tmp_path / "0.log", tail=3) == ""


async def test_following_goes_over_rotations_and_ends_with_the_container(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    path.write_text(line(0, "first"))
    running = [True]
    reading = asyncio.create_task(read(path, follow=True, running=running))
    await asyncio.sleep(0.15)
    with path.open("a") as file:
        file.write(line(1, "second"))
    path.rename(tmp_path / "0.log.1")
    path.write_text(line(2, "third"))
    await asyncio.sleep(0.15)
    assert not reading.done()
    with path.open("a") as file:
        file.write(line(3, "last"))
    running[0] = False
    assert await asyncio.wait_for(reading, 60) == "first\nsecond\nthird\nlast\n"


@pytest.mark.parametrize(
    ("policy", "code", "left", "expected"),
    [
        ("File", 1, b"", ""),
        ("File", 0, b"done", "done"),
        ("FallbackToLogsOnError", 1, b"", "four\nfive\n"),
        ("FallbackToLogsOnError", 0, b"", ""),
        ("FallbackToLogsOnError", 1, b"own", "own"),
    ],
)
def test_the_termination_message(
    log: Path, policy: str, code: int, left: bytes, expected: str
) -> None:
    container = pod({"name": "c", "terminationMessagePolicy": policy}).container("c")
    assert read_termination_message(container, code, left, log).endswith(expected)
    assert bool(read_termination_message(container, code, left, log)) == bool(expected)
