"""`kilonova up --detach`: runs the cluster in a background process.

The new process (`kilonova.cli.up.detached`) has its own session and logs to `DIR/log`. It reports
over a pipe: progress, that the API answers, that the cluster is ready, or why it failed. Nothing is
polled, and if the process dies the pipe ends at once.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

import msgspec

from kilonova.cli.up.options import UpOptions, data_directory_error
from kilonova.cli.up.progress import ProgressDisplay, Step
from kilonova.cli.up.reporter import (
    ApiReadyReport,
    FailureReport,
    ProgressReport,
    ReadyReport,
    StartupReport,
)
from kilonova.cli.up.welcome import Welcome
from kilonova.component.failure import CommandFailed


def show_detached_start(options: UpOptions, *, wait: bool) -> Welcome:
    """`detach_cluster`, with the progress on standard error if that is a terminal."""
    if not sys.stderr.isatty():
        return detach_cluster(options, wait=wait)
    display = ProgressDisplay()
    try:
        return detach_cluster(options, wait=wait, show=display.show)
    finally:
        display.clear()


def _show_nothing(steps: Sequence[Step]) -> None:
    pass


def detach_cluster(
    options: UpOptions,
    *,
    wait: bool,
    show: Callable[[Sequence[Step]], None] = _show_nothing,
    lifeline: int | None = None,
) -> Welcome:
    """Start the process; return when the API answers, with `wait` when the cluster is ready.

    `show` receives the progress. With a `lifeline`, the cluster stops when all other ends of this
    pipe are closed.
    """
    log = options.data / "log"
    try:
        paths = (log, options.data, *options.data.parents)
        new = [each for each in paths if not each.exists()]
        options.data.mkdir(parents=True, exist_ok=True, mode=0o700)
        # The log may quote stored objects: only its owner may read it.
        descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    except OSError as error:
        raise data_directory_error(error) from error
    read_end, write_end = os.pipe()
    with os.fdopen(descriptor, "ab") as output, os.fdopen(read_end, "rb") as reports:
        try:
            process = _spawn(options, output, write_end, lifeline)
        finally:
            os.close(write_end)
        try:
            return _await_report(
                reports,
                ReadyReport if wait else (ApiReadyReport, ReadyReport),
                process,
                log,
                show,
            )
        except _StartRejected:
            _remove_new_paths(new)
            raise
        except KeyboardInterrupt:
            process.terminate()
            raise


class _StartRejected(CommandFailed):
    """The cluster was rejected before it started; the log says no more than the message."""


def _remove_new_paths(paths: Sequence[Path]) -> None:
    """Remove the log and the empty directories that were created for it."""
    for each in paths:
        with suppress(OSError):
            each.rmdir() if each.is_dir() else each.unlink()


def _spawn(
    options: UpOptions, output: IO[bytes], report_fd: int, lifeline: int | None
) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-P", "-m", "kilonova.cli.up.detached"]
    descriptors = (report_fd,) if lifeline is None else (report_fd, lifeline)
    return subprocess.Popen(  # noqa: S603 (our own command line)
        [*command, options.to_json(), *map(str, descriptors)],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        cwd=options.data,
        pass_fds=descriptors,
        start_new_session=True,
    )


def _await_report(
    reports: IO[bytes],
    expected: type[ApiReadyReport | ReadyReport] | tuple[type[ApiReadyReport | ReadyReport], ...],
    process: subprocess.Popen[bytes],
    log: Path,
    show: Callable[[Sequence[Step]], None],
) -> Welcome:
    api_ready = False
    for line in reports:
        report = msgspec.json.decode(line, type=StartupReport)
        if isinstance(report, FailureReport):
            process.wait()
            raise (CommandFailed if api_ready else _StartRejected)(report.message, report.code)
        api_ready = api_ready or isinstance(report, ApiReadyReport)
        if isinstance(report, ProgressReport):
            show(report.steps)
        if isinstance(report, expected):
            return report.welcome
    code = process.wait()
    raise CommandFailed(
        f"the cluster's process exited with {code}: {_read_last_line(log)} (see {log})"
    )


def _read_last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").splitlines()
    return lines[-1] if lines else "its log is empty"
