"""Transcripts as Markdown: what was done, what was seen, and whether it was as expected."""

import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")


class Transcript:
    """Prints lines as they come, and remembers them."""

    def __init__(self, out: Path | None = None, echo: Callable[[str], object] = print) -> None:
        self._out = out
        self._echo = echo
        self.lines: list[str] = []
        self.failures: list[str] = []

    def write(self, *lines: str) -> None:
        """Print lines, and save everything so far."""
        for line in lines:
            self._echo(line)
        self.lines += lines
        if self._out is not None:
            self._out.write_text("\n".join(self.lines) + "\n")

    def heading(self, text: str) -> None:
        """A heading of the second level."""
        self.write("", f"## {text}", "")

    def table(self, header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        """A table."""
        self.write(f"| {' | '.join(header)} |", f"|{'---|' * len(header)}")
        self.write(*(f"| {' | '.join(map(str, row))} |" for row in rows), "")

    def code(self, text: str) -> None:
        """Text as it is, such as the output of a command."""
        self.write("```", *text.rstrip().splitlines(), "```", "")

    def check(self, what: str, passed: bool, detail: str = "") -> bool:
        """A check, and whether it passed."""
        mark = "ok" if passed else "**FAILED**"
        self.write(f"- {mark}: {what}{f' ({detail})' if detail else ''}")
        if not passed:
            self.failures.append(what)
        return passed

    @contextmanager
    def timed(self, what: str) -> Generator[None]:
        """Print how long something took."""
        start = time.perf_counter()
        yield
        self.write(f"- {what}: {(time.perf_counter() - start) * 1000:.0f} ms")

    def summary(self) -> int:
        """Print the result; the exit code."""
        self.heading("Result")
        if not self.failures:
            self.write("All checks passed.")
            return 0
        self.write(f"{len(self.failures)} checks failed:", "")
        self.write(*(f"- {each}" for each in self.failures))
        return 1


def median_milliseconds(run: Callable[[], object], times: int = 15) -> float:
    """How long a call takes."""
    taken: list[float] = []
    for _ in range(times):
        start = time.perf_counter()
        run()
        taken.append(time.perf_counter() - start)
    return sorted(taken)[len(taken) // 2] * 1000
