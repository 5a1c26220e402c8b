"""Builders of observations, and a group that is observed again and again."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from kilonova.api.serving import Autoscaling
from kilonova.serving.autoscaler.decision import decide
from kilonova.serving.autoscaler.model import Decision, Observation, ScalingMemory
from kilonova.serving.signals import GroupSignals, Histogram

START = datetime(2026, 11, 19, 12, 0, tzinfo=UTC)


def observe(
    in_flight: int | None = 0,
    *,
    replicas: int = 1,
    ready: int | None = None,
    pending: int = 0,
    now: float = 0.0,
    **fields: object,
) -> Observation:
    """An observation; without `ready` all servers are ready."""
    signals = None if in_flight is None else GroupSignals(in_flight=in_flight, pending=pending)
    observation = Observation(
        now=now,
        time=START + timedelta(seconds=now),
        replicas=replicas,
        ready=replicas if ready is None else ready,
        signals=signals,
    )
    return replace(observation, **fields)


def distribution(seconds: float, count: int = 100) -> Histogram:
    """Latencies that are all about the same."""
    bounds = tuple(seconds * share for share in (0.5, 0.9, 1.0, 2.0))
    return Histogram(seconds * count, count, bounds, (0, 0, count, count))


@dataclass
class Group:
    """A group whose servers start as it is told, one second after the other."""

    scaling: Autoscaling
    replicas: int = 1
    startup: float = 0.0
    now: float = 0.0
    memory: ScalingMemory | None = None
    ready_at: list[float] = field(default_factory=list[float])
    numbers: list[int] = field(default_factory=list[int])
    decision: Decision | None = None

    def __post_init__(self) -> None:
        self.ready_at = [0.0] * self.replicas

    @property
    def ready(self) -> int:
        return sum(at <= self.now for at in self.ready_at)

    def step(self, signals: GroupSignals | None, **fields: object) -> int:
        """Decide once, scale, and let a second pass."""
        observation = replace(
            observe(0, replicas=self.replicas, ready=self.ready, now=self.now), signals=signals
        )
        observation = replace(observation, **fields)
        self.decision = decide(self.scaling, observation, self.memory)
        self.memory = self.decision.memory
        self.replicas = self.decision.desired
        added = self.replicas - len(self.ready_at)
        self.ready_at += [self.now + self.startup] * added
        del self.ready_at[self.replicas :]
        self.numbers.append(self.replicas)
        self.now += 1.0
        return self.replicas

    def run(self, in_flight: Iterable[int | None]) -> list[int]:
        """The numbers after each second."""
        return [
            self.step(None if each is None else GroupSignals(in_flight=each)) for each in in_flight
        ]
