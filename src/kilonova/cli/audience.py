"""Who watches a cluster start: a person at a terminal, a file, or the command that detached it."""

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol

import msgspec

from kilonova.cli.failure import FAILED, CommandFailed
from kilonova.cli.progress import Display, Step
from kilonova.cli.welcome import Welcome, welcome_text


class Audience(Protocol):
    """Is told how a start goes; `failed` may come instead of anything else."""

    def progress(self, steps: Sequence[Step]) -> None:
        """How far it is, again and again."""
        ...

    def answers(self, welcome: Welcome) -> None:
        """The API answers."""
        ...

    def ready(self, welcome: Welcome) -> None:
        """All nodes have registered, and what was to be set up is there."""
        ...

    def failed(self, error: BaseException) -> None: ...

    def stopping(self) -> None: ...

    def ending_pods(self, text: str) -> None:
        """Processes of pods are still ending."""
        ...


class Plain:
    """A stream that is not a terminal: only what is worth keeping."""

    def progress(self, steps: Sequence[Step]) -> None:
        pass

    def answers(self, welcome: Welcome) -> None:
        pass

    def ready(self, welcome: Welcome) -> None:
        print(welcome_text(welcome, detached=False), flush=True)

    def failed(self, error: BaseException) -> None:
        pass

    def stopping(self) -> None:
        print("Stopping.", flush=True)

    def ending_pods(self, text: str) -> None:
        print(text, flush=True)


class Terminal(Plain):
    """A person: the steps while they are taken, gone when all of them are."""

    def __init__(self) -> None:
        self._display = Display()

    def progress(self, steps: Sequence[Step]) -> None:
        self._display.show(steps)

    def ready(self, welcome: Welcome) -> None:
        self._display.clear()
        super().ready(welcome)

    def failed(self, error: BaseException) -> None:
        self._display.clear()

    def stopping(self) -> None:
        self._display.clear()
        super().stopping()


class Progress(msgspec.Struct, tag=True, frozen=True):
    """Over the pipe: how far it is."""

    steps: tuple[Step, ...]


class Answers(msgspec.Struct, tag=True, frozen=True):
    """Over the pipe: the API answers."""

    welcome: Welcome


class Ready(msgspec.Struct, tag=True, frozen=True):
    """Over the pipe: all nodes have registered, and what was to be set up is there."""

    welcome: Welcome


class Failed(msgspec.Struct, tag=True, frozen=True):
    """Over the pipe: it will not start, and why."""

    message: str
    code: int = FAILED


Report = Progress | Answers | Ready | Failed


class Pipe:
    """The command that detached us: reports, one JSON object a line, until it is ready."""

    def __init__(self, descriptor: int) -> None:
        os.set_inheritable(descriptor, False)
        self._pipe = os.fdopen(descriptor, "wb", buffering=0)

    def progress(self, steps: Sequence[Step]) -> None:
        self._send(Progress(tuple(steps)))

    def answers(self, welcome: Welcome) -> None:
        self._send(Answers(welcome))

    def ready(self, welcome: Welcome) -> None:
        self._send(Ready(welcome))
        self._pipe.close()

    def failed(self, error: BaseException) -> None:
        # Of what was not expected the log has more to say than a line.
        if isinstance(error, CommandFailed):
            self._send(Failed(str(error), error.code))

    def stopping(self) -> None:
        pass

    def ending_pods(self, text: str) -> None:
        print(text, flush=True)

    def _send(self, report: Report) -> None:
        if self._pipe.closed:
            return
        # Whoever did not want to wait has gone.
        with suppress(BrokenPipeError):
            self._pipe.write(msgspec.json.encode(report) + b"\n")


def ending_text(pods: int, seconds: float) -> str:
    """What is said while processes of pods are ending."""
    count = "1 pod" if pods == 1 else f"{pods} pods"
    return f"Ending {count} on this machine, at most {max(0.0, seconds):.0f} s ..."


def present_audience() -> Audience:
    """The one that standard error leads to."""
    return Terminal() if sys.stderr.isatty() else Plain()
