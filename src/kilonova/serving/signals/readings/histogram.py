"""Distributions as Prometheus' histograms have them. Pure values.

A **histogram** has upper bounds, and how many observations are at or below each. The difference of
two readings is the distribution of what happened between them; those of several servers are added.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True, slots=True)
class Histogram:
    """A distribution of seconds. Without bounds only its mean is known."""

    sum: float = 0.0
    count: float = 0.0
    bounds: tuple[float, ...] = ()
    """Ascending and finite; what is above the last one is in `count` alone."""
    cumulative: tuple[float, ...] = ()
    """The observations at or below each bound."""

    @property
    def mean(self) -> float | None:
        """The mean; None without observations (there is no part of one)."""
        return self.sum / self.count if self.count >= 1 else None

    def quantile(self, share: float) -> float | None:
        """The value that this share (0 to 1) of the observations does not exceed.

        Within a bucket it is interpolated; above the last bound it is that bound. None without
        observations or bounds.
        """
        if self.count <= 0 or not self.bounds:
            return None
        rank = share * self.count
        below, lower = 0.0, 0.0
        for bound, reached in zip(self.bounds, self.cumulative, strict=True):
            if reached >= rank and reached > below:
                return lower + (bound - lower) * max(0.0, rank - below) / (reached - below)
            below, lower = reached, bound
        return self.bounds[-1]

    def count_up_to(self, value: float) -> float:
        """The observations up to a value, interpolated."""
        points = [(0.0, 0.0), *zip(self.bounds, self.cumulative, strict=True)]
        for (lower, below), (bound, reached) in pairwise(points):
            if value <= bound:
                return below + (reached - below) * (value - lower) / (bound - lower)
        return points[-1][1]


def subtract(new: Histogram, old: Histogram) -> Histogram | None:
    """What was observed between two readings; None if the counters were reset."""
    if not old.count:
        return new
    if new.bounds != old.bounds or new.count < old.count or new.sum < old.sum:
        return None
    cumulative = tuple(
        after - before for after, before in zip(new.cumulative, old.cumulative, strict=True)
    )
    if any(each < 0 for each in cumulative):
        return None
    return Histogram(new.sum - old.sum, new.count - old.count, new.bounds, cumulative)


def add(histograms: Iterable[Histogram]) -> Histogram:
    """The distribution of all observations together. Buckets may differ, as between versions of a
    server; if some have no buckets, only the mean is known."""
    each = [one for one in histograms if one.count > 0]
    total = Histogram(sum(one.sum for one in each), sum(one.count for one in each))
    if not each or not all(one.bounds for one in each):
        return total
    bounds = each[0].bounds
    if any(one.bounds != bounds for one in each):
        bounds = tuple(sorted({bound for one in each for bound in one.bounds}))
        cumulative = tuple(sum(one.count_up_to(bound) for one in each) for bound in bounds)
    else:
        cumulative = tuple(map(sum, zip(*(one.cumulative for one in each), strict=True)))
    return Histogram(total.sum, total.count, bounds, cumulative)


def build_histogram(
    buckets: dict[float, float], total: float, count: float, scale: float = 1.0
) -> Histogram:
    """A histogram from the samples of an exposition; `scale` turns its unit into seconds."""
    finite = sorted((bound, reached) for bound, reached in buckets.items() if 0 < bound < math.inf)
    return Histogram(
        total * scale,
        count,
        tuple(bound * scale for bound, _ in finite),
        tuple(reached for _, reached in finite),
    )
