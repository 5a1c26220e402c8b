"""The recent past of one number, in fixed resolutions and bounded memory. No clock, no I/O.

Time is divided into buckets of a fixed length; a bucket has the mean of its samples. A bucket
without a sample has the value of the one before if the next sample is only late, else it is
unknown.
"""

import math
from array import array
from collections.abc import Iterator
from typing import NamedTuple

_UNKNOWN = math.nan


class Resolution(NamedTuple):
    """Buckets of `step` seconds, of which the last `length` are kept."""

    step: int
    length: int


_MAX_LATE_SECONDS = 60
"""Buckets without a sample are filled up to this time: the machine was busy, or asleep."""

RESOLUTIONS = (Resolution(10, 360), Resolution(60, 1440))
"""An hour in steps of 10 seconds, a day in steps of a minute."""


class SeriesRing:
    """The samples of one series in each resolution; about 7 kB."""

    __slots__ = ("_levels", "begun", "latest")

    def __init__(self, begun: float = 0.0) -> None:
        self.begun = begun
        """When its first sample was taken."""
        self.latest = 0.0
        """The last known value."""
        self._levels = {each.step: _Level(each) for each in RESOLUTIONS}

    def add(self, at: float, value: float) -> None:
        """Add a sample, NaN if the value is unknown; one of an earlier bucket is ignored."""
        if not math.isnan(value):
            self.latest = value
        for level in self._levels.values():
            level.add(at, value)

    def values(self, step: int, first: int, last: int) -> Iterator[float | None]:
        """The values of the buckets from `first` to `last`, of a resolution; None if unknown."""
        level = self._levels[step]
        for bucket in range(first, last + 1):
            value = level.get(bucket)
            yield None if math.isnan(value) else value


class _Level:
    """A ring of buckets. Single precision: exact for counts up to 2**24."""

    __slots__ = ("_count", "_last", "_resolution", "_sum", "_values")

    def __init__(self, resolution: Resolution) -> None:
        self._resolution = resolution
        self._values = array("f", [_UNKNOWN]) * resolution.length
        self._last: int | None = None
        self._sum = 0.0
        self._count = 0

    def add(self, at: float, value: float) -> None:
        step, length = self._resolution
        bucket = int(at // step)
        if self._last is None or bucket < self._last - length:
            # The first sample, or a clock that was set back by more than the ring holds.
            self._values = array("f", [_UNKNOWN]) * length
        elif bucket < self._last:
            return
        elif bucket > self._last:
            is_late = (bucket - self._last - 1) * step <= _MAX_LATE_SECONDS
            filled = self._values[self._last % length] if is_late else _UNKNOWN
            for skipped in range(max(self._last + 1, bucket - length + 1), bucket):
                self._values[skipped % length] = filled
        if bucket != self._last:
            self._last, self._sum, self._count = bucket, 0.0, 0
            self._values[bucket % length] = _UNKNOWN
        if not math.isnan(value):
            self._sum += value
            self._count += 1
            self._values[bucket % length] = self._sum / self._count

    def get(self, bucket: int) -> float:
        length = self._resolution.length
        if self._last is None or not self._last - length < bucket <= self._last:
            return _UNKNOWN
        return self._values[bucket % length]
