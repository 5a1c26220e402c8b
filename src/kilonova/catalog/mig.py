"""Multi-Instance GPU: the profiles of a device, and where their instances may be.

A device with MIG has up to 8 **memory slices**. An instance of a **profile** (`3g.40gb`) occupies
as many adjacent slices as the profile specifies, from one of the listed **starts**. A device also
has one media extension, which an **extended** profile (`1g.10gb+me`) occupies, too.

The occupied slices are a **mask**: bit 0 is slice 0, and bit 8 the extension. A set of instances is
valid exactly when every start is listed and nothing is used twice (the compute slices then never
run out).

What an agent has read from a device itself takes precedence over these tables.
"""

from collections import Counter
from functools import cached_property, lru_cache

import msgspec

from kilonova.catalog.data import read_table

MEMORY_SLICES = 8
MEDIA_EXTENSION = 1 << MEMORY_SLICES
MASK_COUNT = MEDIA_EXTENSION << 1


class MigProfile(msgspec.Struct, frozen=True, cache_hash=True):
    """A MIG profile: what an instance occupies and where it may start.

    `limit` is the maximum number of instances on a device. `memory` (GB, as in the name) and `sms`
    (streaming multiprocessors) are 0 where they are unknown.
    """

    name: str
    compute: int
    slices: int
    starts: tuple[int, ...]
    limit: int
    extended: bool = False
    memory: int = 0
    sms: int = 0

    def mask_at(self, start: int) -> int:
        """The mask of an instance with this start."""
        return ((1 << self.slices) - 1) << start | self.extended * MEDIA_EXTENSION


class Slot(msgspec.Struct, frozen=True, order=True):
    """A place for an instance: a profile at a start."""

    profile: str
    start: int

    def __str__(self) -> str:
        return f"{self.profile}@{self.start}"


class MigGeometry(msgspec.Struct, frozen=True, cache_hash=True, dict=True):
    """The profiles of one device type. `ValueError` where they contradict each other.

    `aliases` are other names of profiles: drivers round the memory of one product differently.
    """

    name: str
    profiles: tuple[MigProfile, ...]
    aliases: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        names = Counter(profile.name for profile in self.profiles)
        for profile in self.profiles:
            if names[profile.name] > 1:
                raise ValueError(f"profile {profile.name} is listed twice")
            if not profile.starts or profile.slices < 1 or profile.limit < 1:
                raise ValueError(
                    f"profile {profile.name} has no placement: no start, slice or instance"
                )
            if min(profile.starts) < 0 or max(profile.starts) + profile.slices > MEMORY_SLICES:
                raise ValueError(
                    f"profile {profile.name} reaches past the {MEMORY_SLICES} memory slices"
                )

    def profile(self, name: str) -> MigProfile | None:
        """The profile of that name, or of that alias."""
        return self._by_name.get(name)

    def free_starts(self, mask: int, name: str) -> tuple[int, ...]:
        """Where an instance of the profile could start, given the occupied slices."""
        profile = self._by_name.get(name)
        if profile is None:
            return ()
        return tuple(start for start in profile.starts if not profile.mask_at(start) & mask)

    def device_share(self, name: str) -> float | None:
        """The part of a device that an instance takes: of its multiprocessors or of its memory,
        whichever is larger. None if the profile is unknown."""
        profile = self._by_name.get(name)
        if profile is None:
            return None
        whole = max(self.profiles, key=lambda each: (each.compute, each.slices))
        if profile.sms and whole.sms:
            compute = profile.sms / whole.sms
        else:
            compute = profile.compute / max(whole.compute, 1)
        return max(compute, profile.slices / whole.slices)

    @cached_property
    def distinct_profiles(self) -> tuple[MigProfile, ...]:
        """The profiles that differ in what they occupy, without variants with other engines."""
        kinds: dict[tuple[int, int, tuple[int, ...]], MigProfile] = {}
        for profile in self.profiles:
            if not profile.extended:
                kinds.setdefault((profile.compute, profile.slices, profile.starts), profile)
        return tuple(kinds.values())

    @cached_property
    def _by_name(self) -> dict[str, MigProfile]:
        by_name = {profile.name: profile for profile in self.profiles}
        return by_name | {alias: by_name[name] for alias, name in self.aliases}


def geometry_named(name: str) -> MigGeometry | None:
    """The geometry of that name: `H100-80GB`."""
    return _load_geometries().get(name)


def known_geometries() -> tuple[MigGeometry, ...]:
    """All geometries of the catalog."""
    return tuple(_load_geometries().values())


class _MigTable(msgspec.Struct, forbid_unknown_fields=True):
    date: str
    source: str
    notes: str
    geometries: tuple[MigGeometry, ...]


@lru_cache(maxsize=1)
def _load_geometries() -> dict[str, MigGeometry]:
    table = msgspec.json.decode(read_table("mig"), type=_MigTable)
    return {geometry.name: geometry for geometry in table.geometries}
