"""What is told of gangs."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from kilonova.api.grove import PodCliqueStatus
from kilonova.api.meta import Condition
from kilonova.api.podgang import PodGangStatus
from kilonova.workloads.conditions import find_condition, holds
from kilonova.workloads.replicas.gangstatus import gang_status
from kilonova.workloads.resources import Pod
from tests.workloads.builders import clique, group, pod_clique_set
from tests.workloads.replicas.replica_values import NOW, World, ago, started

A_SET = pod_clique_set(clique("a", 2, 1), clique("b"), groups=[group("x", "b", replicas=2)])


def told(world: World, gang: str = "sys-0", later: float = 0) -> PodGangStatus:
    moment = NOW + timedelta(seconds=later)
    found = gang_status(world.seen(), world.gangs[gang], moment)
    world.change("PodGang", gang, status=found)
    return found


def true_ones(status: PodGangStatus) -> set[str]:
    return {each.type for each in status.conditions if each.status == "True"}


def with_nodes(pod: Pod) -> Pod:
    return Pod(pod.metadata, replace(pod.spec, node_name="node"), pod.status)


def test_gang_without_pods_is_pending() -> None:
    world = World(A_SET)
    world.settle()
    found = told(world)
    assert found.phase == "Pending"
    assert true_ones(found) == set()
    assert {each.type: each.reason for each in found.conditions} == {
        "Initialized": "PodGangPodsCreationPending",
        "Scheduled": "InsufficientScheduledPods",
        "Ready": "InsufficientReadyPods",
        "Unhealthy": "MinAvailableMet",
    }


def test_gang_with_all_of_its_pods_is_initialized() -> None:
    world = World(A_SET)
    world.settle()
    world.bring_up(ready=False)
    found = told(world)
    assert found.phase == "Pending"
    assert true_ones(found) == {"Initialized"}


def test_gang_is_starting_when_every_group_has_enough_nodes() -> None:
    world = World(A_SET)
    world.settle()
    world.bring_up(ready=False)
    world.pods = [with_nodes(pod) for pod in world.pods]
    found = told(world)
    assert found.phase == "Starting"
    assert true_ones(found) == {"Initialized", "Scheduled"}
    assert (found.last_scheduled, found.last_ready) == (ago(0), None)


def test_gang_runs_when_every_group_has_enough_that_are_ready() -> None:
    world = started(A_SET)
    found = told(world)
    assert found.phase == "Running"
    assert true_ones(found) == {"Initialized", "Scheduled", "Ready"}
    assert found.last_ready == ago(0)


def test_gang_needs_only_what_it_must_have() -> None:
    world = started(A_SET)
    first = next(pod for pod in world.pods if pod.metadata.name.startswith("sys-0-a"))
    world.pods.remove(first)
    found = told(world)
    assert found.phase == "Running"
    assert true_ones(found) == {"Scheduled", "Ready"}


def test_gang_that_loses_what_it_needs_is_unhealthy_and_pending_again() -> None:
    world = started(A_SET)
    told(world)
    world.lose("sys-0-a")
    found = told(world, later=30)
    assert found.phase == "Pending"
    assert true_ones(found) == {"Unhealthy"}
    assert found.last_ready == ago(0), "when it last was"
    world.bring_up()
    assert told(world, later=60).last_ready == ago(-60)


def test_gang_that_never_came_up_is_not_unhealthy() -> None:
    world = World(A_SET)
    world.settle()
    world.tell("sys-0-a", breached=True, healthy=False)
    assert not holds(told(world).conditions, "Unhealthy")


def test_each_gang_tells_only_of_its_own_pods() -> None:
    world = started(A_SET)
    world.lose("sys-0-x-1-b")
    assert told(world, "sys-0").phase == "Running"
    assert told(world, "sys-0-x-0").phase == "Pending"


@pytest.mark.parametrize(
    ("of_a", "of_b", "phase"),
    [
        ("Complete", "Complete", "Succeeded"),
        ("Complete", "Failed", "Failed"),
        ("Complete", None, "Running"),
    ],
)
def test_gang_comes_to_the_end_of_its_cliques(of_a: str, of_b: str | None, phase: str) -> None:
    world = started(pod_clique_set(clique("a"), clique("b")))
    for name, condition in (("sys-0-a", of_a), ("sys-0-b", of_b)):
        if condition is not None:
            status = PodCliqueStatus(conditions=(Condition(condition, "True"),))
            world.change("PodClique", name, status=status)
    assert told(world).phase == phase


def test_what_a_scheduler_tells_stays() -> None:
    world = started(A_SET)
    theirs = Condition("DisruptionTarget", "True", "PreemptedByScheduler", "", ago(5))
    status = PodGangStatus(conditions=(theirs,), placement_score=0.5)
    world.change("PodGang", "sys-0", status=status)
    found = told(world)
    assert find_condition(found.conditions, "DisruptionTarget") == theirs
    assert found.placement_score == 0.5


def test_gang_at_rest_has_nothing_new_to_tell() -> None:
    world = started(A_SET)
    assert told(world) == told(world, later=100)
