"""What has been learned about latency and load. Pure values.

A **load curve** is a straight line, fitted to the latencies near the target that were seen at
different loads of a server. It estimates how many requests a server may have in flight so that the
latency stays within the target.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

_HALF_LIFE_SECONDS = 300.0
"""After this time an observation counts half: requests of another kind have another curve."""
_SPREAD = 0.5
"""Latencies that are farther from the target (as a share of it) hardly count."""
_BASE_WEIGHT = 0.02
_MIN_WEIGHT = 3.0
"""The observations near the target that a fit needs."""
_MIN_VARIATION = 0.1
"""How different their loads must be, as a share of the mean."""
_MAX_CORRECTION = 4.0
"""How far the fit may be from the latest observation."""
_MIN_LATENCY = 0.01
"""A queue may be empty: then nothing is known but that the target is far."""
_MAX_LATENCY = 100.0
_INTERVAL_SECONDS = 2.0
"""Observations that are nearer together are of the same requests."""


@dataclass(frozen=True, slots=True)
class LoadCurve:
    """Sums over weighted observations (load, latency / target)."""

    at: float | None = None
    weight: float = 0.0
    load: float = 0.0
    latency: float = 0.0
    load_squared: float = 0.0
    product: float = 0.0
    latest_load: float = 0.0
    latest_latency: float = 0.0

    def observe(self, now: float, load: float, latency: float) -> LoadCurve:
        """The curve with another observation; `latency` is a share of the target."""
        if load <= 0:
            return self
        latency = min(max(latency, _MIN_LATENCY), _MAX_LATENCY)
        latest = replace(self, latest_load=load, latest_latency=latency)
        if self.at is not None and now - self.at < _INTERVAL_SECONDS:
            return latest
        kept = 1.0 if self.at is None else 0.5 ** ((now - self.at) / _HALF_LIFE_SECONDS)
        weight = _BASE_WEIGHT + math.exp(-(((latency - 1) / _SPREAD) ** 2))
        return LoadCurve(
            now,
            self.weight * kept + weight,
            self.load * kept + weight * load,
            self.latency * kept + weight * latency,
            self.load_squared * kept + weight * load * load,
            self.product * kept + weight * load * latency,
            load,
            latency,
        )

    def find_capacity(self, share: float) -> float | None:
        """The requests in flight of one server at which the latency is this share of the target;
        None before the first observation. At least 1: with one request at a time it is as fast as
        it can be."""
        if not self.latest_latency:
            return None
        proportional = self.latest_load * share / self.latest_latency
        fitted = self._fit(share)
        if fitted is None:
            return max(1.0, proportional)
        lowest, highest = proportional / _MAX_CORRECTION, proportional * _MAX_CORRECTION
        return max(1.0, min(max(fitted, lowest), highest))

    def _fit(self, share: float) -> float | None:
        if self.weight < _MIN_WEIGHT:
            return None
        load, latency = self.load / self.weight, self.latency / self.weight
        variance = self.load_squared / self.weight - load * load
        if variance < (_MIN_VARIATION * load) ** 2:
            return None
        slope = (self.product / self.weight - load * latency) / variance
        return load + (share - latency) / slope if slope > 0 else None
