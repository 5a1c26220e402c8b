"""Which groups are overloaded (`limits.load`). Pure.

A group becomes overloaded above the limit, and is so until its load is clearly below it: admission
would otherwise flap with every request. What is not known never refuses anything.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from kilonova.api.durations import parse_duration
from kilonova.api.serving import LoadLimit
from kilonova.serving.signals.model import GroupSignals, ServiceSignals

RELEASE_SHARE = 0.8
"""An overloaded group is released at this share of its limit."""


@dataclass(frozen=True, slots=True)
class OverloadCause:
    """A figure that is above its limit."""

    what: str
    value: float
    limit: float

    def __str__(self) -> str:
        return f"{self.what} {self.value:.4g} > {self.limit:.4g}"


def find_overloaded(
    limit: LoadLimit | None,
    signals: ServiceSignals,
    ready: Mapping[str, int],
    before: frozenset[str],
) -> dict[str, OverloadCause]:
    """The groups that are overloaded, and by what; `before` are those that were."""
    if limit is None:
        return {}
    found: dict[str, OverloadCause] = {}
    for group, figures in signals.groups.items():
        share = RELEASE_SHARE if group in before else 1.0
        for cause in _list_figures(limit, figures, ready.get(group, 0), signals.load_query):
            if cause.value > cause.limit * share:
                found[group] = cause
                break
    return found


def _list_figures(
    limit: LoadLimit, figures: GroupSignals, ready: int, query: float | None
) -> list[OverloadCause]:
    listed: list[OverloadCause] = []
    if limit.in_flight_per_replica is not None and figures.in_flight is not None and ready:
        waiting = figures.in_flight + (figures.pending or 0)
        listed.append(
            OverloadCause("in flight per server", waiting / ready, limit.in_flight_per_replica)
        )
    if limit.queue_time is not None and figures.mean_queue_time is not None:
        allowed = parse_duration(limit.queue_time)
        listed.append(OverloadCause("seconds in the queue", figures.mean_queue_time, allowed))
    if limit.query and query is not None:
        listed.append(OverloadCause("query", query, limit.threshold))
    return listed
