"""The terminal of `kilonova top`: taken for as long as it runs, and always given back."""

import codecs
import os
import shutil
import signal
import sys
import termios
import tty
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager

_ENTER = "\x1b[?1049h\x1b[?25l\x1b[?7l"
"""The other screen, no cursor, no wrapping."""
_LEAVE = "\x1b[?7h\x1b[?25h\x1b[?1049l"


class Terminal:
    """Draws whole pictures; a line that did not change is not sent again."""

    def __init__(self) -> None:
        self._shown: list[str] = []
        self._size = (0, 0)
        # What is more than a byte long may come in two parts.
        self._decoder = codecs.getincrementaldecoder("utf-8")("ignore")

    def size(self) -> tuple[int, int]:
        """Columns and lines."""
        found = shutil.get_terminal_size()
        return found.columns, found.lines

    def draw(self, lines: Sequence[str]) -> None:
        """Show a picture."""
        anew = self._size != self.size() or len(lines) != len(self._shown)
        self._size = self.size()
        sent = ["\x1b[2J"] if anew else []
        for place, line in enumerate(lines):
            if anew or line != self._shown[place]:
                sent.append(f"\x1b[{place + 1};1H\x1b[K{line}")
        self._shown = list(lines)
        _send("".join(sent))

    def forget(self) -> None:
        """Send everything the next time: something else was on the screen."""
        self._shown = []

    def read(self) -> str | None:
        """What was typed, as far as it is text; None at its end."""
        typed = os.read(sys.stdin.fileno(), 1024)
        return self._decoder.decode(typed) if typed else None


@contextmanager
def taken_terminal() -> Generator[Terminal]:
    """The terminal, with keys as they are pressed; as it was afterwards, whatever happens."""
    before = termios.tcgetattr(sys.stdin)
    try:
        tty.setcbreak(sys.stdin)
        _send(_ENTER)
        yield Terminal()
    finally:
        _send(_LEAVE)
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def stop_and_go_on(redraw: Callable[[], None]) -> None:
    """Ctrl-Z: give the terminal back, stop, and take it again when told to go on."""
    mine = termios.tcgetattr(sys.stdin)
    _send(_LEAVE)
    signal.raise_signal(signal.SIGSTOP)
    termios.tcsetattr(sys.stdin, termios.TCSADRAIN, mine)
    _send(_ENTER)
    redraw()


def _send(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
