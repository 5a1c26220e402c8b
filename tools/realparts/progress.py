"""Progress of long work, on standard error."""

import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True)
class Progress:
    """Reports the steps of one part."""

    name: str

    def report(self, text: str) -> None:
        """Print a line."""
        print(f"{self.name}: {text}", file=sys.stderr, flush=True)

    @contextmanager
    def step(self, text: str) -> Generator[None]:
        """Print what begins, and how long it took."""
        started = time.monotonic()
        self.report(f"{text} …")
        yield
        self.report(f"{text}: {time.monotonic() - started:.0f} s")
