"""A gang is placed exactly if an exhaustive search finds a placement.

`KILONOVA_WORLDS` is the number of random clusters (`make faults`: more of them), times five, as the
gang fits in one of five. `KILONOVA_SEED` changes the seed.
"""

import os
from dataclasses import replace

import pytest

from kilonova.scheduler.core.model.cluster import Cluster
from kilonova.scheduler.core.model.nodes import Node
from kilonova.scheduler.core.planner import Planner
from kilonova.scheduler.core.scheduling_cycle import PlannerPolicy
from tests.scheduler.core.support.clusters import gang, group, node, shape, tight
from tests.scheduler.core.support.exhaustive_placement import ExhaustiveSearch
from tests.scheduler.core.support.placement_cases import LEVELS, placement_case
from tests.scheduler.core.support.random_clusters import SCORING
from tests.scheduler.core.support.reference_model import (
    check_counts,
    check_gang,
    check_new_placements,
)

CASES = 5 * int(os.environ.get("KILONOVA_WORLDS", "120"))
SEED = int(os.environ.get("KILONOVA_SEED", "1"))
POLICY = PlannerPolicy(LEVELS, preemption_enabled=False, reserve_after=float("inf"))


def cluster_of(*nodes: Node) -> Cluster:
    cluster = Cluster()
    for each in nodes:
        cluster.snapshot.put_node(each)
    return cluster


@pytest.mark.campaign
def test_gang_is_placed_exactly_if_feasible() -> None:
    first = SEED * 1_000_000
    wrong: list[int] = []
    feasible = 0
    for seed in range(first, first + CASES):
        cluster, wanted = placement_case(seed)
        has_place = ExhaustiveSearch(cluster.snapshot, wanted).can_place()
        plan = Planner(cluster, SCORING, POLICY).schedule([wanted], 0.0)
        for placement in plan.placements:
            check_gang(cluster.snapshot, placement)
            check_new_placements(cluster.snapshot, placement.pods)
        check_counts(cluster.snapshot)
        feasible += has_place
        if has_place != bool(plan.placements):
            wrong.append(seed)
    assert not wrong, f"of {CASES} worlds, those with these seeds"
    assert feasible > CASES / 10


def test_pod_with_one_feasible_node_gets_it() -> None:
    """Independent of which of the two groups comes first by its size."""
    cluster = cluster_of(node("n0", 2, pool="b"), node("n4", 2))
    leader = group("leader", 1, of=replace(shape(1), node_selector=(("pool", "b"),)))
    placed = Planner(cluster, tight, POLICY).schedule(
        [gang("g", leader, group("worker", 1, of=shape(2)))], 0.0
    )
    rows = {placement.pod: placement.row for placement in placed.placements[0].pods}
    assert rows == {"ns/leader-0": 0, "ns/worker-0": 1}


def test_small_pods_leave_a_node_to_a_large_one() -> None:
    cluster = cluster_of(node("n0", 1), node("n1", 4))
    wanted = gang("g", group("w", 3), group("l", 1, of=shape(2)))
    assert Planner(cluster, tight, POLICY).schedule([wanted], 0.0).placements
