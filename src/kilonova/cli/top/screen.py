"""The terminal of `kilonova top`: alternate screen and cbreak mode, always restored."""

import codecs
import os
import shutil
import signal
import sys
import termios
import tty
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager

_ENTER_SCREEN = "\x1b[?1049h\x1b[?25l\x1b[?7l"
"""Alternate screen, no cursor, no wrapping."""
_LEAVE_SCREEN = "\x1b[?7h\x1b[?25h\x1b[?1049l"


class Screen:
    """Draws frames; a line that did not change is not sent again."""

    def __init__(self) -> None:
        self._drawn_lines: list[str] = []
        self._size = (0, 0)
        # A character of several bytes may arrive in two reads.
        self._decoder = codecs.getincrementaldecoder("utf-8")("ignore")

    def size(self) -> tuple[int, int]:
        """Columns and lines."""
        found = shutil.get_terminal_size()
        return found.columns, found.lines

    def draw(self, lines: Sequence[str]) -> None:
        """Draw a frame."""
        redraw_all = self._size != self.size() or len(lines) != len(self._drawn_lines)
        self._size = self.size()
        output = ["\x1b[2J"] if redraw_all else []
        for index, line in enumerate(lines):
            if redraw_all or line != self._drawn_lines[index]:
                output.append(f"\x1b[{index + 1};1H\x1b[K{line}")
        self._drawn_lines = list(lines)
        _write_to_terminal("".join(output))

    def invalidate(self) -> None:
        """Send all lines with the next frame: the screen has been overwritten."""
        self._drawn_lines = []

    def read(self) -> str | None:
        """The input so far, without invalid bytes; None at end of file."""
        typed = os.read(sys.stdin.fileno(), 1024)
        return self._decoder.decode(typed) if typed else None


@contextmanager
def acquire_screen() -> Generator[Screen]:
    """The alternate screen in cbreak mode; the terminal is restored in any case."""
    before = termios.tcgetattr(sys.stdin)
    try:
        tty.setcbreak(sys.stdin)
        _write_to_terminal(_ENTER_SCREEN)
        yield Screen()
    finally:
        _write_to_terminal(_LEAVE_SCREEN)
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def suspend_and_resume(redraw: Callable[[], None]) -> None:
    """Ctrl-Z: restore the terminal, stop, and take it again on SIGCONT."""
    attributes = termios.tcgetattr(sys.stdin)
    _write_to_terminal(_LEAVE_SCREEN)
    signal.raise_signal(signal.SIGSTOP)
    termios.tcsetattr(sys.stdin, termios.TCSADRAIN, attributes)
    _write_to_terminal(_ENTER_SCREEN)
    redraw()


def _write_to_terminal(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
