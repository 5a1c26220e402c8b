"""Rebalancing: moves pay off, are possible in their order, and do not come too often."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kilonova.catalog.mig import Slot
from kilonova.scheduler.core.gpu.mig import remaining_value
from kilonova.scheduler.core.gpu.rebalancing.plan import (
    RebalanceSettings,
    RepackPlan,
    plan_rebalance,
)
from kilonova.scheduler.core.gpu.rebalancing.repack_state import FleetGpu, HeldInstance
from tests.catalog.mig_states import part
from tests.harness.campaigns import limit_examples

H100 = part("H100-80GB")
A30 = part("A30-24GB")


def gpu(name: str, held: str = "", *, frozen: bool = False, fixed: bool = False) -> FleetGpu:
    instances: list[HeldInstance] = []
    for number, text in enumerate(held.split()):
        profile, _, start = text.partition("@")
        instances.append(
            HeldInstance(Slot(profile, int(start)), f"{name}/{number}", is_movable=not fixed)
        )
    return FleetGpu(name, H100, tuple(instances), frozen)


def plan(*gpus: FleetGpu, **changes: float) -> RepackPlan:
    return plan_rebalance(gpus, RebalanceSettings(**changes), now=0)  # pyright: ignore


def described(found: RepackPlan) -> list[str]:
    return [
        f"{each.holder}: {each.source} {each.before} → {each.target} {each.after}"
        for each in found.migrations
    ]


def test_underused_gpu_is_emptied() -> None:
    found = plan(gpu("a", "1g.10gb@0"), gpu("b", "3g.40gb@4 2g.20gb@0 1g.10gb@2"))
    assert described(found) == ["a/0: a 1g.10gb@0 → b 1g.10gb@3"]
    assert found.benefit > 1.5 * found.cost > 0


def test_instance_moves_within_its_gpu_where_that_frees_slices() -> None:
    found = plan(gpu("a", "3g.40gb@0"), min_utilization=0)
    assert [(each.source, each.target) for each in found.migrations] == [("a", "a")]
    assert found.value_after > found.value_before


@pytest.mark.parametrize(
    "gpus",
    [
        (gpu("a", "1g.10gb@0", fixed=True), gpu("b", "3g.40gb@4", fixed=True)),
        (gpu("a", "1g.10gb@0", frozen=True), gpu("b", "3g.40gb@4", fixed=True)),
        (gpu("a", "1g.10gb@6"), gpu("b")),
        (gpu("a"), gpu("b")),
    ],
)
def test_nothing_moves_without_gain_or_permission(gpus: Sequence[FleetGpu]) -> None:
    assert not plan(*gpus).migrations


def test_cost_of_a_restart_may_exceed_the_benefit() -> None:
    expensive = FleetGpu("a", H100, (HeldInstance(Slot("1g.10gb", 0), "pod", True, 86_400.0),))
    assert not plan(expensive, gpu("b", "3g.40gb@4", fixed=True)).migrations


def test_last_rebalancing_is_left_to_work() -> None:
    gpus = [gpu("a", "1g.10gb@0"), gpu("b", "3g.40gb@4")]
    early = plan_rebalance(gpus, RebalanceSettings(), now=1200, last=1000)
    assert not early.migrations
    assert "200 s ago, the interval is 300 s" in early.skipped
    assert plan_rebalance(gpus, RebalanceSettings(), now=1300, last=1000).migrations


def test_demand_decides_what_a_place_is_worth() -> None:
    """A 7g needs a whole GPU; where only 1g are requested nothing is gained by emptying one."""
    gpus = [gpu("a", "1g.10gb@0"), gpu("b", "1g.10gb@0")]
    whole = plan_rebalance(gpus, RebalanceSettings(), demand=(("7g.80gb", 1.0),), now=0)
    small = plan_rebalance(gpus, RebalanceSettings(), demand=(("1g.10gb", 1.0),), now=0)
    assert len(whole.migrations) == 1
    assert not small.migrations


def test_plan_is_stable() -> None:
    """What has been rebalanced is not rebalanced again."""
    first = plan(gpu("a", "1g.10gb@0 1g.10gb@3"), gpu("b", "1g.10gb@5"), gpu("c", "3g.40gb@0"))
    assert first.migrations
    after = apply_plan(
        [gpu("a", "1g.10gb@0 1g.10gb@3"), gpu("b", "1g.10gb@5"), gpu("c", "3g.40gb@0")], first
    )
    assert not plan(*after).migrations


def apply_plan(gpus: Sequence[FleetGpu], found: RepackPlan) -> list[FleetGpu]:
    """Move in order; each place must be free."""
    held = {each.uuid: {one.slot: one for one in each.held} for each in gpus}
    geometry = {each.uuid: each.geometry for each in gpus}
    for move in found.migrations:
        instance = held[move.source].pop(move.before)
        assert instance.holder == move.holder
        mask = 0
        for slot in held[move.target]:
            profile = geometry[move.target].profile(slot.profile)
            assert profile is not None
            mask |= profile.mask_at(slot.start)
        assert move.after.start in geometry[move.target].free_starts(mask, move.after.profile)
        held[move.target][move.after] = HeldInstance(move.after, move.holder)
    return [
        FleetGpu(each.uuid, each.geometry, tuple(held[each.uuid].values()), each.is_frozen)
        for each in gpus
    ]


@given(st.data())
@settings(max_examples=limit_examples(100), deadline=None)
def test_moves_are_possible_in_their_order_and_pay_off(data: st.DataObject) -> None:
    gpus: list[FleetGpu] = []
    for number in range(data.draw(st.integers(1, 8))):
        geometry = data.draw(st.sampled_from([H100, H100, A30]))
        mask, held = 0, list[HeldInstance]()
        for _ in range(data.draw(st.integers(0, 5))):
            profile = data.draw(st.sampled_from(geometry.profiles))
            free = geometry.free_starts(mask, profile.name)
            if free:
                start = data.draw(st.sampled_from(free))
                mask |= profile.mask_at(start)
                movable = data.draw(st.booleans())
                held.append(
                    HeldInstance(Slot(profile.name, start), f"{number}/{len(held)}", movable)
                )
        gpus.append(FleetGpu(str(number), geometry, tuple(held), data.draw(st.booleans())))
    limit = data.draw(st.integers(0, 6))
    found = plan_rebalance(gpus, RebalanceSettings(max_migrations=limit), now=0)
    assert len(found.migrations) <= limit
    frozen = {each.uuid for each in gpus if each.is_frozen}
    fixed = {one.holder for each in gpus for one in each.held if not one.is_movable}
    for move in found.migrations:
        assert not {move.source, move.target} & frozen
        assert move.holder not in fixed
    after = apply_plan(gpus, found)
    assert found.value_before == pytest.approx(total_value(gpus))
    assert found.value_after == pytest.approx(total_value(after))
    assert found.benefit >= found.cost


def total_value(gpus: Sequence[FleetGpu]) -> float:
    total = 0.0
    for each in gpus:
        mask = 0
        for one in each.held:
            profile = each.geometry.profile(one.slot.profile)
            assert profile is not None
            mask |= profile.mask_at(one.slot.start)
        total += float(remaining_value(each.geometry)[mask])
    return total
