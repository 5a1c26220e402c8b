"""Multi-Instance GPU: where instances may lie on a device, and which place costs the least.

A device that can be split has up to 8 **memory slices**. An instance of a **profile** (`3g.40gb`)
occupies as many neighbouring ones as the profile says, from one of the listed **starts**. Beside
them a device has one media extension, which an **extended** profile (`1g.10gb+me`) takes, too.
What is occupied is a **mask**: bit 0 is slice 0, and bit 8 the extension. A set of instances is
legal exactly when every start is listed and nothing is used twice (the compute slices then never
run out). So all there is to know about a device are 256 masks, twice, and everything here is a
table over them.

**Demand** says which profiles will be asked for, and how much: (profile, weight) pairs. Where
nothing is known every kind of profile counts the same.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

SLICES = 8
EXTENSION = 1 << SLICES
MASKS = EXTENSION << 1

Demand: TypeAlias = tuple[tuple[str, float], ...]
Placement: TypeAlias = tuple[str, int]
"""A profile and where an instance of it starts."""
Place: TypeAlias = tuple[float, float, int]
"""What it costs of `value` to start there, how much value there was, and the start."""


@dataclass(frozen=True, slots=True)
class Profile:
    """A kind of instance: what it takes and where it may start."""

    name: str
    compute: int
    slices: int
    starts: tuple[int, ...]
    limit: int
    extended: bool = False

    def mask(self, start: int) -> int:
        """What an instance that starts there occupies."""
        return ((1 << self.slices) - 1) << start | self.extended * EXTENSION


@dataclass(frozen=True, eq=True)
class Geometry:
    """The profiles of one kind of device. `ValueError` where they contradict each other.

    `aliases` are other names of profiles: drivers round the memory of one part differently.
    """

    name: str
    profiles: tuple[Profile, ...]
    aliases: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        names = Counter(profile.name for profile in self.profiles)
        for profile in self.profiles:
            if names[profile.name] > 1:
                raise ValueError(f"profile {profile.name} is listed twice")
            if not profile.starts or profile.slices < 1 or profile.limit < 1:
                raise ValueError(
                    f"profile {profile.name} has no place: no start, slice or instance"
                )
            if min(profile.starts) < 0 or max(profile.starts) + profile.slices > SLICES:
                raise ValueError(f"profile {profile.name} reaches past the {SLICES} memory slices")

    def __hash__(self) -> int:
        return self._hash

    def profile(self, name: str) -> Profile | None:
        """The profile of that name, or of that alias."""
        return self._by_name.get(name)

    def starts(self, mask: int, name: str) -> tuple[int, ...]:
        """Where an instance of the profile could start beside what is occupied."""
        profile = self._by_name.get(name)
        if profile is None:
            return ()
        return tuple(start for start in profile.starts if not profile.mask(start) & mask)

    def fits(self, name: str) -> NDArray[np.int64]:
        """How many instances of the profile still fit, for every mask; none where it is unknown."""
        return _fits(self, name)

    def value(self, demand: Demand = ()) -> NDArray[np.float64]:
        """What is left of an empty device for those who ask, for every mask: 1 … 0.

        The weighted mean over profiles of how many still fit, relative to an empty device.
        """
        return _value(self, demand)

    def loss(self, name: str, demand: Demand = ()) -> NDArray[np.float64]:
        """What the best place for the profile costs of `value`, for every mask; inf: no place."""
        return _best(self, name, demand)[1]

    def best_start(self, mask: int, name: str, demand: Demand = ()) -> int | None:
        """The start that leaves the most to demand; None where the profile does not fit.

        Between equals the one after which more sets of instances are still possible, then the
        lowest.
        """
        start = int(_best(self, name, demand)[0][mask])
        return None if start < 0 else start

    def places(self, name: str, demand: Demand = ()) -> Sequence[Place | None]:
        """The best start with what it costs, for every mask: what compares devices."""
        return _places(self, name, demand)

    def lay_out(
        self, mask: int, wanted: Iterable[str], demand: Demand = ()
    ) -> tuple[Placement, ...] | None:
        """Places for all wanted instances at once, leaving the most to demand; None: no room.

        Exact: all reachable masks are followed. Placements come largest profile first.
        """
        return _lay_out(self, mask, tuple(sorted(wanted)), demand)

    @cached_property
    def completions(self) -> NDArray[np.int64]:
        """How many sets of instances are still legal beside what is occupied, for every mask."""
        counts = np.ones(MASKS, np.int64)
        masks = np.arange(MASKS)
        for profile in self.kinds:
            for start in profile.starts:
                taken = profile.mask(start)
                free = masks & taken == 0
                counts[free] += counts[masks[free] | taken]
        return counts

    @cached_property
    def kinds(self) -> tuple[Profile, ...]:
        """The profiles that differ in what they occupy, without variants with other engines."""
        kinds: dict[tuple[int, int, tuple[int, ...]], Profile] = {}
        for profile in self.profiles:
            if not profile.extended:
                kinds.setdefault((profile.compute, profile.slices, profile.starts), profile)
        return tuple(kinds.values())

    @cached_property
    def _by_name(self) -> dict[str, Profile]:
        by_name = {profile.name: profile for profile in self.profiles}
        return by_name | {alias: by_name[name] for alias, name in self.aliases}

    @cached_property
    def _hash(self) -> int:
        return hash((self.name, self.profiles))


def profile_of(resource: str) -> str | None:
    """The profile that an extended resource stands for: `nvidia.com/mig-1g.10gb.me` → `1g.10gb+me`.

    A resource name cannot hold a plus, so NVIDIA's device plugin writes a dot. None where the
    resource is no MIG profile.
    """
    found = _resource.fullmatch(resource)
    if found is None:
        return None
    size, variant, without = found.groups()
    return f"{size}+{variant}" if variant else f"{size}{without or ''}"


_resource = re.compile(r"nvidia\.com/mig-(\d+g\.\d+gb)(?:\.([a-z.]+)|(-me))?", re.ASCII)


@lru_cache(maxsize=1024)
def _fits(geometry: Geometry, name: str) -> NDArray[np.int64]:
    counts = np.zeros(MASKS, np.int64)
    profile = geometry.profile(name)
    if profile is not None:
        # Instances of one profile are equally long: taking the lowest free start never costs one.
        until = np.zeros(MASKS, np.int64)
        masks = np.arange(MASKS)
        for start in sorted(profile.starts):
            free = (masks & profile.mask(start) == 0) & (until <= start)
            counts += free
            until[free] = start + profile.slices
        counts = np.minimum(counts, profile.limit)
    counts.flags.writeable = False
    return counts


@lru_cache(maxsize=256)
def _value(geometry: Geometry, demand: Demand) -> NDArray[np.float64]:
    known = [
        (profile.name, weight)
        for name, weight in demand
        if weight > 0 and math.isfinite(weight) and (profile := geometry.profile(name)) is not None
    ] or [(profile.name, 1.0) for profile in geometry.kinds]
    value = np.zeros(MASKS)
    for name, weight in known:
        fits = geometry.fits(name)
        value += weight * fits / fits[0]
    value /= sum(weight for _, weight in known)
    value.flags.writeable = False
    return value


@lru_cache(maxsize=1024)
def _best(
    geometry: Geometry, name: str, demand: Demand
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """For every mask the best start (-1: none) and what it costs."""
    starts, losses = np.full(MASKS, -1), np.full(MASKS, math.inf)
    profile = geometry.profile(name)
    if profile is not None:
        value, worth = geometry.value(demand), _worth(geometry, demand)
        for mask in range(MASKS):
            free = geometry.starts(mask, name)
            if free:
                start = max(free, key=lambda start: (worth[mask | profile.mask(start)], -start))
                starts[mask] = start
                losses[mask] = value[mask] - value[mask | profile.mask(start)]
    losses.flags.writeable = False
    return starts, losses


@lru_cache(maxsize=1024)
def _places(geometry: Geometry, name: str, demand: Demand) -> list[Place | None]:
    starts, losses = _best(geometry, name, demand)
    places = zip(
        np.round(losses, 9).tolist(),
        np.round(geometry.value(demand), 9).tolist(),
        starts.tolist(),
        strict=True,
    )
    return [None if place[-1] < 0 else place for place in places]


@lru_cache(maxsize=256)
def _worth(geometry: Geometry, demand: Demand) -> list[tuple[float, int]]:
    """What decides between masks: what is left to demand, then what sets are possible at all."""
    left = np.round(geometry.value(demand), 9).tolist()
    return list(zip(left, geometry.completions.tolist(), strict=True))


@lru_cache(maxsize=4096)
def _lay_out(
    geometry: Geometry, mask: int, wanted: tuple[str, ...], demand: Demand
) -> tuple[Placement, ...] | None:
    profiles = [geometry.profile(name) for name in wanted]
    known = [profile for profile in profiles if profile is not None]
    counts = Counter(known)
    too_many = any(count > profile.limit for profile, count in counts.items())
    if too_many or len(known) < len(profiles):
        return None
    reached: dict[int, tuple[Placement, ...]] = {mask: ()}
    for profile in sorted(known, key=lambda profile: (-profile.slices, profile.name)):
        further: dict[int, tuple[Placement, ...]] = {}
        for occupied, placed in reached.items():
            for start in geometry.starts(occupied, profile.name):
                after = occupied | profile.mask(start)
                further.setdefault(after, (*placed, (profile.name, start)))
        reached = further
    if not reached:
        return None
    worth = _worth(geometry, demand)
    return reached[max(reached, key=lambda after: (worth[after], -after))]
