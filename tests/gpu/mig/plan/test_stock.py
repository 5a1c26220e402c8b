"""Stock: whole numbers of instances from fractions and from demand, and their places."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kilonova.catalog.mig import Slot
from kilonova.gpu.mig.plan.demand import DemandEstimator, expected_stock
from kilonova.gpu.mig.plan.stock import StockDevice, count_by_distribution, plan_stock
from kilonova.scheduler.core.gpu.mig import place_instances
from tests.catalog.mig_states import part
from tests.harness.campaigns import limit_examples

H100 = part("H100-80GB")
STOCK = {"1g.10gb": 0.7, "2g.20gb": 0.2, "3g.40gb": 0.1}
"""KGWE's inference-optimized."""


def slot(text: str) -> Slot:
    profile, _, start = text.partition("@")
    return Slot(profile, int(start))


def device(name: str = "GPU-0", held: str = "", unused: str = "", mig: bool = True) -> StockDevice:
    return StockDevice(
        name,
        H100,
        tuple(map(slot, held.split())),
        tuple(map(slot, unused.split())),
        mig,
    )


@pytest.mark.parametrize(
    ("count", "distribution", "wanted"),
    [
        # A 1g takes an eighth of an H100, a 2g a quarter (32 of 132 SMs are less), a 3g a half.
        (10, STOCK, {"1g.10gb": 56, "2g.20gb": 8, "3g.40gb": 2}),
        (1, STOCK, {"1g.10gb": 6, "2g.20gb": 1, "3g.40gb": 0}),
        (1, {"3g.40gb": 1.0}, {"3g.40gb": 2}),
        (1, {"3g.40gb": 0.4}, {"3g.40gb": 0}),
        (4, {"7g.80gb": 0.5}, {"7g.80gb": 2}),
        (4, {"1g.5gb": 1.0}, {}),  # of another product
    ],
)
def test_counts_follow_the_fractions_by_largest_remainder(
    count: int, distribution: dict[str, float], wanted: dict[str, int]
) -> None:
    devices = [device(f"GPU-{number}") for number in range(count)]
    assert count_by_distribution(devices, distribution) == wanted


def test_what_is_there_is_kept_and_held_instances_count() -> None:
    plan = plan_stock([device(held="1g.10gb@0", unused="1g.10gb@6")], {"1g.10gb": 3})
    assert plan.stock == {"GPU-0": ("1g.10gb", "1g.10gb")}
    assert not plan.missing


def test_stock_fills_sliced_devices_before_others() -> None:
    devices = [device("GPU-0", mig=False), device("GPU-1", held="3g.40gb@4")]
    plan = plan_stock(devices, {"1g.10gb": 4})
    assert plan.stock == {"GPU-0": (), "GPU-1": ("1g.10gb",) * 4}


def test_unused_instances_give_way_where_nothing_else_helps() -> None:
    plan = plan_stock([device(unused="1g.10gb@0 1g.10gb@4 1g.10gb@5")], {"3g.40gb": 1})
    assert plan.stock == {"GPU-0": ("3g.40gb",)}


def test_what_has_no_place_is_said() -> None:
    plan = plan_stock([device()], {"1g.10gb": 6, "2g.20gb": 1})
    assert plan.stock == {"GPU-0": ("2g.20gb",) + ("1g.10gb",) * 5}
    assert plan.missing == {"1g.10gb": 1}


slots = st.sampled_from([Slot(each.name, start) for each in H100.profiles for start in each.starts])


@given(
    st.lists(st.lists(slots, max_size=5), min_size=1, max_size=3),
    st.dictionaries(st.sampled_from([each.name for each in H100.profiles]), st.integers(0, 5)),
)
@settings(max_examples=limit_examples(100), deadline=None)
def test_stock_always_fits_beside_what_is_held(
    held: list[list[Slot]], wanted: dict[str, int]
) -> None:
    devices: list[StockDevice] = []
    for number, given_slots in enumerate(held):
        mask, kept = 0, list[Slot]()
        for each in given_slots:
            profile = H100.profile(each.profile)
            assert profile is not None
            if not mask & profile.mask_at(each.start):
                mask |= profile.mask_at(each.start)
                kept.append(each)
        half = len(kept) // 2
        devices.append(StockDevice(str(number), H100, tuple(kept[:half]), tuple(kept[half:])))
    plan = plan_stock(devices, wanted)
    for each in devices:
        mask = 0
        for there in each.held:
            profile = H100.profile(there.profile)
            assert profile is not None
            mask |= profile.mask_at(there.start)
        assert place_instances(H100, mask, plan.stock[each.uuid]) is not None
    for name, count in wanted.items():
        there = sum(slot.profile == name for each in devices for slot in each.held)
        there += sum(stock.count(name) for stock in plan.stock.values())
        assert there + plan.missing.get(name, 0) >= count


def test_demand_forgets_what_is_long_ago() -> None:
    estimator = DemandEstimator(half_life=100)
    for now in range(0, 100, 10):
        estimator.record("1g.10gb", now)
    estimator.record("3g.40gb", 100)
    assert estimator.demand(100)[0][0] == "1g.10gb"
    for now in range(1000, 1010):
        estimator.record("3g.40gb", now)
    assert estimator.demand(1010) == (("3g.40gb", 1.0),)


def test_rate_is_that_of_steady_arrivals() -> None:
    estimator = DemandEstimator(half_life=3600)
    for number in range(20_000):
        estimator.record("1g.10gb", number * 5.0)
    assert estimator.rates(100_000)["1g.10gb"] == pytest.approx(0.2, rel=0.02)


@pytest.mark.parametrize(
    ("rate", "seconds", "count"), [(0.0, 60, 0), (0.001, 60, 0), (0.01, 60, 2), (0.1, 60, 9)]
)
def test_stock_covers_the_arrivals_of_a_while(rate: float, seconds: float, count: int) -> None:
    assert expected_stock({"1g.10gb": rate}, seconds).get("1g.10gb", 0) == count
