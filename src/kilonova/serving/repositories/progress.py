"""The progress of a download, as lines for a log or one line of a terminal."""

import asyncio
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from kilonova.serving.repositories.download import Progress

_LOG_SECONDS = 10.0
_TERMINAL_SECONDS = 0.2
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


@asynccontextmanager
async def report_progress(progress: Progress) -> AsyncGenerator[None]:
    """Report on stderr at intervals: a log gets a line now and then, a terminal one that moves."""
    in_terminal = sys.stderr.isatty()
    task = asyncio.create_task(_report(progress, in_terminal))
    try:
        yield
    finally:
        task.cancel()
        if in_terminal:
            sys.stderr.write("\r\x1b[K")


async def _report(progress: Progress, in_terminal: bool) -> None:
    started = time.monotonic()
    while True:
        await asyncio.sleep(_TERMINAL_SECONDS if in_terminal else _LOG_SECONDS)
        line = format_progress(progress, time.monotonic() - started)
        sys.stderr.write(f"\r\x1b[K{line}" if in_terminal else f"{line}\n")
        sys.stderr.flush()


def format_progress(progress: Progress, seconds: float) -> str:
    """`12 of 40 files, 3.2 of 14.0 GiB, 210.0 MiB/s`."""
    if not progress.files:
        return "listing files"
    rate = format_bytes(round(progress.done_bytes / max(seconds, 0.001)))
    return (
        f"{progress.done_files} of {progress.files} files, {format_bytes(progress.done_bytes)} of "
        f"{format_bytes(progress.bytes)}, {rate}/s"
    )


def format_bytes(count: int) -> str:
    """`3.2 GiB`."""
    value, unit = float(count), 0
    while value >= 1024 and unit < len(_UNITS) - 1:
        value, unit = value / 1024, unit + 1
    return f"{value:.1f} {_UNITS[unit]}" if unit else f"{count} B"
