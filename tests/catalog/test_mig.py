"""MIG geometry: profiles and placements of each product, as NVIDIA documents and reports them."""

import json
import os
from pathlib import Path

import pytest

from kilonova.catalog.mig import MigGeometry, MigProfile, known_geometries
from tests.catalog.mig_states import legal_states, part


@pytest.mark.parametrize("geometry", known_geometries(), ids=lambda g: g.name)
def test_no_overlap_of_memory_means_enough_compute(geometry: MigGeometry) -> None:
    most = max(profile.compute for profile in geometry.profiles)
    kinds = MigGeometry("kinds", geometry.distinct_profiles)
    assert max(sum(p.compute for p, _ in state) for state in legal_states(kinds)) == most


@pytest.mark.parametrize(
    ("name", "profiles"),
    [
        ("A100-40GB", "1g.5gb 1g.5gb+me 1g.10gb 2g.10gb 3g.20gb 4g.20gb 7g.40gb"),
        ("H100-94GB", "1g.12gb 1g.12gb+me 1g.24gb 2g.24gb 3g.47gb 4g.47gb 7g.94gb"),
        ("H200-141GB", "1g.18gb 1g.18gb+me 1g.35gb 2g.35gb 3g.71gb 4g.71gb 7g.141gb"),
        ("B200-180GB", "1g.23gb 1g.23gb+me 1g.45gb 2g.45gb 3g.90gb 4g.90gb 7g.180gb"),
        ("A30-24GB", "1g.6gb 1g.6gb+me 2g.12gb 2g.12gb+me 4g.24gb"),
        (
            "RTX-PRO-6000-96GB",
            "1g.24gb 1g.24gb+me 1g.24gb+gfx 1g.24gb-me 2g.48gb 2g.48gb+gfx 2g.48gb-me "
            "4g.96gb 4g.96gb+gfx",
        ),
    ],
)
def test_profile_names_match_driver(name: str, profiles: str) -> None:
    assert [profile.name for profile in part(name).profiles] == profiles.split()


def test_profile_is_found_by_alias() -> None:
    assert part("GB200-186GB").profile("7g.189gb") == part("GB200-186GB").profile("7g.186gb")


@pytest.mark.parametrize(
    ("profiles", "message"),
    [
        ([MigProfile("1g.5gb", 1, 1, (8,), 1)], "past the 8 memory slices"),
        ([MigProfile("1g.5gb", 1, 1, (-1,), 1)], "past the 8 memory slices"),
        ([MigProfile("1g.5gb", 1, 1, (), 1)], "has no place"),
        ([MigProfile("1g.5gb", 1, 0, (0,), 1)], "has no place"),
        ([MigProfile("1g.5gb", 1, 1, (0,), 1)] * 2, "1g.5gb is listed twice"),
    ],
)
def test_contradictory_geometry_is_rejected(profiles: list[MigProfile], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MigGeometry("odd", tuple(profiles))


def test_h200_table_matches_nvml() -> None:
    """Row by row as read from NVML; and from the file itself where it is available."""
    read = {
        "1g.18gb": (1, 1, [0, 1, 2, 3, 4, 5, 6], 7),
        "1g.18gb+me": (1, 1, [0, 1, 2, 3, 4, 5, 6], 1),
        "1g.35gb": (1, 2, [0, 2, 4, 6], 4),
        "2g.35gb": (2, 2, [0, 2, 4], 3),
        "3g.71gb": (3, 4, [0, 4], 2),
        "4g.71gb": (4, 4, [0], 1),
        "7g.141gb": (7, 8, [0], 1),
    }
    for facts in [read, *facts_at_hand()]:
        assert {
            p.name: (p.compute, p.slices, list(p.starts), p.limit)
            for p in part("H200-141GB").profiles
        } == facts


def facts_at_hand() -> list[dict[str, tuple[int, int, list[int], int]]]:
    here = Path(__file__).parents[2]
    folder = Path(os.environ.get("KILONOVA_DATA", here.parent / "shared" / "data"))
    file = folder / "h200" / "nvml.json"
    if not file.exists():
        return []
    gpu = json.loads(file.read_text())["gpu0"]
    return [
        {
            p["name"].removeprefix("MIG "): (
                p["sliceCount"],
                p["placements"][0][1],
                [start for start, _ in p["placements"]],
                p["instanceCount"],
            )
            for p in gpu[when].values()
            if isinstance(p, dict)
        }
        for when in ("migProfilesBefore", "migProfilesAfter")
    ]


def test_profile_variants_count_once_without_demand() -> None:
    kinds = part("RTX-PRO-6000-96GB").distinct_profiles
    assert [profile.name for profile in kinds] == ["1g.24gb", "2g.48gb", "4g.96gb"]


@pytest.mark.parametrize(
    ("geometry", "profile", "share"),
    [
        ("H200-141GB", "1g.18gb", 1 / 8),
        ("H200-141GB", "1g.35gb", 1 / 4),
        ("H200-141GB", "3g.71gb", 1 / 2),
        ("H200-141GB", "7g.141gb", 1),
        ("A100-40GB", "1g.5gb", 1 / 7),
        ("A100-40GB", "4g.20gb", 4 / 7),
        ("B200-180GB", "2g.45gb", 2 / 7),
        ("A30-24GB", "2g.12gb", 1 / 2),
    ],
)
def test_an_instance_takes_the_larger_share_of_compute_and_memory(
    geometry: str, profile: str, share: float
) -> None:
    assert part(geometry).device_share(profile) == pytest.approx(share)


def test_an_unknown_profile_has_no_share() -> None:
    assert part("A100-40GB").device_share("9g.99gb") is None
