"""Reporters of a cluster's start: to a terminal, a stream, or the command that detached it."""

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol

import msgspec

from kilonova.cli.up.progress import ProgressDisplay, Step
from kilonova.cli.up.welcome import Welcome, format_welcome
from kilonova.component.failure import FAILED, CommandFailed


class StartupReporter(Protocol):
    """Receives the progress of a start; `report_failure` may be called at any point."""

    def report_progress(self, steps: Sequence[Step]) -> None:
        """A step has changed."""
        ...

    def report_api_ready(self, welcome: Welcome) -> None:
        """The API answers."""
        ...

    def report_ready(self, welcome: Welcome) -> None:
        """All nodes have registered, and the demo is set up."""
        ...

    def report_failure(self, error: BaseException) -> None: ...

    def report_stopping(self) -> None: ...

    def report_pod_shutdown(self, text: str) -> None:
        """Processes of pods are terminating."""
        ...


class StreamReporter:
    """Reports to a stream that is not a terminal: no progress, only results."""

    def report_progress(self, steps: Sequence[Step]) -> None:
        pass

    def report_api_ready(self, welcome: Welcome) -> None:
        pass

    def report_ready(self, welcome: Welcome) -> None:
        print(format_welcome(welcome, detached=False), flush=True)

    def report_failure(self, error: BaseException) -> None:
        pass

    def report_stopping(self) -> None:
        print("Stopping.", flush=True)

    def report_pod_shutdown(self, text: str) -> None:
        print(text, flush=True)


class TerminalReporter(StreamReporter):
    """Shows the progress on a terminal, and removes it when the cluster is ready."""

    def __init__(self) -> None:
        self._display = ProgressDisplay()

    def report_progress(self, steps: Sequence[Step]) -> None:
        self._display.show(steps)

    def report_ready(self, welcome: Welcome) -> None:
        self._display.clear()
        super().report_ready(welcome)

    def report_failure(self, error: BaseException) -> None:
        self._display.clear()

    def report_stopping(self) -> None:
        self._display.clear()
        super().report_stopping()


class ProgressReport(msgspec.Struct, tag=True, frozen=True):
    """Message on the pipe: a step has changed."""

    steps: tuple[Step, ...]


class ApiReadyReport(msgspec.Struct, tag=True, frozen=True):
    """Message on the pipe: the API answers."""

    welcome: Welcome


class ReadyReport(msgspec.Struct, tag=True, frozen=True):
    """Message on the pipe: all nodes have registered, and the demo is set up."""

    welcome: Welcome


class FailureReport(msgspec.Struct, tag=True, frozen=True):
    """Message on the pipe: the start failed."""

    message: str
    code: int = FAILED


StartupReport = ProgressReport | ApiReadyReport | ReadyReport | FailureReport


class PipeReporter:
    """Reports to the command that detached this process, one JSON object a line, until ready."""

    def __init__(self, descriptor: int) -> None:
        os.set_inheritable(descriptor, False)
        self._pipe = os.fdopen(descriptor, "wb", buffering=0)

    def report_progress(self, steps: Sequence[Step]) -> None:
        self._send(ProgressReport(tuple(steps)))

    def report_api_ready(self, welcome: Welcome) -> None:
        self._send(ApiReadyReport(welcome))

    def report_ready(self, welcome: Welcome) -> None:
        self._send(ReadyReport(welcome))
        self._pipe.close()

    def report_failure(self, error: BaseException) -> None:
        # An unexpected error is in the log, with its traceback.
        if isinstance(error, CommandFailed):
            self._send(FailureReport(str(error), error.code))

    def report_stopping(self) -> None:
        pass

    def report_pod_shutdown(self, text: str) -> None:
        print(text, flush=True)

    def _send(self, report: StartupReport) -> None:
        if self._pipe.closed:
            return
        # Without --wait the other process has exited.
        with suppress(BrokenPipeError):
            self._pipe.write(msgspec.json.encode(report) + b"\n")


def pod_shutdown_text(pods: int, seconds: float) -> str:
    """The message while processes of pods terminate."""
    count = "1 pod" if pods == 1 else f"{pods} pods"
    return f"Terminating {count} on this machine, at most {max(0.0, seconds):.0f} s ..."


def select_reporter() -> StartupReporter:
    """The reporter for standard error."""
    return TerminalReporter() if sys.stderr.isatty() else StreamReporter()
