"""The rings of all series. No clock, no I/O.

Their number is limited: when all are in use, the one that was without a value for longest is
replaced, else a new key has no history.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from heapq import nsmallest

import msgspec

from kilonova.console.history.ring import RESOLUTIONS, SeriesRing
from kilonova.kube.observability.structured_logging import get_logger

MAX_RINGS = 500
"""At about 7 kB each."""

MAX_KEYS = 7
"""Lines of one chart: there are as many colours."""

SeriesKey = tuple[str, str]
"""The name of a series, and the key that it is about."""

log = get_logger(__name__)


class SeriesHistory(msgspec.Struct, frozen=True, rename="camel"):
    """Values of series at the same times; None where they are unknown."""

    start: int
    """The time of the first value, in seconds since the epoch."""
    step: int
    values: dict[str, list[float | None]]
    """By name."""
    by_key: dict[str, list[float | None]] = {}
    """Of one series, by key: those with the greatest current values."""


class HistoryQuery(msgspec.Struct, frozen=True):
    """Which series, and in which resolution."""

    step: int
    names: Sequence[str] = ()
    key: str = ""
    """The key of the series in `names`."""
    by_key: str = ""
    """A series of which several keys are wanted."""


class SeriesRings:
    """The history of series; those in `sums` are 0 where they have no value, others unknown."""

    def __init__(self, names: Collection[str], sums: Collection[str]) -> None:
        self._names = frozenset(names)
        self._sums = frozenset(sums)
        self._rings: dict[SeriesKey, SeriesRing] = {}
        self._known_since: dict[str, float] = {}
        """When a series was first recorded."""
        self._absent: dict[SeriesKey, None] = {}
        """Rings without a current value, longest first."""
        self._has_ignored = False

    def record(self, names: Collection[str], values: Mapping[SeriesKey, float], at: float) -> None:
        """Add the current values of some series; keys that are missing have none."""
        for name in names:
            self._known_since.setdefault(name, at)
        for each, value in values.items():
            ring = self._rings.get(each) or self._new_ring(each, at)
            if ring is not None:
                self._absent.pop(each, None)
                ring.add(at, value)
        for each, ring in self._rings.items():
            if each[0] in names and each not in values:
                self._absent.setdefault(each)
                ring.add(at, 0.0 if each[0] in self._sums else math.nan)

    def record_unknown(self, names: Collection[str], at: float) -> None:
        """The values of some series are not known at the moment."""
        for (name, _), ring in self._rings.items():
            if name in names:
                ring.add(at, math.nan)

    def history(self, query: HistoryQuery, now: float) -> SeriesHistory:
        """The history of series; `ValueError` for an unknown name or resolution."""
        step = query.step
        names = [*query.names, *([query.by_key] if query.by_key else [])]
        lengths = {each.step: each.length for each in RESOLUTIONS}
        if step not in lengths:
            raise ValueError(f"step is {step}: want one of {', '.join(map(str, lengths))}")
        if unknown := [name for name in names if name not in self._names]:
            known = ", ".join(sorted(self._names)) or "none"
            raise ValueError(f"unknown series {unknown[0]!r}: want one of {known}")
        last = int(now // step)
        begun = [
            int(self._known_since[name] // step) for name in names if name in self._known_since
        ]
        first = max(min(begun, default=last + 1), last - lengths[step] + 1)
        values = {name: self._values(name, query.key, step, first, last) for name in query.names}
        by_key = {
            key: self._values(query.by_key, key, step, first, last)
            for key in self._largest_keys(query.by_key)
        }
        return SeriesHistory(first * step, step, values, by_key)

    def _largest_keys(self, name: str) -> list[str]:
        """The keys of a series with the greatest current values."""
        found = [
            (-ring.latest, key) for (each, key), ring in self._rings.items() if each == name and key
        ]
        # In a stable order, so that lines keep their colours.
        return sorted(key for _, key in nsmallest(MAX_KEYS, found))

    def _values(self, name: str, key: str, step: int, first: int, last: int) -> list[float | None]:
        ring = self._rings.get((name, key))
        known = self._known_since.get(name, math.inf)
        # Before an object counted for this key there was none that did.
        default = 0.0 if name in self._sums else None
        begun = last + 1 if ring is None else min(int(ring.begun // step), last + 1)
        values = [
            default if (bucket + 1) * step > known else None for bucket in range(first, begun)
        ]
        if ring is not None:
            values += ring.values(step, first + len(values), last)
        return values

    def _new_ring(self, each: SeriesKey, at: float) -> SeriesRing | None:
        if len(self._rings) >= MAX_RINGS:
            replaced = next(iter(self._absent), None)
            if replaced is None:
                if not self._has_ignored:
                    self._has_ignored = True
                    log.warning(
                        "no history for further series: the limit is reached",
                        limit=MAX_RINGS,
                        series=each[0],
                        key=each[1],
                    )
                return None
            del self._absent[replaced], self._rings[replaced]
        ring = self._rings[each] = SeriesRing(at)
        return ring
