"""Who decides in the replay: ours, and a HorizontalPodAutoscaler that KEDA feeds."""

import math
from collections import deque
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol

from bench.serving.replay_servers import Cluster
from kilonova.api.serving import Autoscaling
from kilonova.serving.autoscaler.decision import decide
from kilonova.serving.autoscaler.model import Observation, ScalingMemory
from kilonova.serving.signals.readings.histogram import Histogram
from kilonova.serving.signals.readings.reading import Reading
from kilonova.serving.signals.readings.window import GroupWindow

_TIME = datetime(2023, 11, 16, tzinfo=UTC)
_BUCKETS = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0),
    *(7.5, 10.0, 20.0, 40.0, 80.0, 160.0),
)
"""vLLM's, of the time to the first token."""


class Scaler(Protocol):
    """Is asked every `interval` seconds."""

    interval: float

    def decide(self, cluster: Cluster) -> int:
        """The number of servers that there are to be."""
        ...


class OurScaler:
    """`autoscaler.decide` over the figures that the collector would have."""

    interval = 1.0

    def __init__(self, scaling: Autoscaling) -> None:
        self._scaling = scaling
        self._window = GroupWindow()
        self._memory: ScalingMemory | None = None
        self._first_token = _BucketCounts()
        self._latency = _BucketCounts()
        self.message = ""

    def decide(self, cluster: Cluster) -> int:
        """The number of servers that there are to be."""
        now, outcome = cluster.now, cluster.outcome
        reading = Reading(
            {"in_flight": cluster.in_flight, "pending": 0, "queued": cluster.queued},
            {"arrivals": cluster.arrived, "requests": len(outcome.latency)},
            {
                "first_token": self._first_token.count(outcome.first_token),
                "latency": self._latency.count(outcome.latency),
            },
        )
        readings = {"all": reading}
        self._window.put(now, readings)
        signals = self._window.build_signals(now, readings)
        observation = Observation(
            now, _TIME, cluster.replicas, cluster.ready, signals, held=len(cluster.held)
        )
        decision = decide(self._scaling, observation, self._memory)
        self._memory, self.message = decision.memory, decision.message
        return decision.desired


@dataclass(slots=True)
class _BucketCounts:
    """A histogram of a list that grows."""

    seen: int = 0
    sum: float = 0.0
    counts: list[int] = field(default_factory=lambda: [0] * len(_BUCKETS))

    def count(self, values: list[float]) -> Histogram:
        for value in values[self.seen :]:
            self.sum += value
            for index, bound in enumerate(_BUCKETS):
                if value <= bound:
                    self.counts[index] += 1
        self.seen = len(values)
        return Histogram(self.sum, self.seen, _BUCKETS, tuple(self.counts))


@dataclass(frozen=True, slots=True)
class HpaSettings:
    """A ScaledObject's, with the defaults of Kubernetes and KEDA. KEDA's cooldown counts on the way
    to zero alone, where this group never is."""

    threshold: float
    """Requests in flight per server (AverageValue)."""
    min_replicas: int = 1
    max_replicas: int = 32
    sync_seconds: float = 15.0
    polling_seconds: float = 30.0
    tolerance: float = 0.1
    down_window_seconds: float = 300.0
    up_pods: int = 4
    up_percent: int = 100


class HpaScaler:
    """The algorithm of the HorizontalPodAutoscaler, as its documentation has it.

    desired = ceil(value / threshold), unless it is within the tolerance; the highest number of the
    last `down_window_seconds` on the way down; per sync at most 4 pods or 100 % more. The value is
    what KEDA read last, every `polling_seconds`.
    """

    def __init__(self, settings: HpaSettings) -> None:
        self._settings = settings
        self.interval = settings.sync_seconds
        self._value = 0.0
        self._polled_at = -math.inf
        self._recommendations: deque[tuple[float, int]] = deque()

    def decide(self, cluster: Cluster) -> int:
        """The number of servers that there are to be."""
        settings, now, current = self._settings, cluster.now, cluster.replicas
        if now - self._polled_at >= settings.polling_seconds:
            self._value = cluster.in_flight + len(cluster.held)
            self._polled_at = now
        ratio = self._value / (settings.threshold * current)
        wanted = (
            current
            if abs(ratio - 1) <= settings.tolerance
            else math.ceil(self._value / settings.threshold)
        )
        self._recommendations.append((now, wanted))
        while self._recommendations[0][0] < now - settings.down_window_seconds:
            self._recommendations.popleft()
        if wanted < current:
            wanted = min(current, max(number for _, number in self._recommendations))
        else:
            step = max(settings.up_pods, math.ceil(current * settings.up_percent / 100))
            wanted = min(wanted, current + step)
        return min(max(wanted, settings.min_replicas), settings.max_replicas)
