"""Current values of series, updated from the objects that changed. No clock."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from itertools import islice
from typing import Any, Protocol

from kilonova.component.console import Measurement, Series
from kilonova.kube import Key
from kilonova.kube.observability.structured_logging import get_logger

_BATCH_SIZE = 250
"""Objects measured before yielding to the event loop: a few milliseconds."""
_DIGITS = 9
"""Values are rounded, since sums of added and removed fractions are not exact."""

log = get_logger(__name__)


class MeasuredStore(Protocol):
    """The objects that are measured: a `Store`."""

    @property
    def has_synced(self) -> bool: ...

    def get(self, key: Key) -> Any: ...

    def keys(self) -> Collection[Key]: ...

    def key_of(self, obj: Any) -> Key: ...

    def add_event_handler(self, handler: Callable[[Any, Any], None]) -> Callable[[], None]: ...


class Tally:
    """The values of a `Series` for each name and key.

    An event only marks its object; the marked ones are measured by `update`.
    """

    def __init__(self, series: Series[Any], store: MeasuredStore) -> None:
        self.series = series
        self._store = store
        self._marked: dict[Key, None] = {}
        self._measured: dict[Key, tuple[Measurement, ...]] = {}
        self._sums: defaultdict[tuple[str, str], float] = defaultdict(float)
        self._counts: defaultdict[tuple[str, str], int] = defaultdict(int)
        self._has_failed = False

    @property
    def is_known(self) -> bool:
        """Whether all objects are known."""
        return self._store.has_synced

    def follow(self) -> Callable[[], None]:
        """Mark all objects, and those that change from now on; returns a function that stops."""
        self._marked |= dict.fromkeys(self._store.keys())
        return self._store.add_event_handler(self._mark)

    async def update(self) -> None:
        """Measure the marked objects, in batches."""
        while keys := tuple(islice(self._marked, _BATCH_SIZE)):
            for key in keys:
                del self._marked[key]
                self._replace(key, self._measure(key))
            await asyncio.sleep(0)

    def values(self) -> Iterator[tuple[tuple[str, str], float]]:
        """The current values, by name and key."""
        is_mean = self.series.reduce == "mean"
        for at, total in self._sums.items():
            yield at, round(total / self._counts[at] if is_mean else total, _DIGITS)

    def _mark(self, old: Any, new: Any) -> None:
        self._marked[self._store.key_of(old if new is None else new)] = None

    def _measure(self, key: Key) -> tuple[Measurement, ...]:
        obj = self._store.get(key)
        if obj is None:
            return ()
        try:
            return tuple(self.series.measure(obj))
        except Exception:
            if not self._has_failed:
                self._has_failed = True
                log.exception(
                    "object not counted in series: it cannot be measured",
                    series=", ".join(self.series.names),
                    object="/".join(filter(None, key)),
                )
            return ()

    def _replace(self, key: Key, measured: tuple[Measurement, ...]) -> None:
        for name, value, about in self._measured.pop(key, ()):
            at = name, about
            self._sums[at] -= value
            self._counts[at] -= 1
            if not self._counts[at]:
                del self._sums[at], self._counts[at]
        for name, value, about in measured:
            at = name, about
            self._sums[at] += value
            self._counts[at] += 1
        if measured:
            self._measured[key] = measured
