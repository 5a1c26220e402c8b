"""MIG: where instances fit, and which placement has the highest remaining value."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilonova.catalog.mig import MASK_COUNT, MigGeometry, known_geometries
from kilonova.scheduler.core.gpu.mig import (
    best_start,
    completions,
    fit_counts,
    place_instances,
    placement_loss,
    remaining_value,
)
from tests.catalog.mig_states import legal_states, maximal_states, occupied_mask, part

H100 = part("H100-80GB")
BASE = MigGeometry(
    "base", tuple(p for p in H100.profiles if p.name not in ("1g.10gb+me", "1g.20gb"))
)
DOUBLE = MigGeometry("double", tuple(p for p in H100.profiles if p.name != "1g.10gb+me"))

geometries = st.sampled_from(known_geometries())
weights = st.floats(0.01, 100)


@pytest.mark.parametrize(
    ("geometry", "states", "layouts", "multisets"), [(BASE, 298, 19, 14), (DOUBLE, 723, 78, 38)]
)
def test_states_match_nvidia_documentation(
    geometry: MigGeometry, states: int, layouts: int, multisets: int
) -> None:
    assert len(legal_states(geometry)) == completions(geometry)[0] == states
    largest = maximal_states(geometry)
    assert len(largest) == layouts
    assert len({tuple(sorted(p.name for p, _ in state)) for state in largest}) == multisets


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
def test_remaining_placements_after_one_instance(profile: str, start: int, left: int) -> None:
    found = BASE.profile(profile)
    assert found is not None
    assert completions(BASE)[found.mask_at(start)] == left


@pytest.mark.parametrize(
    ("mask", "profile", "demand", "start"),
    [
        pytest.param(0, "1g.10gb", (), 6, id="leaves most for all profiles"),
        pytest.param(0, "3g.40gb", (), 4, id="leaves a 4g"),
        pytest.param(0, "2g.20gb", (), 4, id="leaves a 4g"),
        pytest.param(0, "2g.20gb", (("1g.10gb", 1.0),), 0, id="no 4g wanted: more sets possible"),
        pytest.param(0b1000000, "1g.10gb", (("3g.40gb", 1.0),), 4, id="beside occupied slices"),
        pytest.param(0b0001111, "1g.10gb", (("2g.20gb", 1.0),), 6, id="keeps the 2g"),
        pytest.param(0b0001111, "1g.10gb", (("1g.20gb", 1.0),), 4, id="keeps a 2g and one more"),
        pytest.param(0b11110000, "3g.40gb", (), 0, id="only start"),
        pytest.param(0b00000001, "7g.80gb", (), None, id="does not fit"),
        pytest.param(0, "1g.5gb", (), None, id="not a profile of this device"),
        pytest.param(
            0, "1g.10gb", (("9g.99gb", 1.0),), 6, id="unknown profile in demand is ignored"
        ),
        pytest.param(0, "1g.10gb", (("7g.80gb", float("nan")),), 6, id="invalid weight is ignored"),
    ],
)
def test_best_start_maximises_remaining_value(
    mask: int, profile: str, demand: tuple[tuple[str, float], ...], start: int | None
) -> None:
    assert best_start(H100, mask, profile, demand) == start


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
    assert (place_instances(H100, mask, wanted) is not None) == fits


@given(st.sampled_from([H100, part("A30-24GB"), part("RTX-PRO-6000-96GB")]), st.data())
def test_set_fits_exactly_if_a_valid_state_contains_it(
    geometry: MigGeometry, data: st.DataObject
) -> None:
    kinds = MigGeometry("kinds", geometry.distinct_profiles)
    mask = data.draw(st.integers(0, MASK_COUNT - 1))
    wanted = data.draw(st.lists(st.sampled_from([p.name for p in kinds.profiles]), max_size=8))
    found = place_instances(kinds, mask, wanted)
    beside = {
        tuple(sorted(p.name for p, _ in state))
        for state in legal_states(kinds)
        if not occupied_mask(state) & mask
    }
    assert (found is not None) == (tuple(sorted(wanted)) in beside)
    if found is not None:
        assert sorted(name for name, _ in found) == sorted(wanted)
        taken = mask
        for name, start in found:
            assert start in kinds.free_starts(taken, name)
            profile = kinds.profile(name)
            assert profile is not None
            taken |= profile.mask_at(start)


@given(geometries, st.integers(0, MASK_COUNT - 1), st.data())
def test_no_start_has_more_remaining_value_than_best(
    geometry: MigGeometry, mask: int, data: st.DataObject
) -> None:
    names = [profile.name for profile in geometry.profiles]
    demand = tuple(
        sorted(data.draw(st.dictionaries(st.sampled_from(names), weights, max_size=4)).items())
    )
    profile = geometry.profile(data.draw(st.sampled_from(names)))
    assert profile is not None
    best = best_start(geometry, mask, profile.name, demand)
    value = remaining_value(geometry, demand)
    assert ((value >= 0) & (value <= 1 + 1e-9)).all()
    starts = [start for start in profile.starts if not profile.mask_at(start) & mask]
    if not starts:
        assert best is None
        assert placement_loss(geometry, profile.name, demand)[mask] == float("inf")
        return
    assert best in starts
    left = value[mask | profile.mask_at(best)]
    assert left >= max(value[mask | profile.mask_at(start)] for start in starts) - 1e-8
    assert placement_loss(geometry, profile.name, demand)[mask] == pytest.approx(value[mask] - left)


@given(geometries, st.integers(0, MASK_COUNT - 1))
def test_fit_count_is_number_of_placeable_instances(geometry: MigGeometry, mask: int) -> None:
    for profile in geometry.profiles:
        count = int(fit_counts(geometry, profile.name)[mask])
        assert place_instances(geometry, mask, [profile.name] * count) is not None
        assert place_instances(geometry, mask, [profile.name] * (count + 1)) is None


def test_equal_geometries_share_their_tables() -> None:
    twin = MigGeometry(H100.name, tuple(H100.profiles), H100.aliases)
    assert twin == H100
    assert fit_counts(twin, "1g.10gb") is fit_counts(H100, "1g.10gb")
