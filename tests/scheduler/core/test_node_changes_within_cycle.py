"""Nodes are added, removed and changed between two gangs of a cycle with a backfill reservation."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from kilonova.scheduler.core.decisions import GangPlacement
from kilonova.scheduler.core.model.cluster import Cluster
from kilonova.scheduler.core.model.gangs import Gang
from kilonova.scheduler.core.planner import Planner
from kilonova.scheduler.core.scheduling_cycle import PlannerPolicy
from tests.scheduler.core.support.clusters import RACK, gang, group, node, shape, tight
from tests.scheduler.core.support.reference_model import (
    check_counts,
    check_new_placements,
    check_queues,
)

POLICY = PlannerPolicy((RACK,), preemption_enabled=False, reserve_after=300.0)


def job(name: str, pods: int, gpus: int, created: float, duration: float | None = None) -> Gang:
    wanted = gang(name, group(name, pods, of=shape(gpus)))
    return replace(wanted, created=created, duration=duration)


def half_used_cluster() -> Cluster:
    """Two nodes of four GPUs, one of which is in use until 5,000."""
    cluster = Cluster()
    for name in ("n0", "n1"):
        cluster.snapshot.put_node(node(name, 4))
    Planner(cluster, tight, POLICY).schedule([job("running", 1, 4, 0.0, 5000.0)], 0.0)
    assert cluster.snapshot.placements["ns/running-0"].row == 0
    return cluster


def plan_with_change(
    cluster: Cluster, change: Callable[[Cluster], None], *later: Gang
) -> dict[str, GangPlacement]:
    """What is placed when nodes change right after capacity was reserved for a gang that needs both
    nodes."""
    cycle = Planner(cluster, tight, POLICY).begin_cycle([job("large", 2, 4, 0.0), *later], 1000.0)
    placed: dict[str, GangPlacement] = {}
    for number, each in enumerate(cycle.gangs_in_order):
        outcome = cycle.schedule_gang(each)
        if number == 0:
            assert each.name == "large"
            assert cycle.backfill_reservation is not None
            change(cluster)
        if isinstance(outcome, GangPlacement):
            placed[each.name] = outcome
            check_new_placements(cluster.snapshot, outcome.pods)
    check_counts(cluster.snapshot)
    check_queues(cluster)
    return placed


def nodes_of(cluster: Cluster, placement: GangPlacement) -> set[str]:
    return {cluster.snapshot.names[pod_placement.row] for pod_placement in placement.pods}


@pytest.mark.parametrize("pods", [1, 2])
def test_added_node_is_used(pods: int) -> None:
    cluster = half_used_cluster()

    def join(cluster: Cluster) -> None:
        for name in ("n2", "n3"):
            cluster.snapshot.put_node(node(name, 4))

    placed = plan_with_change(cluster, join, job("small", pods, 1, 900.0))
    assert nodes_of(cluster, placed["small"]) <= {"n2", "n3"}


def test_added_node_is_reserved_for_the_gang_it_admits() -> None:
    cluster = half_used_cluster()

    def join(cluster: Cluster) -> None:
        cluster.snapshot.put_node(node("n2", 4))

    assert not plan_with_change(cluster, join, job("small", 1, 1, 900.0))
    again = Planner(cluster, tight, POLICY).schedule([job("large", 2, 4, 0.0)], 1000.0)
    assert nodes_of(cluster, again.placements[0]) == {"n1", "n2"}


def test_reused_row_does_not_inherit_reservation() -> None:
    cluster = half_used_cluster()

    def exchange(cluster: Cluster) -> None:
        cluster.snapshot.remove_node("n1")
        cluster.snapshot.put_node(node("other", 2))
        assert cluster.snapshot.row("other") == 1

    placed = plan_with_change(cluster, exchange, job("small", 1, 1, 900.0))
    assert nodes_of(cluster, placed["small"]) == {"other"}


def test_removed_node_is_not_reserved() -> None:
    cluster = half_used_cluster()

    def go(cluster: Cluster) -> None:
        cluster.snapshot.remove_node("n1")

    assert not plan_with_change(cluster, go, job("small", 1, 1, 900.0), job("other", 2, 1, 901.0))


def test_shrunk_node_is_not_overcommitted() -> None:
    cluster = half_used_cluster()

    def shrink(cluster: Cluster) -> None:
        cluster.snapshot.put_node(node("n1", 2))

    placed = plan_with_change(cluster, shrink, job("small", 1, 1, 900.0), job("other", 2, 1, 901.0))
    assert set(placed) == {"small"}


def test_rejection_before_added_node_does_not_apply_to_equal_gang() -> None:
    cluster = half_used_cluster()

    def join(cluster: Cluster) -> None:
        for name in ("n2", "n3", "n4", "n5"):
            cluster.snapshot.put_node(node(name, 4))

    placed = plan_with_change(cluster, join, job("second", 2, 4, 900.0))
    assert "second" in placed
