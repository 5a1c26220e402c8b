"""`kilonova up --detach`: the same cluster in a process that outlives this one.

The new process (`kilonova.cli.detached`) has a session of its own and writes to `DIR/log`. It holds
one end of a pipe, over which it says how far it is, that it answers, that it is ready, or why it
failed: so nothing is polled, and its death is noticed at once, as the end of the pipe.
"""

import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

import msgspec

from kilonova.cli.audience import Answers, Failed, Progress, Ready, Report
from kilonova.cli.failure import CommandFailed, unusable_folder
from kilonova.cli.options import UpOptions
from kilonova.cli.progress import Display
from kilonova.cli.welcome import Welcome


def detach_cluster(options: UpOptions, *, wait: bool) -> Welcome:
    """Start it; return when it answers, or with `wait` when its nodes are there.

    At a terminal it is shown meanwhile how far it is.
    """
    display = Display() if sys.stderr.isatty() else None
    try:
        return _detach(options, wait, display)
    finally:
        if display is not None:
            display.clear()


def _detach(options: UpOptions, wait: bool, display: Display | None) -> Welcome:
    log = options.data / "log"
    try:
        places = (log, options.data, *options.data.parents)
        new = [each for each in places if not each.exists()]
        options.data.mkdir(parents=True, exist_ok=True, mode=0o700)
        # A log may tell of what is stored: it is its owner's to read.
        descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    except OSError as error:
        raise unusable_folder(error) from error
    read_end, write_end = os.pipe()
    with os.fdopen(descriptor, "ab") as output, os.fdopen(read_end, "rb") as reports:
        try:
            process = _spawn(options, output, write_end)
        finally:
            os.close(write_end)
        try:
            return _awaited(reports, Ready if wait else (Answers, Ready), process, log, display)
        except _Refused:
            _remove(new)
            raise
        except KeyboardInterrupt:
            process.terminate()
            raise


class _Refused(CommandFailed):
    """It was not even begun, and there is nothing in the log that is not said here."""


def _remove(new: Sequence[Path]) -> None:
    """Take away the log and the empty folders that were made for it."""
    for each in new:
        with suppress(OSError):
            each.rmdir() if each.is_dir() else each.unlink()


def _spawn(options: UpOptions, output: IO[bytes], reports_to: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-P", "-m", "kilonova.cli.detached"]
    return subprocess.Popen(  # noqa: S603 (our own command line)
        [*command, options.written(), str(reports_to)],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        cwd=options.data,
        pass_fds=(reports_to,),
        start_new_session=True,
    )


def _awaited(
    reports: IO[bytes],
    wanted: type[Answers | Ready] | tuple[type[Answers | Ready], ...],
    process: subprocess.Popen[bytes],
    log: Path,
    display: Display | None,
) -> Welcome:
    answered = False
    for line in reports:
        report = msgspec.json.decode(line, type=Report)
        if isinstance(report, Failed):
            process.wait()
            raise (CommandFailed if answered else _Refused)(report.message, report.code)
        answered = answered or isinstance(report, Answers)
        if isinstance(report, Progress) and display is not None:
            display.show(report.steps)
        if isinstance(report, wanted):
            return report.welcome
    code = process.wait()
    raise CommandFailed(f"the cluster's process ended with {code}: {_last_line(log)} (see {log})")


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").splitlines()
    return lines[-1] if lines else "it wrote nothing"
