"""From readings to signals: rates and quantiles over the last seconds. Pure, with a memory."""

from collections import deque
from collections.abc import Mapping

from kilonova.serving.signals.model import GroupSignals, LatencyQuantiles
from kilonova.serving.signals.readings.histogram import Histogram
from kilonova.serving.signals.readings.reading import (
    Counter,
    Gauge,
    Increment,
    Measure,
    Reading,
    add_gauges,
    add_increments,
    subtract_reading,
)

RATE_SECONDS = 5.0
"""Rates are over this time."""
QUANTILE_SECONDS = 15.0
"""Quantiles are over this time: a few requests have no percentile."""
_MAX_GAUGE = 1e9
"""A greater number of requests at one time is garbage."""


class GroupWindow:
    """The last readings of a group. A target is a gateway or a server, by any name of its own."""

    def __init__(self) -> None:
        self._last: dict[str, Reading] = {}
        self._increments: deque[tuple[float, float, Increment]] = deque()
        self._read_at: float | None = None

    def put(self, now: float, readings: Mapping[str, Reading]) -> Increment | None:
        """Take the readings of all targets that answered; return what happened since the last ones,
        None if these are the first.

        A target that is not among them keeps its last reading: if it answers again, what happened
        meanwhile counts. What it did before it vanished stays in the window.
        """
        known = [target for target in readings if target in self._last]
        increment = add_increments(
            subtract_reading(readings[target], self._last[target]) for target in known
        )
        elapsed = None if self._read_at is None else now - self._read_at
        self._last.update(readings)
        self._read_at = now
        if not known or not elapsed:
            return None
        self._increments.append((now, elapsed, increment))
        while self._increments and self._increments[0][0] <= now - QUANTILE_SECONDS:
            self._increments.popleft()
        return increment

    def keep_targets(self, targets: frozenset[str]) -> None:
        """Forget all other targets: they do not exist any more."""
        for gone in self._last.keys() - targets:
            del self._last[gone]

    def build_signals(self, now: float, readings: Mapping[str, Reading]) -> GroupSignals:
        """The signals, with the gauges of the targets that answered."""
        gauges = add_gauges(readings.values())
        counters, seconds = self._counters_since(now - RATE_SECONDS)
        distributions = add_increments(each for _, _, each in self._increments).distributions

        def gauge(name: Gauge) -> int | None:
            value = gauges.get(name)
            return None if value is None or value > _MAX_GAUGE else round(value)

        def rate(name: Counter) -> float | None:
            return counters[name] / seconds if name in counters else None

        def quantiles(measure: Measure) -> LatencyQuantiles:
            found = distributions.get(measure, Histogram())
            return LatencyQuantiles(*(found.quantile(share) for share in (0.5, 0.95, 0.99)))

        def mean(measure: Measure) -> float | None:
            return distributions.get(measure, Histogram()).mean

        return GroupSignals(
            in_flight=gauge("in_flight"),
            pending=gauge("pending"),
            queued=gauge("queued"),
            held=gauge("held") or 0,
            arrivals_per_second=rate("arrivals"),
            requests_per_second=rate("requests"),
            errors_per_second=rate("errors"),
            rejected_per_second=rate("rejected"),
            tokens_per_second=rate("tokens"),
            latency=quantiles("latency"),
            queue_time=quantiles("queue"),
            compute_time=quantiles("compute"),
            time_to_first_token=quantiles("first_token"),
            inter_token_latency=quantiles("inter_token"),
            mean_latency=mean("latency"),
            mean_queue_time=mean("queue"),
            mean_compute_time=mean("compute"),
            distributions=distributions,
        )

    def _counters_since(self, start: float) -> tuple[Mapping[Counter, float], float]:
        """The counters of the last seconds, and how many seconds that are."""
        recent = [(seconds, each) for at, seconds, each in self._increments if at > start]
        if not recent:
            return {}, 0.0
        counters = add_increments(each for _, each in recent).counters
        return counters, sum(seconds for seconds, _ in recent)
