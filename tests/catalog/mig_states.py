"""The legal states of a device with MIG, enumerated."""

from kilonova.catalog.mig import MigGeometry, MigProfile, geometry_named

MigState = tuple[tuple[MigProfile, int], ...]


def part(name: str) -> MigGeometry:
    geometry = geometry_named(name)
    assert geometry is not None
    return geometry


def legal_states(geometry: MigGeometry) -> list[MigState]:
    """Every set of instances without overlap."""
    states: list[MigState] = [()]
    for profile, start in _places(geometry):
        states += [
            (*state, (profile, start))
            for state in states
            if not occupied_mask(state) & profile.mask_at(start)
        ]
    return states


def maximal_states(geometry: MigGeometry) -> list[MigState]:
    """The states in which no further instance fits."""
    return [
        state
        for state in legal_states(geometry)
        if all(
            occupied_mask(state) & profile.mask_at(start) for profile, start in _places(geometry)
        )
    ]


def occupied_mask(state: MigState) -> int:
    return sum(profile.mask_at(start) for profile, start in state)


def _places(geometry: MigGeometry) -> list[tuple[MigProfile, int]]:
    return [(profile, start) for profile in geometry.profiles for start in profile.starts]
