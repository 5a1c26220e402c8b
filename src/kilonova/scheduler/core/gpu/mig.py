"""Multi-Instance GPU: how many instances still fit on a device, and which placement costs least.

The geometry of a device (profiles, starts, masks) is `kilonova.catalog.mig`. The state of a device
is one of 256 masks, twice, and everything here is a table over them.

**Demand** is the expected frequency of profiles: (profile, weight) pairs. Without it every distinct
profile counts the same.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from kilonova.catalog.mig import MASK_COUNT, MigGeometry

ProfileDemand: TypeAlias = tuple[tuple[str, float], ...]
ANY_PROFILE = ""
"""In a demand: every distinct profile of a device, each with the same part of the weight."""
InstancePlacement: TypeAlias = tuple[str, int]
"""A profile and the start of an instance of it."""
StartOption: TypeAlias = tuple[float, float, int]
"""The loss of remaining value at a start, the remaining value before, and the start."""


@lru_cache(maxsize=1024)
def fit_counts(geometry: MigGeometry, name: str) -> NDArray[np.int64]:
    """How many instances of the profile still fit, for every mask; 0 if it is unknown."""
    counts = np.zeros(MASK_COUNT, np.int64)
    profile = geometry.profile(name)
    if profile is not None:
        # Instances of one profile have equal length: using the lowest free start is optimal.
        until = np.zeros(MASK_COUNT, np.int64)
        masks = np.arange(MASK_COUNT)
        for start in sorted(profile.starts):
            free = (masks & profile.mask_at(start) == 0) & (until <= start)
            counts += free
            until[free] = start + profile.slices
        counts = np.minimum(counts, profile.limit)
    counts.flags.writeable = False
    return counts


@lru_cache(maxsize=256)
def remaining_value(geometry: MigGeometry, demand: ProfileDemand = ()) -> NDArray[np.float64]:
    """The remaining value of a device for the demand, for every mask: 1 … 0.

    The weighted mean over profiles of how many still fit, relative to an empty device.
    """
    given = [(name, weight) for name, weight in demand if weight > 0 and math.isfinite(weight)]
    known = [
        (profile.name, weight)
        for name, weight in given
        if (profile := geometry.profile(name)) is not None
    ]
    distinct = geometry.distinct_profiles
    any_weight = sum(weight for name, weight in given if name == ANY_PROFILE)
    if any_weight or not known:
        known += [(profile.name, (any_weight or 1.0) / len(distinct)) for profile in distinct]
    value = np.zeros(MASK_COUNT)
    for name, weight in known:
        fits = fit_counts(geometry, name)
        value += weight * fits / fits[0]
    value /= sum(weight for _, weight in known)
    value.flags.writeable = False
    return value


def placement_loss(
    geometry: MigGeometry, name: str, demand: ProfileDemand = ()
) -> NDArray[np.float64]:
    """The loss of remaining value at the best start of the profile, for every mask; inf if none
    fits."""
    return _best_starts_and_losses(geometry, name, demand)[1]


def best_start(
    geometry: MigGeometry, mask: int, name: str, demand: ProfileDemand = ()
) -> int | None:
    """The start with the highest remaining value; None where the profile does not fit.

    Between equals the one after which more sets of instances are still possible, then the lowest.
    """
    start = int(_best_starts_and_losses(geometry, name, demand)[0][mask])
    return None if start < 0 else start


@lru_cache(maxsize=1024)
def best_starts(
    geometry: MigGeometry, name: str, demand: ProfileDemand = ()
) -> Sequence[StartOption | None]:
    """The best start and its loss, for every mask: compares devices."""
    starts, losses = _best_starts_and_losses(geometry, name, demand)
    places = zip(
        np.round(losses, 9).tolist(),
        np.round(remaining_value(geometry, demand), 9).tolist(),
        starts.tolist(),
        strict=True,
    )
    return [None if place[-1] < 0 else place for place in places]


def place_instances(
    geometry: MigGeometry, mask: int, wanted: Iterable[str], demand: ProfileDemand = ()
) -> tuple[InstancePlacement, ...] | None:
    """Starts for all wanted instances at once, with the highest remaining value; None if they do
    not fit.

    Exact: all reachable masks are followed. The result is sorted by profile size, largest first.
    """
    return _place_instances(geometry, mask, tuple(sorted(wanted)), demand)


@lru_cache(maxsize=256)
def completions(geometry: MigGeometry) -> NDArray[np.int64]:
    """How many sets of instances are still possible beside the occupied slices, for every mask."""
    counts = np.ones(MASK_COUNT, np.int64)
    masks = np.arange(MASK_COUNT)
    for profile in geometry.distinct_profiles:
        for start in profile.starts:
            taken = profile.mask_at(start)
            free = masks & taken == 0
            counts[free] += counts[masks[free] | taken]
    counts.flags.writeable = False
    return counts


@lru_cache(maxsize=1024)
def _best_starts_and_losses(
    geometry: MigGeometry, name: str, demand: ProfileDemand
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """For every mask the best start (-1: none) and its loss."""
    starts, losses = np.full(MASK_COUNT, -1), np.full(MASK_COUNT, math.inf)
    profile = geometry.profile(name)
    if profile is not None:
        value, ranking = remaining_value(geometry, demand), _mask_ranking(geometry, demand)
        for mask in range(MASK_COUNT):
            free = geometry.free_starts(mask, name)
            if free:
                start = max(
                    free, key=lambda start: (ranking[mask | profile.mask_at(start)], -start)
                )
                starts[mask] = start
                losses[mask] = value[mask] - value[mask | profile.mask_at(start)]
    losses.flags.writeable = False
    return starts, losses


@lru_cache(maxsize=256)
def _mask_ranking(geometry: MigGeometry, demand: ProfileDemand) -> list[tuple[float, int]]:
    """The order of masks: by remaining value, then by the number of sets still possible."""
    left = np.round(remaining_value(geometry, demand), 9).tolist()
    return list(zip(left, completions(geometry).tolist(), strict=True))


@lru_cache(maxsize=4096)
def _place_instances(
    geometry: MigGeometry, mask: int, wanted: tuple[str, ...], demand: ProfileDemand
) -> tuple[InstancePlacement, ...] | None:
    profiles = [geometry.profile(name) for name in wanted]
    known = [profile for profile in profiles if profile is not None]
    counts = Counter(known)
    too_many = any(count > profile.limit for profile, count in counts.items())
    if too_many or len(known) < len(profiles):
        return None
    reached: dict[int, tuple[InstancePlacement, ...]] = {mask: ()}
    for profile in sorted(known, key=lambda profile: (-profile.slices, profile.name)):
        further: dict[int, tuple[InstancePlacement, ...]] = {}
        for occupied, placed in reached.items():
            for start in geometry.free_starts(occupied, profile.name):
                after = occupied | profile.mask_at(start)
                further.setdefault(after, (*placed, (profile.name, start)))
        reached = further
    if not reached:
        return None
    ranking = _mask_ranking(geometry, demand)
    return reached[max(reached, key=lambda after: (ranking[after], -after))]
