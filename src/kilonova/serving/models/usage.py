"""How much the models of a server are used, from its counters. Pure, but for what it remembers."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from kilonova.serving.models.server_api import ModelCounters

SMOOTHING_SECONDS = 30.0
"""What was longer ago hardly counts: a copy takes about so long to load."""


@dataclass(frozen=True, slots=True)
class ModelUsage:
    """The use of a model on a server."""

    load: float = 0.0
    """Mean requests in flight, of the last half a minute."""
    last_used: float = -math.inf
    """When its counter last grew, on the monotonic clock."""


class UsageMeter:
    """The use of the models of one server."""

    def __init__(self) -> None:
        self.usage: dict[str, ModelUsage] = {}
        self._counters: Mapping[str, ModelCounters] | None = None
        self._read_at = 0.0

    def record(self, counters: Mapping[str, ModelCounters], now: float) -> None:
        """Take in the latest counters; those of a restarted server begin at 0."""
        before, elapsed = self._counters, now - self._read_at
        self._counters, self._read_at = counters, now
        if before is None or elapsed <= 0:
            # Without a former reading it is not known since when they count.
            return
        weight = 1 - math.exp(-elapsed / SMOOTHING_SECONDS)
        usage: dict[str, ModelUsage] = {}
        for name, new in counters.items():
            old, known = before.get(name, ModelCounters()), self.usage.get(name, ModelUsage())
            if new.requests < old.requests or new.busy_ns < old.busy_ns:
                old = ModelCounters()
            load = (new.busy_ns - old.busy_ns) / 1e9 / elapsed
            usage[name] = ModelUsage(
                known.load + weight * (load - known.load),
                now if new.requests > old.requests else known.last_used,
            )
        self.usage = usage

    def note_use(self, name: str, now: float) -> None:
        """Count a model as used now: it was loaded for requests that wait."""
        known = self.usage.get(name, ModelUsage())
        self.usage[name] = ModelUsage(known.load, now)
