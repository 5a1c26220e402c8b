"""Sets of completion indexes in the format of statuses: `0-3,5,7,8`. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class IndexSet:
    """Numbers as ordered intervals that neither touch nor overlap."""

    intervals: tuple[tuple[int, int], ...] = ()

    @classmethod
    def parse(cls, text: str, below: int) -> IndexSet:
        """Parse indexes `below` a number; higher ones are ignored."""
        found: list[tuple[int, int]] = []
        for piece in text.split(",") if text else ():
            first, _, last = piece.partition("-")
            if not first.isdecimal() or (last and not last.isdecimal()):
                continue
            if int(first) < below:
                found.append((int(first), min(int(last or first), below - 1)))
        return cls(_merge_intervals(found))

    @classmethod
    def from_numbers(cls, numbers: Iterable[int]) -> IndexSet:
        return cls(_merge_intervals((number, number) for number in numbers))

    def __or__(self, other: IndexSet) -> IndexSet:
        if not other.intervals:
            return self
        return IndexSet(_merge_intervals((*self.intervals, *other.intervals)))

    def __contains__(self, number: int) -> bool:
        position = bisect_right(self.intervals, number, key=lambda interval: interval[0])
        return position > 0 and number <= self.intervals[position - 1][1]

    def __len__(self) -> int:
        return sum(last - first + 1 for first, last in self.intervals)

    def __str__(self) -> str:
        return ",".join(map(_format_interval, self.intervals))

    def count_common(self, other: IndexSet) -> int:
        """How many numbers are in both sets."""
        return sum(
            max(0, min(last, other_last) - max(first, other_first) + 1)
            for first, last in self.intervals
            for other_first, other_last in other.intervals
        )

    def iter_missing(self, below: int) -> Iterator[int]:
        """The numbers below a bound that are not in the set, in order."""
        candidate = 0
        for first, last in self.intervals:
            yield from range(candidate, min(first, below))
            candidate = max(candidate, last + 1)
        yield from range(candidate, below)


NO_INDEXES = IndexSet()


def _merge_intervals(intervals: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    result: list[tuple[int, int]] = []
    for first, last in sorted(intervals):
        if result and first <= result[-1][1] + 1:
            result[-1] = (result[-1][0], max(last, result[-1][1]))
        elif last >= first:
            result.append((first, last))
    return tuple(result)


def _format_interval(interval: tuple[int, int]) -> str:
    first, last = interval
    if first == last:
        return str(first)
    return f"{first},{last}" if last == first + 1 else f"{first}-{last}"
