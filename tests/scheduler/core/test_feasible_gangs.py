"""A gang is placed exactly if an exhaustive search finds a place for it.

`KILONOVA_WORLDS` says how many small clusters are looked at (`make faults`: more of them): five
times as many, as one in five has a place for its gang. `KILONOVA_SEED` makes others.
"""

import os
from dataclasses import replace

from kilonova.scheduler.core.cluster import Cluster
from kilonova.scheduler.core.nodes import Node
from kilonova.scheduler.core.plan import Planner, Policy
from tests.scheduler.core.clusters import gang, group, node, shape, tight
from tests.scheduler.core.exact import Exact
from tests.scheduler.core.naive import check_counts, check_gang, check_new_bookings
from tests.scheduler.core.placement_worlds import LEVELS, world
from tests.scheduler.core.random_clusters import SCORING

WORLDS = 5 * int(os.environ.get("KILONOVA_WORLDS", "400"))
SEED = int(os.environ.get("KILONOVA_SEED", "1"))
POLICY = Policy(LEVELS, evicts=False, reserve_after=float("inf"))


def cluster_of(*nodes: Node) -> Cluster:
    cluster = Cluster()
    for each in nodes:
        cluster.snapshot.put_node(each)
    return cluster


def test_a_gang_is_placed_exactly_if_it_has_a_place() -> None:
    first = SEED * 1_000_000
    wrong: list[int] = []
    feasible = 0
    for seed in range(first, first + WORLDS):
        cluster, wanted = world(seed)
        has_place = Exact(cluster.snapshot, wanted).has_place()
        plan = Planner(cluster, SCORING, POLICY).decide([wanted], 0.0)
        for placement in plan.placements:
            check_gang(cluster.snapshot, placement)
            check_new_bookings(cluster.snapshot, placement.bookings)
        check_counts(cluster.snapshot)
        feasible += has_place
        if has_place != bool(plan.placements):
            wrong.append(seed)
    assert not wrong, f"of {WORLDS} worlds, those with these seeds"
    assert feasible > WORLDS / 10


def test_a_pod_that_may_use_one_node_keeps_that_for_itself() -> None:
    """Whichever of the two groups comes first by its size."""
    cluster = cluster_of(node("n0", 2, pool="b"), node("n4", 2))
    leader = group("leader", 1, of=replace(shape(1), selector=(("pool", "b"),)))
    placed = Planner(cluster, tight, POLICY).decide(
        [gang("g", leader, group("worker", 1, of=shape(2)))], 0.0
    )
    rows = {booking.pod: booking.row for booking in placed.placements[0].bookings}
    assert rows == {"ns/leader-0": 0, "ns/worker-0": 1}


def test_small_pods_leave_a_node_to_a_large_one() -> None:
    cluster = cluster_of(node("n0", 1), node("n1", 4))
    wanted = gang("g", group("w", 3), group("l", 1, of=shape(2)))
    assert Planner(cluster, tight, POLICY).decide([wanted], 0.0).placements
