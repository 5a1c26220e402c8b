"""MIG geometries as devices list them: profiles with placements, and the geometry they make."""

from collections.abc import Sequence

from kilonova.catalog.mig import MigGeometry, MigProfile, known_geometries


def build_profile(
    name: str, compute: int, placements: Sequence[tuple[int, int]], limit: int, sms: int
) -> MigProfile:
    """A profile from its name without `MIG `, and from its placements: start and size of each."""
    return MigProfile(
        name,
        compute,
        placements[0][1],
        tuple(sorted(start for start, _ in placements)),
        limit,
        extended="+me" in name,
        memory=_memory_of_name(name),
        sms=sms,
    )


def profile_order(profile: MigProfile) -> tuple[int, int, int]:
    """The order of profiles in the catalog: smallest first, then variants."""
    return profile.compute, profile.slices, len(profile.name)


def find_geometry(profiles: Sequence[MigProfile], product: str) -> MigGeometry | None:
    """The geometry of the profiles that a device lists; None if it lists none.

    It has the name of the geometry in the catalog that has the same placements, else the product's.
    """
    if not profiles:
        return None
    layout = {_layout(each) for each in profiles}
    for known in known_geometries():
        if {_layout(each) for each in known.profiles} == layout:
            by_name = {each.name: each.sms for each in known.profiles}
            if all(by_name[each.name] == each.sms for each in profiles):
                return known
            return MigGeometry(known.name, tuple(profiles), known.aliases)
    try:
        return MigGeometry(product, tuple(profiles))
    except ValueError:  # more slices than this version knows
        return None


def _layout(profile: MigProfile) -> tuple[object, ...]:
    return (
        profile.name,
        profile.compute,
        profile.slices,
        profile.starts,
        profile.limit,
        profile.extended,
    )


def _memory_of_name(name: str) -> int:
    """GB: 18 of `1g.18gb+me`."""
    digits = name.partition(".")[2].partition("gb")[0]
    return int(digits) if digits.isdigit() else 0
