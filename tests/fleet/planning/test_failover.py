"""Members that are lost and return: what is moved, when, and what never is."""

import pytest

from kilonova.api.inference_engine import Failover
from tests.fleet.planning.simulated_fleet import SimulatedFleet

LOST = 330.0
"""Seconds after which a silent member is certainly lost."""


@pytest.fixture
def fleet() -> SimulatedFleet:
    fleet = SimulatedFleet({"a": 100, "b": 100, "c": 100})
    fleet.deploy(replicas=9)
    fleet.run(120)
    assert fleet.counts() == {"a": 3, "b": 3, "c": 3}
    assert fleet.ready() == 9
    return fleet


def test_suspect_member_keeps_its_instances_and_others_go_on(fleet: SimulatedFleet) -> None:
    fleet.members["a"].is_silent = True
    fleet.run(60)
    assert fleet.health("a") == "Suspect"
    assert fleet.counts() == {"a": 3, "b": 3, "c": 3}
    assert fleet.status().observed == 9
    fleet.deploy(replicas=11)
    fleet.run(30)
    assert fleet.counts() == {"a": 3, "b": 4, "c": 4}
    assert not fleet.cell("a").reachable
    assert "no report since" in fleet.cell("a").reason


def test_lost_member_is_replaced_elsewhere(fleet: SimulatedFleet) -> None:
    fleet.members["a"].is_down = True
    fleet.run(LOST)
    assert fleet.health("a") == "Lost"
    fleet.run(60)
    assert fleet.cell("b").desired + fleet.cell("c").desired == 9
    assert fleet.ready() == 9
    assert fleet.cell("a").desired == 3, "what it may still run goes on until it returns"
    assert fleet.status().relocated == 3
    assert fleet.reasons().count("InstanceRelocated") == 1


def test_failover_moves_a_few_instances_at_a_time(fleet: SimulatedFleet) -> None:
    fleet.deploy(failover=Failover(max_concurrent=1))
    for each in fleet.members.values():
        each.startup_steps = 4
    fleet.members["a"].is_down = True
    most = 0
    for _ in range(100):
        fleet.step()
        starting = sum(
            fleet.cell(name).desired - fleet.members[name].ready() for name in ("b", "c")
        )
        most = max(most, starting)
    assert most == 1
    assert fleet.ready() == 9


def test_member_that_returns_is_drained_only_after_a_while(fleet: SimulatedFleet) -> None:
    fleet.members["a"].is_silent = True
    fleet.run(LOST + 60)
    assert fleet.ready() == 12
    fleet.members["a"].is_silent = False
    fleet.run(300)
    assert fleet.ready() == 12, "nothing changes during the stabilisation window"
    for _ in range(120):
        fleet.step()
        assert fleet.ready() >= 9
    assert fleet.counts() == {"a": 3, "b": 3, "c": 3}
    assert fleet.ready() == 9


def test_restart_of_the_manager_keeps_the_timer(fleet: SimulatedFleet) -> None:
    fleet.members["a"].is_down = True
    fleet.run(200)
    since = fleet.clusters["a"].status.suspect_since
    fleet.restart_manager()
    fleet.run(LOST - 200 + 30)
    assert fleet.clusters["a"].status.suspect_since == since
    assert fleet.health("a") == "Lost"


def test_new_manager_observes_before_it_gives_a_member_up(fleet: SimulatedFleet) -> None:
    fleet.members["a"].is_down = True
    fleet.run(100)
    for name in ("b", "c"):
        fleet.members[name].is_silent = True
    # No manager runs for an hour.
    fleet.now = fleet.now.replace(hour=14)
    fleet.restart_manager()
    for name in ("b", "c"):
        fleet.members[name].is_silent = False
    fleet.run(30)
    assert fleet.health("a") == "Suspect"
    fleet.run(30)
    assert fleet.health("a") == "Lost"
    assert fleet.health("b") == fleet.health("c") == "Healthy"


def test_half_of_the_members_gone_at_once_freezes_the_fleet(fleet: SimulatedFleet) -> None:
    for name in ("a", "b"):
        fleet.members[name].is_down = True
    fleet.run(LOST * 3)
    assert fleet.plan is not None
    assert fleet.plan.frozen
    assert fleet.health("a") == fleet.health("b") == "Suspect"
    assert fleet.counts() == {"a": 3, "b": 3, "c": 3}
    assert fleet.condition("Paused") == ("True", "FleetFrozen")
    fleet.members["a"].is_down = False
    fleet.run(30)
    assert not fleet.plan.frozen
    assert fleet.health("b") == "Suspect", "others may follow: it is not given up at once"
    fleet.run(120)
    assert fleet.health("b") == "Lost"
    assert fleet.cell("a").desired + fleet.cell("c").desired == 9


def test_evacuation_overrides_a_frozen_fleet(fleet: SimulatedFleet) -> None:
    for name in ("a", "b"):
        fleet.members[name].is_down = True
    fleet.run(120)
    fleet.configure("a", evacuated=True)
    fleet.configure("b", evacuated=True)
    fleet.run(120)
    assert fleet.cell("c").desired == 9


def test_flapping_member_moves_nothing(fleet: SimulatedFleet) -> None:
    before = fleet.counts()
    for index in range(40):
        fleet.members["a"].is_silent = index % 2 == 0
        fleet.run(60)
        assert fleet.counts() == before
    assert fleet.status().relocated == 0


def test_member_lost_again_and_again_gets_nothing_back(fleet: SimulatedFleet) -> None:
    fleet.members["a"].is_down = True
    fleet.run(LOST + 60)
    moved = fleet.status().relocated
    for _ in range(4):
        fleet.members["a"].is_down = False
        fleet.run(480)
        fleet.members["a"].is_down = True
        fleet.run(LOST + 60)
    assert fleet.status().relocated == moved
    assert fleet.clusters["a"].status.losses > 1
    assert fleet.cell("b").desired + fleet.cell("c").desired == 9


def test_agent_that_cannot_reach_its_api_counts_as_unreachable(fleet: SimulatedFleet) -> None:
    fleet.members["a"].reason = "Api"
    fleet.run(90)
    status = fleet.clusters["a"].status
    assert (status.health, status.reason) == ("Suspect", "Api")


def test_evacuated_member_is_left_without_losing_instances(fleet: SimulatedFleet) -> None:
    fleet.configure("a", evacuated=True)
    for _ in range(60):
        fleet.step()
        assert fleet.ready() >= 9
    assert fleet.counts().get("a") is None
    assert fleet.status().relocated == 3
    assert fleet.members["a"].instances == {}


def test_cordoned_member_keeps_what_it_has_and_gets_nothing(fleet: SimulatedFleet) -> None:
    fleet.configure("a", cordoned=True)
    fleet.deploy(replicas=15)
    fleet.run(60)
    assert fleet.counts() == {"a": 3, "b": 6, "c": 6}


def test_instances_that_a_cluster_cannot_place_run_elsewhere(fleet: SimulatedFleet) -> None:
    fleet.members["a"].accelerators = 2
    fleet.run(60)
    assert fleet.cell("a").desired == 1
    assert fleet.ready() == 9
    assert fleet.status().relocated == 2
    event = next(each for each in fleet.events if each.reason == "InstanceRelocated")
    assert event.message.startswith("Moved 2 instances from a to ")
    told = fleet.desired["a"][0].relocation
    assert told is not None
    assert (told.number, told.instances) == (1, 2)


def test_scaling_down_does_not_wait_for_a_suspect_member(fleet: SimulatedFleet) -> None:
    fleet.members["a"].is_silent = True
    fleet.run(60)
    fleet.deploy(replicas=5)
    fleet.run(15)
    assert fleet.counts() == {"a": 3, "b": 1, "c": 1}
