"""When a gang fits if running gangs end as expected."""

from dataclasses import replace
from random import Random

import pytest

from kilonova.catalog.resource_names import GPU
from kilonova.scheduler.core.backfill.shadow import EarliestFit, expected_end, find_earliest_fit
from kilonova.scheduler.core.filters.feasibility import FeasibilityCache
from kilonova.scheduler.core.model.cluster import Cluster
from kilonova.scheduler.core.planner import Planner
from kilonova.scheduler.core.scheduling_cycle import PlannerPolicy
from tests.scheduler.core.support.clusters import gang, group, node, placer, snapshot_of, tight


def build_running_cluster(count: int) -> Cluster:
    """One node full of single-pod gangs that end one after the other, g1 at 10, g2 at 20 …"""
    cluster = Cluster()
    cluster.snapshot.put_node(node("n", count))
    jobs = [
        replace(gang(f"g{i}", group(f"g{i}", 1)), duration=10.0 * i) for i in range(1, count + 1)
    ]
    Planner(cluster, tight, PlannerPolicy()).schedule(jobs, 0)
    return cluster


@pytest.mark.parametrize("pods", range(1, 17))
def test_fewest_gangs_end_before_fit(pods: int) -> None:
    cluster = build_running_cluster(16)
    fit = find_earliest_fit(cluster, placer(cluster.snapshot), gang("x", group("x", pods)), 0)
    assert fit == EarliestFit(10.0 * pods, tuple(f"g{i}" for i in range(1, pods + 1)))
    assert len(cluster.snapshot.placements) == 16


def test_fit_is_now_when_feasible_and_none_when_impossible() -> None:
    cluster = build_running_cluster(4)
    cluster.snapshot.put_node(node("m", 1))
    place = placer(cluster.snapshot)
    assert find_earliest_fit(cluster, place, gang("x", group("x", 1)), 3) == EarliestFit(3, ())
    assert find_earliest_fit(cluster, place, gang("x", group("x", 6)), 3) is None


def test_search_stops_at_pod_limit() -> None:
    cluster = build_running_cluster(64)
    place = placer(cluster.snapshot)
    assert find_earliest_fit(cluster, place, gang("x", group("x", 60)), 0, max_pods=10) is None
    assert find_earliest_fit(cluster, place, gang("x", group("x", 10)), 0, max_pods=10) is not None


def test_nodes_of_copy_are_independent() -> None:
    snapshot = snapshot_of(node("a", rack="r0"), node("b", rack="r1"))
    labels = snapshot.labels.column("example.com/rack").codes.tolist()
    copied = snapshot.copy()
    copied.put_node(node("c", 2, rack="r2"))
    copied.put_node(node("b", 1, rack="r0"))
    copied.remove_node("a")
    assert [each.name for each in snapshot.nodes()] == ["a", "b"]
    assert snapshot.allocatable[snapshot.resources[GPU], :2].tolist() == [8, 8]
    assert snapshot.labels.column("example.com/rack").codes.tolist() == labels
    assert FeasibilityCache(snapshot, tight).free_capacity(
        group("x", 1).members[0].shape
    ).tolist() == [8, 8]


def test_gangs_end_ordered_by_time_and_name() -> None:
    dice = Random(14)
    cluster = Cluster()
    for number in range(4):
        cluster.snapshot.put_node(node(f"n{number}", 100, 1_000_000))
    names = [f"g{number:03}" for number in range(400)]
    dice.shuffle(names)
    for name in names:
        duration = dice.choice((None, 10.0, 2000.0, 3000.0))
        job = replace(gang(name, group(name, 1)), duration=duration)
        Planner(cluster, tight, PlannerPolicy()).schedule([job], dice.choice((0.0, 100.0, 900.0)))
    now = 1000.0
    order = sorted((expected_end(one, now), name) for name, one in cluster.running_gangs.items())
    place = placer(cluster.snapshot)
    for pods in (1, 63, 64, 65, 200, 399, 400):
        fit = find_earliest_fit(cluster, place, gang("x", group("x", pods)), now)
        assert fit == EarliestFit(order[pods - 1][0], tuple(name for _, name in order[:pods]))
