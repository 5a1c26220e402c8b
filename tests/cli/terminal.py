"""Runs a command on a pseudo-terminal."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Self

_TIMEOUT_SECONDS = 30.0
_MOVE = re.compile(r"\x1b\[(\d+);(\d+)H")
_CODE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[()][A-Z0-9]")


@dataclass
class TerminalSession:
    """Runs a command on a pseudo-terminal, types keys, and reads the screen."""

    command: Sequence[str]
    environment: dict[str, str]
    columns: int = 120
    lines: int = 40
    output: str = field(default="", init=False)
    """All output, with escape codes."""
    code: int | None = field(default=None, init=False)

    def __enter__(self) -> Self:
        self._pid, self._fd = pty.fork()
        if self._pid == 0:
            os.execvpe(self.command[0], list(self.command), self.environment)
        self.resize(self.columns, self.lines)
        self.before = termios.tcgetattr(self._fd)
        return self

    def __exit__(self, *_: object) -> None:
        if self.code is None:
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
        os.close(self._fd)

    def type(self, keys: str | bytes) -> None:
        os.write(self._fd, keys.encode() if isinstance(keys, str) else keys)

    def signal(self, which: signal.Signals) -> None:
        os.kill(self._pid, which)

    def resize(self, columns: int, lines: int) -> None:
        size = struct.pack("HHHH", lines, columns, 0, 0)
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, size)

    def modes(self) -> list[object]:
        """The terminal attributes."""
        return termios.tcgetattr(self._fd)

    def wait_on_screen(self, text: str) -> None:
        """Wait until a text is on the screen."""
        self._wait_until(lambda: text in self.screen(), f"{text!r} on the screen")

    def wait_for_output(self, text: str) -> None:
        """Wait until a text was printed, even if it is no longer on the screen."""
        self._wait_until(lambda: text in self.output, f"{text!r}")

    def wait_for_exit(self) -> int:
        """Wait for the command to exit, and return its exit code."""
        self._wait_until(self._has_exited, "the exit")
        assert self.code is not None
        return self.code

    def wait_until_stopped(self) -> None:
        """Wait until the command is stopped (SIGSTOP)."""
        self._wait_until(self._is_stopped, "the stop")

    def screen(self) -> str:
        """The current lines of the last frame that was drawn line by line."""
        lines: dict[int, str] = {}
        frame = self.output.rpartition("\x1b[2J")[2]
        pieces = _MOVE.split(frame)
        for line, _, text in zip(pieces[1::3], pieces[2::3], pieces[3::3], strict=True):
            lines[int(line)] = _CODE.sub("", text)
        return "\n".join(lines.get(number, "") for number in range(1, max(lines, default=0) + 1))

    def _has_exited(self) -> bool:
        pid, status = os.waitpid(self._pid, os.WNOHANG)
        if pid:
            self.code = os.waitstatus_to_exitcode(status)
        return bool(pid)

    def _is_stopped(self) -> bool:
        pid, status = os.waitpid(self._pid, os.WNOHANG | os.WUNTRACED)
        return bool(pid) and os.WIFSTOPPED(status)

    def _wait_until(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + _TIMEOUT_SECONDS
        while not condition():
            assert time.monotonic() < deadline, (
                f"timed out waiting for {what}: {self.output[-3000:]!r}"
            )
            ready, _, _ = select.select([self._fd], [], [], 0.05)
            if ready:
                try:
                    self.output += os.read(self._fd, 65536).decode(errors="replace")
                except OSError:
                    # The command has closed the terminal.
                    time.sleep(0.01)
