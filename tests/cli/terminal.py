"""A command in a terminal of its own, as a person has it in front of them."""

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

_PATIENCE = 30.0
_MOVE = re.compile(r"\x1b\[(\d+);(\d+)H")
_CODE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[()][A-Z0-9]")


@dataclass
class Typing:
    """Runs a command on a pseudo-terminal, types, and reads what is on the screen."""

    command: Sequence[str]
    environment: dict[str, str]
    columns: int = 120
    lines: int = 40
    said: str = field(default="", init=False)
    """Everything that was sent, codes of the terminal included."""
    code: int | None = field(default=None, init=False)

    def __enter__(self) -> Self:
        self._pid, self._door = pty.fork()
        if self._pid == 0:
            os.execvpe(self.command[0], list(self.command), self.environment)
        self.resize(self.columns, self.lines)
        self.before = termios.tcgetattr(self._door)
        return self

    def __exit__(self, *_: object) -> None:
        if self.code is None:
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
        os.close(self._door)

    def type(self, keys: str | bytes) -> None:
        os.write(self._door, keys.encode() if isinstance(keys, str) else keys)

    def signal(self, which: signal.Signals) -> None:
        os.kill(self._pid, which)

    def resize(self, columns: int, lines: int) -> None:
        size = struct.pack("HHHH", lines, columns, 0, 0)
        fcntl.ioctl(self._door, termios.TIOCSWINSZ, size)

    def modes(self) -> list[object]:
        """How the terminal treats what is typed."""
        return termios.tcgetattr(self._door)

    def sees(self, text: str) -> None:
        """Wait until a text is on the screen."""
        self._until(lambda: text in self.screen(), f"{text!r} on the screen")

    def hears(self, text: str) -> None:
        """Wait until a text has come, whatever became of it."""
        self._until(lambda: text in self.said, f"{text!r}")

    def ends(self) -> int:
        """Wait for the command to end: its exit code."""
        self._until(self._ended, "the end")
        assert self.code is not None
        return self.code

    def stops(self) -> None:
        """Wait until the command waits to be told to go on."""
        self._until(self._stopped, "a stop")

    def screen(self) -> str:
        """The last picture that was drawn line by line: what stands in each line now."""
        lines: dict[int, str] = {}
        picture = self.said.rpartition("\x1b[2J")[2]
        pieces = _MOVE.split(picture)
        for line, _, text in zip(pieces[1::3], pieces[2::3], pieces[3::3], strict=True):
            lines[int(line)] = _CODE.sub("", text)
        return "\n".join(lines.get(at, "") for at in range(1, max(lines, default=0) + 1))

    def _ended(self) -> bool:
        pid, status = os.waitpid(self._pid, os.WNOHANG)
        if pid:
            self.code = os.waitstatus_to_exitcode(status)
        return bool(pid)

    def _stopped(self) -> bool:
        pid, status = os.waitpid(self._pid, os.WNOHANG | os.WUNTRACED)
        return bool(pid) and os.WIFSTOPPED(status)

    def _until(self, holds: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + _PATIENCE
        while not holds():
            assert time.monotonic() < deadline, f"{what} did not come: {self.said[-3000:]!r}"
            ready, _, _ = select.select([self._door], [], [], 0.05)
            if ready:
                try:
                    self.said += os.read(self._door, 65536).decode(errors="replace")
                except OSError:
                    # The other side has closed the terminal.
                    time.sleep(0.01)
