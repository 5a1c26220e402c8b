"""When changes were sent, and when each of them was seen."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

MARK = re.compile(rb"bench-(\d+)")
"""What a change carries: its number."""


@dataclass(slots=True)
class Arrivals:
    """Seconds on one clock, by the numbers of the changes.

    Change n is of object n % `objects`. Who sees an object sees its newest state, so a change also
    counts as seen when a later one of its object is.
    """

    objects: int
    sent: dict[int, float]
    seen: dict[int, float] = field(default_factory=dict[int, float])

    def note(self, number: int, now: float) -> None:
        """A change was seen, and with it all earlier ones of its object."""
        while number in self.sent and number not in self.seen:
            self.seen[number] = now
            number -= self.objects

    @property
    def is_complete(self) -> bool:
        return len(self.seen) == len(self.sent)

    def milliseconds(self, share: float) -> float:
        """How long so great a share of all changes took at most; one never seen takes for ever."""
        took = sorted(self.seen[number] - self.sent[number] for number in self.seen)
        position = math.ceil(len(self.sent) * share) - 1
        return took[position] * 1e3 if position < len(took) else math.inf


@dataclass(slots=True)
class Marks:
    """Finds the numbers in what one connection receives, in pieces cut anywhere."""

    _torn: bytes = b""

    def found(self, piece: bytes) -> Sequence[int]:
        """All numbers whose end is in this piece."""
        text = self._torn + piece
        whole = [match for match in MARK.finditer(text) if match.end() < len(text)]
        rest = text[whole[-1].end() :] if whole else text
        self._torn = rest[-24:]
        return [int(match[1]) for match in whole]
