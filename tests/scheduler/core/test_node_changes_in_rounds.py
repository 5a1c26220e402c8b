"""Nodes come, go and change between two turns of a round in which capacity is reserved."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from kilonova.scheduler.core.cluster import Cluster
from kilonova.scheduler.core.gangs import Gang
from kilonova.scheduler.core.plan import Placement, Planner, Policy
from tests.scheduler.core.clusters import RACK, gang, group, node, shape, tight
from tests.scheduler.core.naive import check_counts, check_new_bookings, check_queues

POLICY = Policy((RACK,), evicts=False, reserve_after=300.0)


def job(name: str, pods: int, gpus: int, created: float, duration: float | None = None) -> Gang:
    wanted = gang(name, group(name, pods, of=shape(gpus)))
    return replace(wanted, created=created, duration=duration)


def half_used() -> Cluster:
    """Two nodes of four GPUs, one of which is in use until 5,000."""
    cluster = Cluster()
    for name in ("n0", "n1"):
        cluster.snapshot.put_node(node(name, 4))
    Planner(cluster, tight, POLICY).decide([job("running", 1, 4, 0.0, 5000.0)], 0.0)
    assert cluster.snapshot.bookings["ns/running-0"].row == 0
    return cluster


def round_after(
    cluster: Cluster, change: Callable[[Cluster], None], *later: Gang
) -> dict[str, Placement]:
    """What is placed when nodes change right after capacity was reserved for a gang that needs
    both nodes."""
    turn = Planner(cluster, tight, POLICY).begin([job("large", 2, 4, 0.0), *later], 1000.0)
    placed: dict[str, Placement] = {}
    for number, each in enumerate(turn.turns):
        outcome = turn.take_turn(each)
        if number == 0:
            assert each.name == "large"
            assert turn.reservation is not None
            change(cluster)
        if isinstance(outcome, Placement):
            placed[each.name] = outcome
            check_new_bookings(cluster.snapshot, outcome.bookings)
    check_counts(cluster.snapshot)
    check_queues(cluster)
    return placed


def nodes_of(cluster: Cluster, placement: Placement) -> set[str]:
    return {cluster.snapshot.names[booking.row] for booking in placement.bookings}


@pytest.mark.parametrize("pods", [1, 2])
def test_a_node_that_joins_is_used(pods: int) -> None:
    cluster = half_used()

    def join(cluster: Cluster) -> None:
        for name in ("n2", "n3"):
            cluster.snapshot.put_node(node(name, 4))

    placed = round_after(cluster, join, job("small", pods, 1, 900.0))
    assert nodes_of(cluster, placed["small"]) <= {"n2", "n3"}


def test_a_node_that_joins_is_kept_for_the_gang_that_it_lets_start() -> None:
    cluster = half_used()

    def join(cluster: Cluster) -> None:
        cluster.snapshot.put_node(node("n2", 4))

    assert not round_after(cluster, join, job("small", 1, 1, 900.0))
    again = Planner(cluster, tight, POLICY).decide([job("large", 2, 4, 0.0)], 1000.0)
    assert nodes_of(cluster, again.placements[0]) == {"n1", "n2"}


def test_a_node_in_the_row_of_another_does_not_inherit_its_reservation() -> None:
    cluster = half_used()

    def exchange(cluster: Cluster) -> None:
        cluster.snapshot.remove_node("n1")
        cluster.snapshot.put_node(node("other", 2))
        assert cluster.snapshot.row("other") == 1

    placed = round_after(cluster, exchange, job("small", 1, 1, 900.0))
    assert nodes_of(cluster, placed["small"]) == {"other"}


def test_nothing_is_reserved_on_a_node_that_went() -> None:
    cluster = half_used()

    def go(cluster: Cluster) -> None:
        cluster.snapshot.remove_node("n1")

    assert not round_after(cluster, go, job("small", 1, 1, 900.0), job("other", 2, 1, 901.0))


def test_a_node_that_shrank_is_not_filled_beyond_what_it_has() -> None:
    cluster = half_used()

    def shrink(cluster: Cluster) -> None:
        cluster.snapshot.put_node(node("n1", 2))

    placed = round_after(cluster, shrink, job("small", 1, 1, 900.0), job("other", 2, 1, 901.0))
    assert set(placed) == {"small"}


def test_an_equal_gang_that_was_refused_before_a_node_came_does_not_decide_for_the_next() -> None:
    cluster = half_used()

    def join(cluster: Cluster) -> None:
        for name in ("n2", "n3", "n4", "n5"):
            cluster.snapshot.put_node(node(name, 4))

    placed = round_after(cluster, join, job("second", 2, 4, 900.0))
    assert "second" in placed
