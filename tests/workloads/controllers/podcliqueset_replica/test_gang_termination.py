"""What is restarted after terminationDelay, and when."""

import pytest
from msgspec.structs import replace

from kilonova.api.grove import PodCliqueSet
from kilonova.api.meta import Condition
from kilonova.kube.status import with_condition
from kilonova.workloads.controllers.podcliqueset_replica.gang_termination import (
    RestartDecision,
    decide_restarts,
)
from kilonova.workloads.controllers.podcliqueset_replica.scaling_groups.state import (
    compute_group_states,
)
from kilonova.workloads.controllers.podcliqueset_replica.scaling_groups.status import (
    GANG_TERMINATION_IN_PROGRESS,
)
from kilonova.workloads.controllers.podcliqueset_replica.target_revision import (
    select_target_revision,
)
from tests.workloads.api_objects import clique, group, pod_clique_set
from tests.workloads.controllers.podcliqueset_replica.simulated_replica import (
    NOW,
    SimulatedReplica,
    list_incarnations,
    mark_deleted,
    seconds_ago,
    start_replica,
    with_updating_replicas,
)

DELAY = 600.0


def build_set(min_available: int = 1, delay: str | None = "10m") -> PodCliqueSet:
    return pod_clique_set(
        clique("a", 2, 1),
        clique("b"),
        clique("c", 3, 1),
        groups=[group("x", "b", "c", replicas=2, min_available=min_available)],
        termination_delay=delay,
    )


def decide_restart(replica: SimulatedReplica) -> RestartDecision:
    observed = replica.observe()
    revision = select_target_revision(observed)
    assert revision is not None
    return decide_restarts(observed, compute_group_states(observed, revision), NOW)


def build_group_replica(index: int) -> set[str]:
    return {f"sys-0-x-{index}-b", f"sys-0-x-{index}-c"}


def test_healthy_replica_is_not_restarted() -> None:
    assert decide_restart(start_replica(build_set())) == RestartDecision()


@pytest.mark.parametrize("short", [DELAY - 1, 0])
def test_breach_restarts_only_after_the_termination_delay(short: float) -> None:
    replica = start_replica(build_set())
    replica.lose_pods("sys-0-a", since=short)
    assert decide_restart(replica) == RestartDecision(requeue_after=DELAY - short)


def test_lost_standalone_clique_restarts_the_whole_replica() -> None:
    replica = start_replica(build_set())
    replica.lose_pods("sys-0-a", since=DELAY)
    found = decide_restart(replica)
    assert found.whole_replica
    assert found.cliques == set(replica.cliques)


def test_lost_group_replica_is_restarted_alone_while_enough_are_healthy() -> None:
    replica = start_replica(build_set())
    replica.lose_pods("sys-0-x-1-c", since=DELAY)
    assert decide_restart(replica) == RestartDecision(
        frozenset(build_group_replica(1)), (("sys-0-x", 1),)
    )


def test_group_replica_of_the_base_gang_is_restarted_alone_if_a_scaled_one_is_healthy() -> None:
    replica = start_replica(build_set())
    replica.lose_pods("sys-0-x-0-b", since=DELAY)
    assert decide_restart(replica).cliques == build_group_replica(0)


def test_too_few_group_replicas_restart_the_whole_replica() -> None:
    replica = start_replica(build_set())
    replica.lose_pods("sys-0-x-0-b", since=DELAY + 100)
    replica.lose_pods("sys-0-x-1-b", since=DELAY)
    assert decide_restart(replica).whole_replica


def test_group_is_breached_since_too_few_replicas_were_healthy() -> None:
    replica = start_replica(build_set())
    replica.lose_pods("sys-0-x-0-b", since=DELAY + 100)
    replica.lose_pods("sys-0-x-1-b", since=10)
    assert decide_restart(replica) == RestartDecision(requeue_after=DELAY - 10)


def test_group_replica_of_a_full_group_restarts_the_whole_replica() -> None:
    replica = start_replica(build_set(min_available=2))
    replica.lose_pods("sys-0-x-1-c", since=DELAY)
    assert decide_restart(replica).whole_replica


@pytest.mark.parametrize(("begun", "whole"), [(0.0, True), (DELAY + 1, False)])
def test_interrupted_restart_of_a_replica_is_completed(begun: float, whole: bool) -> None:
    """In a group that needs both replicas, the healthy one has been restarted."""
    replica = start_replica(build_set(min_available=2))
    replica.converge(cliques_to_restart=build_group_replica(0))
    for name in build_group_replica(0):
        replica.report_clique_status(name, breached=True, healthy=False)
    replica.lose_pods("sys-0-x-1-c", since=DELAY)
    condition = Condition(
        GANG_TERMINATION_IN_PROGRESS, "True", last_transition_time=seconds_ago(begun)
    )
    status = replace(replica.groups["sys-0-x"].status, conditions=(condition,))
    replica.replace_parts("PodCliqueScalingGroup", "sys-0-x", status=status)
    assert decide_restart(replica).whole_replica is whole


@pytest.mark.parametrize("done", range(6))
def test_restart_for_two_breached_cliques_is_completed_after_any_interruption(
    done: int,
) -> None:
    replica = start_replica(
        pod_clique_set(*(clique(name) for name in "abcdef"), termination_delay="10m"),
    )
    replica.lose_pods("sys-0-b", since=DELAY)
    replica.lose_pods("sys-0-e", since=10)
    plan = replica.plan(decide_restart(replica).cliques)
    waves = [each for wave in plan.patch_waves for each in wave]
    plan.patches = waves[:done]
    replica.apply_plan(plan)
    for name in [each.name for each in plan.patches]:
        replica.report_clique_status(name, breached=True, healthy=False)
    assert decide_restart(replica).whole_replica


def test_clique_never_available_is_not_restarted() -> None:
    replica = SimulatedReplica(build_set())
    replica.converge()
    for name in replica.cliques:
        replica.report_clique_status(name, breached=True, since=10 * DELAY, healthy=False)
    assert decide_restart(replica) == RestartDecision()


def test_scaled_group_replica_never_available_does_not_count_as_healthy() -> None:
    replica = start_replica(build_set())
    replica.report_clique_status("sys-0-x-1-b", breached=True, since=10 * DELAY, healthy=False)
    replica.lose_pods("sys-0-x-0-b", since=DELAY)
    assert decide_restart(replica).whole_replica


def test_restarted_clique_gets_time_to_become_available() -> None:
    replica = start_replica(build_set())
    replica.lose_pods("sys-0-a", since=DELAY)
    replica.converge(cliques_to_restart=decide_restart(replica).cliques)
    assert set(list_incarnations(replica).values()) == {1}
    assert decide_restart(replica) == RestartDecision()


def test_scaled_replicas_are_kept_by_a_restart() -> None:
    replica = start_replica(build_set())
    replica.scale("PodClique", "sys-0-a", 5)
    replica.scale("PodCliqueScalingGroup", "sys-0-x", 3)
    replica.converge()
    replica.start_pods()
    replica.lose_pods("sys-0-a", since=DELAY)
    replica.converge(cliques_to_restart=decide_restart(replica).cliques)
    assert replica.cliques["sys-0-a"].spec.replicas == 5
    assert replica.groups["sys-0-x"].spec.replicas == 3


def test_replica_that_is_being_updated_is_left_alone() -> None:
    replica = start_replica(build_set())
    replica.lose_pods("sys-0-a", since=DELAY)
    replica.set_ = with_updating_replicas(replica.set_, 0)
    assert decide_restart(replica) == RestartDecision()


def test_replica_that_lacks_a_clique_is_left_alone() -> None:
    replica = start_replica(pod_clique_set(clique("a"), clique("b"), termination_delay="10m"))
    replica.lose_pods("sys-0-a", since=DELAY)
    live = replica.cliques["sys-0-b"]
    replica.replace_parts("PodClique", "sys-0-b", metadata=mark_deleted(live.metadata))
    assert not decide_restart(replica).whole_replica


def test_delay_is_four_hours_by_default() -> None:
    replica = start_replica(build_set(delay=None))
    replica.lose_pods("sys-0-a", since=0)
    assert decide_restart(replica) == RestartDecision(requeue_after=4 * 3600.0)


def test_group_scaled_below_min_available_is_not_breached() -> None:
    replica = start_replica(build_set(min_available=2))
    replica.scale("PodCliqueScalingGroup", "sys-0-x", 1)
    replica.converge()
    assert decide_restart(replica) == RestartDecision()


def test_unknown_condition_is_no_breach() -> None:
    replica = start_replica(build_set())
    live = replica.cliques["sys-0-a"]
    unknown = tuple(replace(each, status="Unknown") for each in live.status.conditions)
    status = replace(live.status, conditions=unknown)
    replica.replace_parts("PodClique", "sys-0-a", status=status)
    assert decide_restart(replica) == RestartDecision()


def test_failed_clique_is_left_alone() -> None:
    replica = start_replica(build_set())
    replica.lose_pods("sys-0-a", since=DELAY)
    lost = replica.cliques["sys-0-a"]
    failed = with_condition(
        lost.status.conditions, Condition("Failed", "True", "BackoffLimitExceeded"), NOW
    )
    replica.cliques["sys-0-a"] = replace(lost, status=replace(lost.status, conditions=failed))
    assert decide_restart(replica) == RestartDecision()
