"""What a decision is made of, and what it is. Plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from kilonova.serving.autoscaler.load_curve import LoadCurve
from kilonova.serving.signals import GroupSignals

Mode = Literal["Demand", "Metric", "SLA", "Schedule", "Held", "Idle", "Bounds", "Paused"]
Objective = Literal["latency", "queue", "first_token", "inter_token"]

DEFAULT_STARTUP_SECONDS = 30.0
"""How long a server is expected to start, until one has started."""
MAX_HORIZON_SECONDS = 30.0
"""Samples are kept so long."""
_MIN_HORIZON_SECONDS = 5.0
_LONG_FIGURE = 1e9


@dataclass(frozen=True, slots=True)
class Observation:
    """A group of servers, its load, and the time."""

    now: float
    """On the monotonic clock."""
    time: datetime
    """On the wall clock, for schedules."""
    replicas: int
    """The servers that there are to be now."""
    ready: int
    """The servers that get requests."""
    signals: GroupSignals | None = None
    """None if there are none, or none that are recent."""
    is_complete: bool = True
    """Whether all gateways were read."""
    held: int = 0
    """Requests that are held at this moment; the signals may be a second old."""
    metric: float | None = None
    """The value of `autoscaling.metric`."""
    problems: tuple[str, ...] = ()
    """What could not be read."""

    @property
    def starting(self) -> int:
        """The servers that do not get requests yet."""
        return max(0, self.replicas - self.ready)


@dataclass(frozen=True, slots=True)
class Load:
    """Requests, averaged over the last seconds; those that are held at this moment."""

    in_flight: float
    pending: float
    held: int
    arrivals: float | None = None
    """Per second."""
    answers: float | None = None
    """Per second."""

    @property
    def total(self) -> float:
        """All requests that are not answered."""
        return self.in_flight + self.pending + self.held

    def __str__(self) -> str:
        parts = [f"{format_figure(self.in_flight)} in flight"]
        if self.pending:
            parts.append(f"{format_figure(self.pending)} queued")
        if self.held:
            parts.append(f"{self.held} held")
        return " + ".join(parts)


@dataclass(frozen=True, slots=True)
class Vote:
    """The number of servers that one mode wants, and why."""

    wanted: int
    mode: Mode
    message: str
    sustained: int | None = None
    """What is needed for longer than a backlog lasts; None for all of them."""

    @property
    def held(self) -> int:
        """What stabilization holds."""
        return self.wanted if self.sustained is None else self.sustained


@dataclass(frozen=True, slots=True)
class LoadSample:
    """The load at one time."""

    at: float
    in_flight: float
    pending: float
    per_server: float
    """Requests of one ready server."""
    arrivals: float | None = None
    """Requests per second."""

    @property
    def total(self) -> float:
        """All requests that gateways have."""
        return self.in_flight + self.pending


@dataclass(frozen=True, slots=True)
class WantedSpan:
    """A number that was wanted without interruption."""

    last: float
    wanted: int
    sustained: int
    """What is needed for longer than a backlog lasts."""


@dataclass(frozen=True, slots=True)
class ScalingMemory:
    """What is remembered of a group between two decisions.

    A process that starts remembers nothing. It then takes the present number for what was wanted,
    so that nothing is removed before the stabilization is over.
    """

    samples: tuple[LoadSample, ...] = ()
    wanted: tuple[WantedSpan, ...] = ()
    changes: tuple[tuple[float, int], ...] = ()
    """Servers added or removed, and when."""
    replicas: int | None = None
    ready: int = 0
    active_at: float | None = None
    """When there was a request last."""
    starting_since: float | None = None
    busy_rate: float | None = None
    """The answers per second of a server that is fully busy."""
    startup_seconds: float | None = None
    """How long servers took to become ready."""
    curves: Mapping[Objective, LoadCurve] = field(default_factory=dict[Objective, LoadCurve])

    @property
    def horizon(self) -> float:
        """As long as a server takes to start, within bounds: what is shorter is over before a
        server that was added or kept for it makes a difference."""
        startup = self.startup_seconds or DEFAULT_STARTUP_SECONDS
        return min(max(startup, _MIN_HORIZON_SECONDS), MAX_HORIZON_SECONDS)


@dataclass(frozen=True, slots=True)
class Decision:
    """How many servers there are to be, why, and what to remember."""

    desired: int
    mode: Mode
    message: str
    memory: ScalingMemory


def format_figure(value: float) -> str:
    """A figure as people write it: `12`, `3.4`, `1e-05`, `1e+12`."""
    if abs(value) >= _LONG_FIGURE:
        return f"{value:.2g}"
    return f"{value:.0f}" if value >= 100 or value == round(value) else f"{value:.2g}"


def format_seconds(seconds: float) -> str:
    """`250ms`, `1.5s`, `42s`, `5m`."""
    if seconds < 1:
        return f"{format_figure(seconds * 1000)}ms"
    if seconds < 120:
        return f"{format_figure(seconds)}s"
    minutes = seconds / 60
    return f"{format_figure(minutes)}m" if minutes < 120 else f"{format_figure(minutes / 60)}h"
