"""MIG: which instances may lie where, and which place leaves the most to others."""

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilonova.scheduler.core.mig import MASKS, Geometry, Profile, profile_of
from kilonova.scheduler.core.mig_parts import geometry_of, known_geometry
from kilonova.scheduler.core.snapshot import mig_resource

PARTS = (
    "A100-40GB",
    "A100-80GB",
    "H100-80GB",
    "H100-94GB",
    "H100-96GB",
    "H200-141GB",
    "GH200-144GB",
    "B200-180GB",
    "GB200-186GB",
    "B300-269GB",
    "GB300-278GB",
    "A30-24GB",
    "RTX-PRO-6000-96GB",
    "RTX-PRO-5000-48GB",
    "RTX-PRO-4500-32GB",
)


def part(name: str) -> Geometry:
    geometry = known_geometry(name)
    assert geometry is not None
    return geometry


H100 = part("H100-80GB")
BASE = Geometry("base", tuple(p for p in H100.profiles if p.name not in ("1g.10gb+me", "1g.20gb")))
DOUBLE = Geometry("double", tuple(p for p in H100.profiles if p.name != "1g.10gb+me"))

geometries = st.sampled_from([part(name) for name in PARTS])
weights = st.floats(0.01, 100)


def legal_states(geometry: Geometry) -> list[tuple[tuple[Profile, int], ...]]:
    """Every set of instances that overlap nowhere, found the slow way."""
    states: list[tuple[tuple[Profile, int], ...]] = [()]
    for profile, start in places(geometry):
        states += [
            (*state, (profile, start))
            for state in states
            if not occupied(state) & profile.mask(start)
        ]
    return states


def places(geometry: Geometry) -> list[tuple[Profile, int]]:
    return [(profile, start) for profile in geometry.profiles for start in profile.starts]


def occupied(state: tuple[tuple[Profile, int], ...]) -> int:
    return sum(profile.mask(start) for profile, start in state)


def maximal(geometry: Geometry) -> list[tuple[tuple[Profile, int], ...]]:
    return [
        state
        for state in legal_states(geometry)
        if all(occupied(state) & profile.mask(start) for profile, start in places(geometry))
    ]


@pytest.mark.parametrize(
    ("geometry", "states", "layouts", "multisets"), [(BASE, 298, 19, 14), (DOUBLE, 723, 78, 38)]
)
def test_states_are_those_that_nvidia_knows(
    geometry: Geometry, states: int, layouts: int, multisets: int
) -> None:
    assert len(legal_states(geometry)) == geometry.completions[0] == states
    largest = maximal(geometry)
    assert len(largest) == layouts
    assert len({tuple(sorted(p.name for p, _ in state)) for state in largest}) == multisets


@pytest.mark.parametrize("geometry", [part(name) for name in PARTS], ids=lambda g: g.name)
def test_no_overlap_of_memory_means_enough_compute(geometry: Geometry) -> None:
    most = max(profile.compute for profile in geometry.profiles)
    kinds = Geometry("kinds", geometry.kinds)
    assert max(sum(p.compute for p, _ in state) for state in legal_states(kinds)) == most


@pytest.mark.parametrize(
    ("profile", "start", "left"),
    [
        ("1g.10gb", 0, 110),
        ("1g.10gb", 3, 110),
        ("1g.10gb", 4, 108),
        ("1g.10gb", 5, 108),
        ("1g.10gb", 6, 135),
        ("2g.20gb", 0, 55),
        ("2g.20gb", 2, 55),
        ("2g.20gb", 4, 54),
        ("3g.40gb", 0, 11),
        ("3g.40gb", 4, 27),
    ],
)
def test_what_one_placement_leaves_possible(profile: str, start: int, left: int) -> None:
    found = BASE.profile(profile)
    assert found is not None
    assert BASE.completions[found.mask(start)] == left


@pytest.mark.parametrize(
    ("mask", "profile", "demand", "start"),
    [
        pytest.param(0, "1g.10gb", (), 6, id="out of the way of all others"),
        pytest.param(0, "3g.40gb", (), 4, id="leaves a 4g"),
        pytest.param(0, "2g.20gb", (), 4, id="leaves a 4g"),
        pytest.param(0, "2g.20gb", (("1g.10gb", 1.0),), 0, id="no 4g wanted: more sets possible"),
        pytest.param(0b1000000, "1g.10gb", (("3g.40gb", 1.0),), 4, id="beside what is broken"),
        pytest.param(0b0001111, "1g.10gb", (("2g.20gb", 1.0),), 6, id="keeps the 2g"),
        pytest.param(
            0b0001111, "1g.10gb", (("1g.20gb", 1.0),), 4, id="keeps a double and one more"
        ),
        pytest.param(0b11110000, "3g.40gb", (), 0, id="only place"),
        pytest.param(0b00000001, "7g.80gb", (), None, id="no place"),
        pytest.param(0, "1g.5gb", (), None, id="not a profile of this part"),
        pytest.param(0, "1g.10gb", (("9g.99gb", 1.0),), 6, id="unknown demand is no demand"),
        pytest.param(0, "1g.10gb", (("7g.80gb", float("nan")),), 6, id="nor is nonsense"),
    ],
)
def test_best_start_leaves_the_most_to_demand(
    mask: int, profile: str, demand: tuple[tuple[str, float], ...], start: int | None
) -> None:
    assert H100.best_start(mask, profile, demand) == start


@pytest.mark.parametrize(
    ("mask", "wanted", "fits"),
    [
        (0, ["1g.10gb"] * 7, True),
        (0, ["1g.10gb"] * 8, False),
        (0, ["3g.40gb", "3g.40gb"], True),
        (0, ["4g.40gb", "3g.40gb"], True),
        (0, ["4g.40gb", "4g.40gb"], False),
        (0, ["3g.40gb", "2g.20gb", "1g.10gb", "1g.10gb"], True),
        (0, ["4g.40gb", "2g.20gb", "1g.10gb"], True),
        (0, ["4g.40gb", "1g.20gb", "1g.20gb"], True),
        (0, ["1g.20gb"] * 4, True),
        (0, ["2g.20gb"] * 3 + ["1g.20gb"], True),
        (0, ["1g.10gb+me", "1g.10gb"], True),
        (0, ["1g.10gb+me", "1g.10gb+me"], False),
        (0b1000000, ["3g.40gb", "3g.40gb"], False),
        (0b1000000, ["2g.20gb"] * 3, True),
        (0, ["1g.5gb"], False),
        (0, [], True),
    ],
)
def test_several_profiles_fit_together_or_not(mask: int, wanted: list[str], fits: bool) -> None:
    assert (H100.lay_out(mask, wanted) is not None) == fits


@given(st.sampled_from([H100, part("A30-24GB"), part("RTX-PRO-6000-96GB")]), st.data())
def test_a_set_fits_exactly_when_some_state_holds_it(
    geometry: Geometry, data: st.DataObject
) -> None:
    kinds = Geometry("kinds", geometry.kinds)
    mask = data.draw(st.integers(0, MASKS - 1))
    wanted = data.draw(st.lists(st.sampled_from([p.name for p in kinds.profiles]), max_size=8))
    found = kinds.lay_out(mask, wanted)
    beside = {
        tuple(sorted(p.name for p, _ in state))
        for state in legal_states(kinds)
        if not occupied(state) & mask
    }
    assert (found is not None) == (tuple(sorted(wanted)) in beside)
    if found is not None:
        assert sorted(name for name, _ in found) == sorted(wanted)
        taken = mask
        for name, start in found:
            assert start in kinds.starts(taken, name)
            profile = kinds.profile(name)
            assert profile is not None
            taken |= profile.mask(start)


@given(geometries, st.integers(0, MASKS - 1), st.data())
def test_no_start_leaves_more_than_the_best(
    geometry: Geometry, mask: int, data: st.DataObject
) -> None:
    names = [profile.name for profile in geometry.profiles]
    demand = tuple(
        sorted(data.draw(st.dictionaries(st.sampled_from(names), weights, max_size=4)).items())
    )
    profile = geometry.profile(data.draw(st.sampled_from(names)))
    assert profile is not None
    best = geometry.best_start(mask, profile.name, demand)
    value = geometry.value(demand)
    assert ((value >= 0) & (value <= 1 + 1e-9)).all()
    starts = [start for start in profile.starts if not profile.mask(start) & mask]
    if not starts:
        assert best is None
        assert geometry.loss(profile.name, demand)[mask] == float("inf")
        return
    assert best in starts
    left = value[mask | profile.mask(best)]
    assert left >= max(value[mask | profile.mask(start)] for start in starts) - 1e-8
    assert geometry.loss(profile.name, demand)[mask] == pytest.approx(value[mask] - left)


@given(geometries, st.integers(0, MASKS - 1))
def test_count_is_how_many_can_really_be_laid(geometry: Geometry, mask: int) -> None:
    for profile in geometry.profiles:
        count = int(geometry.fits(profile.name)[mask])
        assert geometry.lay_out(mask, [profile.name] * count) is not None
        assert geometry.lay_out(mask, [profile.name] * (count + 1)) is None


@pytest.mark.parametrize(
    ("product", "memory", "name"),
    [
        ("NVIDIA-A100-SXM4-40GB", 40960, "A100-40GB"),
        ("NVIDIA-A100-SXM4-80GB", 81920, "A100-80GB"),
        ("NVIDIA-A100-SXM4-80GB", 0, "A100-80GB"),
        ("NVIDIA-A100-80GB-PCIe", 0, "A100-80GB"),
        ("NVIDIA-A100-PCIE-40GB-MIG-1g.5gb", 0, "A100-40GB"),
        ("NVIDIA-A800-SXM4-80GB", 81251, "A100-80GB"),
        ("NVIDIA-H100-80GB-HBM3", 81559, "H100-80GB"),
        ("NVIDIA H100 80GB HBM3", 0, "H100-80GB"),
        ("NVIDIA-H100-PCIe", 0, "H100-80GB"),
        ("NVIDIA-H100-NVL", 0, "H100-94GB"),
        ("NVIDIA-H100-NVL", 95830, "H100-94GB"),
        ("NVIDIA-H100-80GB-HBM3-SHARED", 0, "H100-80GB"),
        ("NVIDIA-H20", 97871, "H100-96GB"),
        ("NVIDIA-H200", 143771, "H200-141GB"),
        ("NVIDIA-H200-NVL", 0, "H200-141GB"),
        ("NVIDIA-GH200-480GB", 97871, "H100-96GB"),
        ("NVIDIA-GH200-480GB", 0, "H100-96GB"),
        ("NVIDIA-GH200-144G-HBM3e", 0, "GH200-144GB"),
        ("NVIDIA-B200", 183359, "B200-180GB"),
        ("NVIDIA-GB200", 189471, "GB200-186GB"),
        ("NVIDIA-B300-SXM6-AC", 275040, "B300-269GB"),
        ("NVIDIA-GB300", 284208, "GB300-278GB"),
        ("NVIDIA-A30", 24576, "A30-24GB"),
        ("NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition", 97887, "RTX-PRO-6000-96GB"),
        ("NVIDIA RTX PRO 4500 Blackwell", 32623, "RTX-PRO-4500-32GB"),
        ("Tesla-V100-SXM2-16GB", 16384, None),
        ("NVIDIA-L40S", 46068, None),
        ("NVIDIA-RTX-6000-Ada-Generation", 49140, None),
        ("", 0, None),
    ],
)
def test_a_part_is_found_by_its_product(product: str, memory: int, name: str | None) -> None:
    geometry = geometry_of(product, memory)
    assert (geometry and geometry.name) == name


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
def test_profiles_are_called_as_the_driver_calls_them(name: str, profiles: str) -> None:
    assert [profile.name for profile in part(name).profiles] == profiles.split()


def test_a_profile_is_known_by_what_other_drivers_call_it() -> None:
    assert part("GB200-186GB").profile("7g.189gb") == part("GB200-186GB").profile("7g.186gb")


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
def test_a_resource_names_a_profile(resource: str, profile: str | None) -> None:
    assert profile_of(resource) == profile


@pytest.mark.parametrize("name", PARTS)
def test_every_profile_is_found_again_by_its_resource(name: str) -> None:
    names = [profile.name for profile in part(name).profiles]
    assert [profile_of(mig_resource(profile)) for profile in names] == names


@pytest.mark.parametrize(
    ("profiles", "complaint"),
    [
        ([Profile("1g.5gb", 1, 1, (8,), 1)], "past the 8 memory slices"),
        ([Profile("1g.5gb", 1, 1, (-1,), 1)], "past the 8 memory slices"),
        ([Profile("1g.5gb", 1, 1, (), 1)], "has no place"),
        ([Profile("1g.5gb", 1, 0, (0,), 1)], "has no place"),
        ([Profile("1g.5gb", 1, 1, (0,), 1)] * 2, "1g.5gb is listed twice"),
    ],
)
def test_a_geometry_that_cannot_be_is_refused(profiles: list[Profile], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        Geometry("odd", tuple(profiles))


def test_the_h200_table_is_what_a_real_one_says() -> None:
    """Row by row as read from NVML; and from the file itself where it is at hand."""
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
    here = Path(__file__).parents[3]
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


def test_equal_geometries_share_their_tables() -> None:
    twin = Geometry(H100.name, tuple(H100.profiles), H100.aliases)
    assert twin == H100
    assert twin.fits("1g.10gb") is H100.fits("1g.10gb")


def test_variants_of_a_size_count_once_when_nothing_is_known_of_demand() -> None:
    kinds = part("RTX-PRO-6000-96GB").kinds
    assert [profile.name for profile in kinds] == ["1g.24gb", "2g.48gb", "4g.96gb"]
