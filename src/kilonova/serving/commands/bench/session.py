"""Runs load against a target, and prints what came back."""

import asyncio
import contextlib
import signal
import sys
from pathlib import Path

import typer

from kilonova.component.failure import CommandFailed
from kilonova.serving.commands.bench.settings import BenchSettings
from kilonova.serving.loadtest.analysis import STOPPED_NOTE, RunReport, compute_result
from kilonova.serving.loadtest.recorder import Recorder
from kilonova.serving.loadtest.report import format_page, format_progress, format_result
from kilonova.serving.loadtest.result import LoadResult
from kilonova.serving.loadtest.runner import LoadRun
from kilonova.serving.loadtest.targets.address import Address
from kilonova.serving.loadtest.targets.selection import build_target, choose_protocol

_TERMINAL_SECONDS = 0.5
_LOG_SECONDS = 10.0
"""How often progress is printed where standard error is no terminal."""
_INTERRUPTED = 130
"""The exit code."""


def run_bench(address: Address, settings: BenchSettings) -> None:
    """Run the load, print the result, and write the page if one is wanted.

    Ctrl-C ends the run early: what is measured until then is printed. Another one ends it at once.
    """
    if settings.report is not None:
        _check_writable(settings.report)
    result = asyncio.run(_run(address, settings))
    if settings.output == "json":
        from kilonova.component.command.output.formats import encode_as

        typer.echo(encode_as(result, "json"))
    else:
        typer.echo(format_result(result))
    if settings.report is not None:
        _write(settings.report, format_page(result))
        typer.echo(f"charts: {settings.report}", err=True)
    if STOPPED_NOTE in result.notes:
        raise typer.Exit(_INTERRUPTED)


async def _run(address: Address, settings: BenchSettings) -> LoadResult:
    protocol = settings.protocol or choose_protocol(address)
    target = await build_target(address, protocol, settings.target)
    recorder = Recorder(settings.warm_up)
    load = LoadRun(target, settings.plan, recorder)
    loop = asyncio.get_running_loop()
    with contextlib.suppress(NotImplementedError, ValueError):  # not in the main thread
        loop.add_signal_handler(signal.SIGINT, _stop, loop, load)
    progress = None
    if not settings.is_quiet:
        progress = asyncio.create_task(_tell_progress(settings, load, recorder))
    try:
        await load.run()
    finally:
        if progress is not None:
            progress.cancel()
        if not settings.is_quiet and sys.stderr.isatty():
            typer.echo("\r\x1b[K", err=True, nl=False)
        await target.close()
    report = RunReport(target.description, settings.plan, settings.warm_up, settings.objectives)
    return compute_result(report, recorder, load.progress)


def _stop(loop: asyncio.AbstractEventLoop, load: LoadRun) -> None:
    load.stop()
    loop.remove_signal_handler(signal.SIGINT)


async def _tell_progress(settings: BenchSettings, load: LoadRun, recorder: Recorder) -> None:
    loop = asyncio.get_running_loop()
    is_terminal = sys.stderr.isatty()
    while True:
        await asyncio.sleep(_TERMINAL_SECONDS if is_terminal else _LOG_SECONDS)
        line = format_progress(settings.plan, load.progress, recorder, loop.time())
        typer.echo(f"\r{line}\x1b[K" if is_terminal else line, err=True, nl=not is_terminal)


def _check_writable(file: Path) -> None:
    """Before a long run, and not after it."""
    if file.is_dir() or not file.absolute().parent.is_dir():
        raise CommandFailed(f"--report {file}: name a file in a folder that exists")


def _write(file: Path, text: str) -> None:
    try:
        file.write_text(text)
    except OSError as error:
        raise CommandFailed(f"{file} cannot be written: {error.strerror}") from error
