"""When changes were sent, and when each of them was seen."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

CHANGE_PATTERN = re.compile(rb"bench-(\d+)")
"""The text of a change, with its number."""


@dataclass(slots=True)
class ChangeTimes:
    """Seconds on one clock, by the numbers of the changes.

    Change n is of object n % `objects`. An observer of an object sees its newest state, so a change
    also counts as seen when a later one of the same object is.
    """

    objects: int
    sent: dict[int, float]
    seen: dict[int, float] = field(default_factory=dict[int, float])

    def record_arrival(self, number: int, now: float) -> None:
        """Record that a change was seen, and with it all earlier ones of its object."""
        while number in self.sent and number not in self.seen:
            self.seen[number] = now
            number -= self.objects

    @property
    def is_complete(self) -> bool:
        return len(self.seen) == len(self.sent)

    def get_latency(self, share: float) -> float:
        """The latency in ms of this share of all changes; a change never seen counts as
        infinite.
        """
        latencies = sorted(self.seen[number] - self.sent[number] for number in self.seen)
        position = math.ceil(len(self.sent) * share) - 1
        return latencies[position] * 1e3 if position < len(latencies) else math.inf


@dataclass(slots=True)
class ChangeScanner:
    """Finds the numbers in the data of one connection, which may be split anywhere."""

    _partial: bytes = b""

    def scan(self, piece: bytes) -> Sequence[int]:
        """All numbers that end in this data."""
        text = self._partial + piece
        complete = [match for match in CHANGE_PATTERN.finditer(text) if match.end() < len(text)]
        rest = text[complete[-1].end() :] if complete else text
        self._partial = rest[-24:]
        return [int(match[1]) for match in complete]
