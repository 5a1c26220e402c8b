"""The status of gangs."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from kilonova.api.grove import PodCliqueStatus
from kilonova.api.meta import Condition
from kilonova.api.podgang import PodGangStatus
from kilonova.kube.status import find_condition, is_condition_true
from kilonova.workloads.controllers.podcliqueset_replica.gang_status import build_gang_status
from kilonova.workloads.resources import Pod
from tests.workloads.api_objects import clique, group, pod_clique_set
from tests.workloads.controllers.podcliqueset_replica.simulated_replica import (
    NOW,
    SimulatedReplica,
    seconds_ago,
    start_replica,
)

A_SET = pod_clique_set(clique("a", 2, 1), clique("b"), groups=[group("x", "b", replicas=2)])


def build_status(replica: SimulatedReplica, gang: str = "sys-0", later: float = 0) -> PodGangStatus:
    moment = NOW + timedelta(seconds=later)
    found = build_gang_status(replica.observe(), replica.gangs[gang], moment)
    replica.replace_parts("PodGang", gang, status=found)
    return found


def list_true_conditions(status: PodGangStatus) -> set[str]:
    return {each.type for each in status.conditions if each.status == "True"}


def mark_scheduled(pod: Pod) -> Pod:
    return Pod(pod.metadata, replace(pod.spec, node_name="node"), pod.status)


def test_gang_without_pods_is_pending() -> None:
    replica = SimulatedReplica(A_SET)
    replica.converge()
    found = build_status(replica)
    assert found.phase == "Pending"
    assert list_true_conditions(found) == set()
    assert {each.type: each.reason for each in found.conditions} == {
        "Initialized": "PodGangPodsCreationPending",
        "Scheduled": "InsufficientScheduledPods",
        "Ready": "InsufficientReadyPods",
        "Unhealthy": "MinAvailableMet",
    }


def test_gang_with_all_of_its_pods_is_initialized() -> None:
    replica = SimulatedReplica(A_SET)
    replica.converge()
    replica.start_pods(ready=False)
    found = build_status(replica)
    assert found.phase == "Pending"
    assert list_true_conditions(found) == {"Initialized"}


def test_gang_is_starting_when_every_group_is_scheduled() -> None:
    replica = SimulatedReplica(A_SET)
    replica.converge()
    replica.start_pods(ready=False)
    replica.pods = [mark_scheduled(pod) for pod in replica.pods]
    found = build_status(replica)
    assert found.phase == "Starting"
    assert list_true_conditions(found) == {"Initialized", "Scheduled"}
    assert (found.last_scheduled, found.last_ready) == (seconds_ago(0), None)


def test_gang_is_running_when_every_group_is_ready() -> None:
    replica = start_replica(A_SET)
    found = build_status(replica)
    assert found.phase == "Running"
    assert list_true_conditions(found) == {"Initialized", "Scheduled", "Ready"}
    assert found.last_ready == seconds_ago(0)


def test_gang_needs_only_min_replicas() -> None:
    replica = start_replica(A_SET)
    first = next(pod for pod in replica.pods if pod.metadata.name.startswith("sys-0-a"))
    replica.pods.remove(first)
    found = build_status(replica)
    assert found.phase == "Running"
    assert list_true_conditions(found) == {"Scheduled", "Ready"}


def test_gang_below_min_replicas_is_unhealthy_and_pending_again() -> None:
    replica = start_replica(A_SET)
    build_status(replica)
    replica.lose_pods("sys-0-a")
    found = build_status(replica, later=30)
    assert found.phase == "Pending"
    assert list_true_conditions(found) == {"Unhealthy"}
    assert found.last_ready == seconds_ago(0), "when it last was"
    replica.start_pods()
    assert build_status(replica, later=60).last_ready == seconds_ago(-60)


def test_gang_never_available_is_not_unhealthy() -> None:
    replica = SimulatedReplica(A_SET)
    replica.converge()
    replica.report_clique_status("sys-0-a", breached=True, healthy=False)
    assert not is_condition_true(build_status(replica).conditions, "Unhealthy")


def test_each_gang_reports_only_its_own_pods() -> None:
    replica = start_replica(A_SET)
    replica.lose_pods("sys-0-x-1-b")
    assert build_status(replica, "sys-0").phase == "Running"
    assert build_status(replica, "sys-0-x-0").phase == "Pending"


@pytest.mark.parametrize(
    ("of_a", "of_b", "phase"),
    [
        ("Complete", "Complete", "Succeeded"),
        ("Complete", "Failed", "Failed"),
        ("Complete", None, "Running"),
    ],
)
def test_gang_phase_follows_completion_of_its_cliques(
    of_a: str, of_b: str | None, phase: str
) -> None:
    replica = start_replica(pod_clique_set(clique("a"), clique("b")))
    for name, condition in (("sys-0-a", of_a), ("sys-0-b", of_b)):
        if condition is not None:
            status = PodCliqueStatus(conditions=(Condition(condition, "True"),))
            replica.replace_parts("PodClique", name, status=status)
    assert build_status(replica).phase == phase


def test_conditions_of_the_scheduler_are_kept() -> None:
    replica = start_replica(A_SET)
    foreign = Condition("DisruptionTarget", "True", "PreemptedByScheduler", "", seconds_ago(5))
    status = PodGangStatus(conditions=(foreign,), placement_score=0.5)
    replica.replace_parts("PodGang", "sys-0", status=status)
    found = build_status(replica)
    assert find_condition(found.conditions, "DisruptionTarget") == foreign
    assert found.placement_score == 0.5


def test_idle_gang_has_an_unchanged_status() -> None:
    replica = start_replica(A_SET)
    assert build_status(replica) == build_status(replica, later=100)
