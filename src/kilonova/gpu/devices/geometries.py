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

    One of the catalog where placements and multiprocessors are the same. Where the catalog does not
    know the multiprocessors, it has the catalog's name, otherwise that of the product.
    """
    if not profiles:
        return None
    alike = [each for each in known_geometries() if is_same_layout(each.profiles, profiles)]
    sms = {each.name: each.sms for each in profiles}
    for known in alike:
        if all(sms[each.name] == each.sms for each in known.profiles):
            return known
    for known in alike:
        if not any(each.sms for each in known.profiles):
            return MigGeometry(known.name, tuple(profiles), known.aliases)
    try:
        return MigGeometry(product, tuple(profiles))
    except ValueError:  # more slices than this version knows
        return None


def is_same_layout(some: Sequence[MigProfile], others: Sequence[MigProfile]) -> bool:
    """Whether profiles have the same names and placements."""
    return {_layout(each) for each in some} == {_layout(each) for each in others}


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
