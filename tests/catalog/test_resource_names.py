"""Names of extended resources, and the MIG profiles in them."""

import pytest

from kilonova.catalog.mig import MigGeometry, known_geometries
from kilonova.catalog.resource_names import mig_resource, profile_of_resource


@pytest.mark.parametrize(
    ("resource", "profile"),
    [
        ("nvidia.com/mig-1g.10gb", "1g.10gb"),
        ("nvidia.com/mig-1g.10gb.me", "1g.10gb+me"),
        ("nvidia.com/mig-1g.24gb.me.all", "1g.24gb+me.all"),
        ("nvidia.com/mig-1g.24gb-me", "1g.24gb-me"),
        ("nvidia.com/gpu", None),
        ("nvidia.com/mig-small", None),
    ],
)
def test_profile_of_extended_resource(resource: str, profile: str | None) -> None:
    assert profile_of_resource(resource) == profile


@pytest.mark.parametrize("geometry", known_geometries(), ids=lambda each: each.name)
def test_resource_name_round_trips_to_profile(geometry: MigGeometry) -> None:
    names = [profile.name for profile in geometry.profiles]
    assert [profile_of_resource(mig_resource(profile)) for profile in names] == names
