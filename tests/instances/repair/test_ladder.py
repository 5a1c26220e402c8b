"""The repair ladder, as a table of states."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilonova.instances.repair import (
    BROKEN,
    CONDUCTOR,
    MemberHealth,
    MemberState,
    RepairDecision,
    RepairState,
)
from kilonova.instances.repair.ladder import ladder

NOW = datetime(2026, 5, 1, tzinfo=UTC)
DEADLINE = 300.0


def member(index: int, health: MemberHealth = "Ready", *, second: bool = False) -> MemberState:
    is_bound = health not in ("Pending", "Missing")
    return MemberState(
        index,
        health,
        f"n{index}" if is_bound else "",
        is_ready=health in ("Ready", "NodeDraining"),
        has_replacement=second,
    )


def state(*health: MemberHealth, waited: float = 0, **fields: Any) -> RepairState:
    """Agents with this health, and a conductor that is ready."""
    members = (*(member(index, each) for index, each in enumerate(health)), member(CONDUCTOR))
    since = NOW - timedelta(seconds=waited)
    return replace(RepairState(members, NOW, DEADLINE, since), **fields)


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("observed", "expected"),
    [
        (state("Ready", "Ready"), RepairDecision()),
        (state("Ready", "Starting"), RepairDecision()),
        (state("Ready", "Starting", waited=1000), RepairDecision()),
        # 1 and 2: broken members are replaced, and the others are left alone.
        (state("Missing", "Ready"), RepairDecision((0,))),
        (state("Ready", "Failed"), RepairDecision((1,))),
        (state("NodeLost", "Ready", "NodeLost"), RepairDecision((0, 2))),
        (state("AcceleratorUnhealthy", "Unready", "Ready"), RepairDecision((0, 1))),
        (state("NodeDraining", "Ready"), RepairDecision(migrate=(0,))),
        (state("NodeDraining", "Failed"), RepairDecision((1,), (0,))),
        # Within the deadline they wait for the scheduler.
        (state("Pending", "Ready", waited=100), RepairDecision(recheck_after=200)),
        (
            state("Pending", "Missing", "Ready", waited=100),
            RepairDecision((1,), recheck_after=200),
        ),
        # 3: capacity is reserved first.
        (
            state("Pending", "Ready", waited=300),
            RepairDecision(relocation="Reserve", recheck_after=300),
        ),
        (
            state(
                "Pending", "Ready", waited=400, reservation="Pending", reservation_since=ago(100)
            ),
            RepairDecision(relocation="Reserve", recheck_after=200),
        ),
        (
            state("Pending", "Ready", waited=400, reservation="Reserved", reservation_since=ago(9)),
            RepairDecision(relocation="Relocate"),
        ),
        (
            state(
                "Pending", "Ready", waited=700, reservation="Pending", reservation_since=ago(300)
            ),
            RepairDecision(relocation="Release"),
        ),
        # What was reserved is not used if the repair has succeeded meanwhile.
        (
            state(
                "Starting", "Ready", waited=400, reservation="Reserved", reservation_since=ago(9)
            ),
            RepairDecision(),
        ),
        # 4: an allocation that was never complete is given up after the deadline.
        (
            state("Pending", "Pending", was_allocated=False, waited=299),
            RepairDecision(recheck_after=1),
        ),
        (
            state("Pending", "Pending", was_allocated=False, waited=300),
            RepairDecision(has_given_up=True),
        ),
        (state("Pending", "Failed", was_allocated=False, waited=999), RepairDecision((1,))),
        (
            state("Pending", was_allocated=False, allocation=1, unschedulable="no capacity"),
            RepairDecision(recheck_after=30),
        ),
        (
            state("Pending", was_allocated=False, waited=30, allocation=1, unschedulable="none"),
            RepairDecision(has_given_up=True),
        ),
        (
            state("Pending", was_allocated=False, allocation=1),
            RepairDecision(recheck_after=DEADLINE),
        ),
    ],
)
def test_next_step(observed: RepairState, expected: RepairDecision) -> None:
    assert ladder(observed) == expected


def test_serving_instance_keeps_what_it_has() -> None:
    """Its node is drained, the replacement waits, and nothing can be reserved."""
    members = (member(0, "NodeDraining", second=True), member(1), member(CONDUCTOR))
    since = ago(10_000)
    observed = RepairState(
        members, NOW, DEADLINE, since, reservation="Pending", reservation_since=since
    )
    assert ladder(observed) == RepairDecision(relocation="Reserve")


def test_wholly_lost_instance_waits_for_a_place_anywhere() -> None:
    members = (member(0, "Pending"), member(1, "Pending"), member(CONDUCTOR, "Pending"))
    observed = RepairState(members, NOW, DEADLINE, ago(100))
    assert ladder(observed) == RepairDecision(recheck_after=200)
    assert ladder(replace(observed, since=ago(300))) == RepairDecision(has_given_up=True)


def test_conductor_is_replaced_but_not_migrated() -> None:
    lost = RepairState((member(0), member(CONDUCTOR, "NodeLost")), NOW, DEADLINE, NOW)
    assert ladder(lost) == RepairDecision((CONDUCTOR,))
    draining = RepairState((member(0), member(CONDUCTOR, "NodeDraining")), NOW, DEADLINE, NOW)
    assert ladder(draining) == RepairDecision()


HEALTH: tuple[MemberHealth, ...] = (
    "Pending",
    "Starting",
    "Ready",
    "NodeDraining",
    *sorted(BROKEN),
)


@given(
    health=st.lists(st.sampled_from(HEALTH), min_size=1, max_size=6),
    waited=st.floats(0, 1000),
    reservation=st.sampled_from(["", "Pending", "Reserved"]),
    reserved_for=st.floats(0, 1000),
    was_allocated=st.booleans(),
)
def test_healthy_members_are_never_replaced(
    health: list[MemberHealth],
    waited: float,
    reservation: Any,
    reserved_for: float,
    was_allocated: bool,
) -> None:
    since = ago(reserved_for) if reservation else None
    observed = state(
        *health,
        waited=waited,
        reservation=reservation,
        reservation_since=since,
        was_allocated=was_allocated,
    )
    decision = ladder(observed)
    by_index = {each.index: each for each in observed.members}
    assert all(by_index[each].health in BROKEN for each in decision.replace)
    assert all(by_index[each].health == "NodeDraining" for each in decision.migrate)
    if decision.relocation == "Release":
        assert not observed.is_serving
    if decision.relocation == "Relocate":
        assert observed.reservation == "Reserved"
    if decision.has_given_up:
        assert not decision.replace
