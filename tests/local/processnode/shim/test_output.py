"""The output of containers."""

import re
import time

import pytest

from kilonova.local.processnode.shim.stdio.log_lines import (
    MAX_LINE_LENGTH,
    LogLineSplitter,
    format_timestamp,
)
from kilonova.local.processnode.shim.stdio.output import MAX_LOG_SIZE, MAX_ROTATED_LOGS
from tests.local.processnode.shim.shim_site import ShimSite, wait_until

TIME = b"2026-01-02T03:04:05.123456789Z"
LONG = b"x" * (MAX_LINE_LENGTH + 1)


def test_a_time_has_nine_digits() -> None:
    assert format_timestamp(1_767_323_045_123_456_789) == TIME
    assert format_timestamp(1_767_323_045_000_000_001) == b"2026-01-02T03:04:05.000000001Z"


@pytest.mark.parametrize(
    ("pieces", "lines", "last"),
    [
        ([b"a\nb\n"], [b"F a", b"F b"], []),
        ([b"a", b"b\n"], [b"F ab"], []),
        ([b"\n\n"], [b"F ", b"F "], []),
        ([b"a"], [], [b"P a"]),
        ([LONG + b"\n"], [b"P " + LONG[:-1], b"F x"], []),
        ([LONG], [b"P " + LONG[:-1]], [b"P x"]),
        ([LONG[:-1], b"\n"], [b"F " + LONG[:-1]], []),
        ([LONG[:-1], LONG], [b"P " + LONG[:-1]] * 2, [b"P x"]),
    ],
)
def test_streams_are_cut_into_lines(
    pieces: list[bytes], lines: list[bytes], last: list[bytes]
) -> None:
    cut = LogLineSplitter("stderr")
    out = b"".join(cut.split(piece, TIME) for piece in pieces)
    assert out.splitlines() == [TIME + b" stderr " + line for line in lines]
    assert cut.flush(TIME).splitlines() == [TIME + b" stderr " + line for line in last]
    assert cut.flush(TIME) == b""


async def test_log_is_in_cri_format(shim_site: ShimSite) -> None:
    state, _ = await shim_site.shell("echo one; sleep 0.1; echo two >&2; sleep 0.1; printf three")
    lines = shim_site.log(state.id)
    assert [line.split(b" ", 1)[1] for line in lines] == [
        b"stdout F one",
        b"stderr F two",
        b"stdout P three",
    ]
    assert all(re.match(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z ", line) for line in lines)


async def test_a_line_comes_when_it_is_complete(shim_site: ShimSite) -> None:
    state = await shim_site.start("sh", "-c", "echo now; sleep 100")
    await shim_site.wait_for_output(state.id, "now\n")


async def test_a_log_that_is_filled_stays_bounded_and_others_are_served(
    shim_site: ShimSite,
) -> None:
    line = "y" * 200
    state = await shim_site.start("sh", "-c", f"yes {line}")
    log = shim_site.folder / "logs" / state.id
    oldest = log.with_name(f"{log.name}.{MAX_ROTATED_LOGS}")
    slowest = 0.0
    while not oldest.exists():
        began = time.monotonic()
        other = await shim_site.run("echo", "fine")
        slowest = max(slowest, time.monotonic() - began)
        assert shim_site.text(other.id) == "fine\n"
    await shim_site.runtime.kill(state.id)
    await shim_site.runtime.wait(state.id)
    files = [each for each in log.parent.iterdir() if each.name.partition(".")[0] == log.name]
    assert len(files) == 1 + MAX_ROTATED_LOGS
    assert all(each.stat().st_size < 1.1 * MAX_LOG_SIZE for each in files)
    assert all(each.endswith(line.encode()) for each in oldest.read_bytes().splitlines())
    assert slowest < 2


async def test_memory_does_not_grow_with_output(shim_site: ShimSite) -> None:
    state = await shim_site.start("sh", "-c", "head -c 30000000 /dev/zero; sleep 100")
    log = shim_site.folder / "logs" / state.id
    await wait_until(lambda: log.with_name(f"{log.name}.2").exists())
    assert resident_kilobytes(shim_site.shim_pid()) < 25_000


async def test_the_shim_is_small(shim_site: ShimSite) -> None:
    for _ in range(10):
        await shim_site.start("sleep", "100")
    assert resident_kilobytes(shim_site.shim_pid()) <= 20_000


async def test_a_terminal_is_one_stream(shim_site: ShimSite) -> None:
    state, text = await shim_site.shell("tty >/dev/null && echo yes; echo err >&2", tty=True)
    assert text.replace("\r", "") == "yes\nerr\n"
    assert all(b" stdout F " in line for line in shim_site.log(state.id))


async def test_input_is_empty_unless_asked_for(shim_site: ShimSite) -> None:
    state = await shim_site.run("cat")
    assert state.exit_code == 0


async def test_a_log_that_cannot_be_written_does_not_stop_the_container(
    shim_site: ShimSite,
) -> None:
    log = shim_site.folder / "logs" / "full"
    log.parent.mkdir()
    log.symlink_to("/dev/full")
    state = await shim_site.run("sh", "-c", "echo lost; exit 5", log=log)
    assert state.exit_code == 5


def resident_kilobytes(pid: int) -> int:
    with open(f"/proc/{pid}/status") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))
