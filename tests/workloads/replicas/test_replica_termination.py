"""What is started anew, when, and how much with it."""

import pytest
from msgspec.structs import replace

from kilonova.api.grove import PodCliqueSet
from kilonova.api.meta import Condition
from kilonova.workloads.conditions import with_condition
from kilonova.workloads.replicas.groupstatus import TERMINATING
from kilonova.workloads.replicas.revision import revision_of_replica
from kilonova.workloads.replicas.termination import Verdict, judge
from kilonova.workloads.replicas.units import units_of
from tests.workloads.builders import clique, group, pod_clique_set
from tests.workloads.replicas.replica_values import (
    NOW,
    World,
    ago,
    going,
    incarnations,
    started,
    turn,
)

DELAY = 600.0


def a_set(least: int = 1, delay: str | None = "10m") -> PodCliqueSet:
    return pod_clique_set(
        clique("a", 2, 1),
        clique("b"),
        clique("c", 3, 1),
        groups=[group("x", "b", "c", replicas=2, min_available=least)],
        termination_delay=delay,
    )


def verdict(world: World) -> Verdict:
    seen = world.seen()
    revision = revision_of_replica(seen)
    assert revision is not None
    return judge(seen, units_of(seen, revision), NOW)


def unit(index: int) -> set[str]:
    return {f"sys-0-x-{index}-b", f"sys-0-x-{index}-c"}


def test_nothing_happens_while_all_is_well() -> None:
    assert verdict(started(a_set())) == Verdict()


@pytest.mark.parametrize("short", [DELAY - 1, 0])
def test_breach_is_waited_out_for_the_delay(short: float) -> None:
    world = started(a_set())
    world.lose("sys-0-a", since=short)
    assert verdict(world) == Verdict(after=DELAY - short)


def test_lost_standalone_clique_starts_the_whole_replica_anew() -> None:
    world = started(a_set())
    world.lose("sys-0-a", since=DELAY)
    found = verdict(world)
    assert found.whole
    assert found.cliques == set(world.cliques)


def test_lost_unit_goes_alone_while_enough_others_are_well() -> None:
    world = started(a_set())
    world.lose("sys-0-x-1-c", since=DELAY)
    assert verdict(world) == Verdict(frozenset(unit(1)), (("sys-0-x", 1),))


def test_unit_of_the_base_gang_goes_alone_too_if_a_scaled_one_is_well() -> None:
    world = started(a_set())
    world.lose("sys-0-x-0-b", since=DELAY)
    assert verdict(world).cliques == unit(0)


def test_too_few_units_start_the_whole_replica_anew() -> None:
    world = started(a_set())
    world.lose("sys-0-x-0-b", since=DELAY + 100)
    world.lose("sys-0-x-1-b", since=DELAY)
    assert verdict(world).whole


def test_group_is_lost_from_when_too_few_were_left() -> None:
    world = started(a_set())
    world.lose("sys-0-x-0-b", since=DELAY + 100)
    world.lose("sys-0-x-1-b", since=10)
    assert verdict(world) == Verdict(after=DELAY - 10)


def test_unit_that_all_are_needed_of_takes_the_replica_with_it() -> None:
    world = started(a_set(least=2))
    world.lose("sys-0-x-1-c", since=DELAY)
    assert verdict(world).whole


@pytest.mark.parametrize(("begun", "whole"), [(0.0, True), (DELAY + 1, False)])
def test_restart_of_a_replica_that_was_cut_short_is_done_to_its_end(
    begun: float, whole: bool
) -> None:
    """Of a group that needs both units, the one that was well has been started anew."""
    world = started(a_set(least=2))
    world.settle(anew=unit(0))
    for name in unit(0):
        world.tell(name, breached=True, healthy=False)
    world.lose("sys-0-x-1-c", since=DELAY)
    told = Condition(TERMINATING, "True", last_transition_time=ago(begun))
    status = replace(world.groups["sys-0-x"].status, conditions=(told,))
    world.change("PodCliqueScalingGroup", "sys-0-x", status=status)
    assert verdict(world).whole is whole


@pytest.mark.parametrize("done", range(6))
def test_restart_because_of_two_broken_cliques_is_done_to_its_end_wherever_it_is_cut(
    done: int,
) -> None:
    world = started(
        pod_clique_set(*(clique(name) for name in "abcdef"), termination_delay="10m"),
    )
    world.lose("sys-0-b", since=DELAY)
    world.lose("sys-0-e", since=10)
    plan = world.plan(verdict(world).cliques)
    waves = [each for wave in plan.waves for each in wave]
    plan.patches = waves[:done]
    world.carry_out(plan)
    for name in [each.name for each in plan.patches]:
        world.tell(name, breached=True, healthy=False)
    assert verdict(world).whole


def test_what_never_came_up_is_not_started_anew() -> None:
    world = World(a_set())
    world.settle()
    for name in world.cliques:
        world.tell(name, breached=True, since=10 * DELAY, healthy=False)
    assert verdict(world) == Verdict()


def test_scaled_unit_that_never_came_up_does_not_count_as_well() -> None:
    world = started(a_set())
    world.tell("sys-0-x-1-b", breached=True, since=10 * DELAY, healthy=False)
    world.lose("sys-0-x-0-b", since=DELAY)
    assert verdict(world).whole


def test_what_was_started_anew_is_given_time_to_come_up() -> None:
    world = started(a_set())
    world.lose("sys-0-a", since=DELAY)
    world.settle(anew=verdict(world).cliques)
    assert set(incarnations(world).values()) == {1}
    assert verdict(world) == Verdict()


def test_replicas_that_somebody_scaled_stay_so_when_started_anew() -> None:
    world = started(a_set())
    world.scale("PodClique", "sys-0-a", 5)
    world.scale("PodCliqueScalingGroup", "sys-0-x", 3)
    world.settle()
    world.bring_up()
    world.lose("sys-0-a", since=DELAY)
    world.settle(anew=verdict(world).cliques)
    assert world.cliques["sys-0-a"].spec.replicas == 5
    assert world.groups["sys-0-x"].spec.replicas == 3


def test_replica_that_is_being_updated_is_left_alone() -> None:
    world = started(a_set())
    world.lose("sys-0-a", since=DELAY)
    world.set_ = turn(world.set_, 0)
    assert verdict(world) == Verdict()


def test_replica_that_lacks_a_clique_is_left_alone() -> None:
    world = started(pod_clique_set(clique("a"), clique("b"), termination_delay="10m"))
    world.lose("sys-0-a", since=DELAY)
    live = world.cliques["sys-0-b"]
    world.change("PodClique", "sys-0-b", metadata=going(live.metadata))
    assert not verdict(world).whole


def test_delay_is_four_hours_where_none_is_said() -> None:
    world = started(a_set(delay=None))
    world.lose("sys-0-a", since=0)
    assert verdict(world) == Verdict(after=4 * 3600.0)


def test_group_scaled_below_its_minimum_lacks_nothing() -> None:
    world = started(a_set(least=2))
    world.scale("PodCliqueScalingGroup", "sys-0-x", 1)
    world.settle()
    assert verdict(world) == Verdict()


def test_condition_that_is_not_known_is_no_breach() -> None:
    world = started(a_set())
    live = world.cliques["sys-0-a"]
    unknown = tuple(replace(each, status="Unknown") for each in live.status.conditions)
    status = replace(live.status, conditions=unknown)
    world.change("PodClique", "sys-0-a", status=status)
    assert verdict(world) == Verdict()


def test_clique_that_has_failed_for_good_is_left_alone() -> None:
    world = started(a_set())
    world.lose("sys-0-a", since=DELAY)
    lost = world.cliques["sys-0-a"]
    failed = with_condition(
        lost.status.conditions, "Failed", "True", "BackoffLimitExceeded", "", NOW
    )
    world.cliques["sys-0-a"] = replace(lost, status=replace(lost.status, conditions=failed))
    assert verdict(world) == Verdict()
