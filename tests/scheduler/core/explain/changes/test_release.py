"""The pods proposed for eviction: never more than an exhaustive search over all sets of pods finds,
and the gang fits without them.

`KILONOVA_WORLDS` is the number of random clusters (`make faults`: more of them).
"""

import os
from dataclasses import dataclass, replace
from itertools import combinations
from random import Random

import pytest

from kilonova.scheduler.core.decisions import InsufficientCapacity
from kilonova.scheduler.core.explain import Explanation, explain
from kilonova.scheduler.core.explain.changes.change import FreeCapacity
from kilonova.scheduler.core.explain.changes.proposals import MAX_PROPOSALS
from kilonova.scheduler.core.gpu.layout import GpuShare
from kilonova.scheduler.core.model.cluster import Cluster
from kilonova.scheduler.core.model.gangs import Gang, Group, Member, PackConstraint
from kilonova.scheduler.core.model.pod_placement import PodPlacement
from kilonova.scheduler.core.model.requests import Shape
from kilonova.scheduler.core.planner import Planner
from kilonova.scheduler.core.scheduling_cycle import PlannerPolicy
from tests.scheduler.core.support.clusters import BLOCK, RACK, gang, group, node, shape, tight
from tests.scheduler.core.support.unschedulable_gangs import apply_change, cluster_of, job

CASE_COUNT = int(os.environ.get("KILONOVA_WORLDS", "120"))
POLICY = PlannerPolicy((BLOCK, RACK), preemption_enabled=False, reserve_after=1e9)
SHAPES = (
    shape(1),
    shape(1),
    shape(2),
    shape(4),
    shape(1, milli=300),
    shape(1, milli=500),
    shape(0, 500),
    shape(0, 2000),
    shape(0, 6000),
)
PACKS = (
    PackConstraint(),
    PackConstraint(),
    PackConstraint(),
    PackConstraint(required=RACK),
    PackConstraint(required=BLOCK),
)


@dataclass(frozen=True)
class RandomCase:
    """Nodes with running gangs, built again on every call, and a pending gang."""

    seed: int

    def build(self) -> tuple[Cluster, Gang]:
        dice = Random(self.seed)
        nodes = [
            node(
                f"n{index}",
                dice.choice((1, 2, 4)),
                dice.choice((4000, 8000)),
                rack=f"r{dice.randint(0, 1)}",
                block="b0",
            )
            for index in range(dice.randint(1, 4))
        ]
        running = [
            gang(f"r{index}", group(f"r{index}", dice.randint(1, 2), of=dice.choice(SHAPES)))
            for index in range(dice.randint(1, 6))
        ]
        groups = tuple(
            group(
                f"w{index}",
                dice.randint(1, 3),
                of=dice.choice(SHAPES),
                pack=dice.choice(PACKS),
            )
            for index in range(dice.randint(1, 2))
        )
        return cluster_of(nodes, running=running), Gang("x", groups, dice.choice(PACKS))


def is_placed_without(cluster: Cluster, pods: tuple[str, ...], pending: Gang) -> bool:
    trial = cluster.snapshot.begin_trial()
    cluster.snapshot.remove_pods(list(pods))
    placed = Planner(cluster, tight, POLICY).plan([pending], 10.0).placements
    cluster.snapshot.rollback(trial)
    return bool(placed)


def find_fewest(cluster: Cluster, pending: Gang, fewer_than: int) -> tuple[str, ...] | None:
    """The smallest set of pods without which the gang fits, by trying all of them."""
    pods = sorted(cluster.snapshot.placements)
    for size in range(1, fewer_than):
        for chosen in combinations(pods, size):
            if is_placed_without(cluster, chosen, pending):
                return chosen
    return None


def list_proposed(found: Explanation) -> list[FreeCapacity]:
    return [each.change for each in found.changes if isinstance(each.change, FreeCapacity)]


@pytest.mark.campaign
def test_proposed_release_is_smallest() -> None:
    several = 0
    for seed in range(CASE_COUNT):
        cluster, pending = RandomCase(seed).build()
        plan = Planner(cluster, tight, POLICY).plan([pending], 10.0)
        if not plan.unschedulable:
            continue
        found = explain(cluster, tight, POLICY, pending, plan.unschedulable[0].reason, 10.0)
        changes = list_proposed(found)
        if not changes and len(found.changes) < MAX_PROPOSALS:
            assert find_fewest(cluster, pending, 4) is None, f"case {seed}: {found.changes}"
        for change in changes:
            smaller = find_fewest(cluster, pending, len(change.pods))
            assert smaller is None, f"case {seed}: {change.pods}, and {smaller} would do"
            changed, now = apply_change(change, cluster, (), pending, 10.0)
            placed = Planner(cluster, tight, POLICY).schedule([changed], now).placements
            assert [each.gang.name for each in placed] == ["x"], f"case {seed}: {change}"
            several += len(change.pods) > 1
    assert several > CASE_COUNT / 40


def place_pod(cluster: Cluster, name: str, node: str, of: Shape, *devices: GpuShare) -> None:
    member = Member(f"ns/{name}", of)
    one = Gang(name, (Group("g", (), 1, placed_nodes=(node,), placed_members=(member,)),))
    placement = PodPlacement(member, cluster.snapshot.row(node), devices, name)
    cluster.snapshot.add_pods([placement])
    cluster.record_placed(one, [placement], 0.0)


def test_one_pod_is_released_where_it_frees_enough() -> None:
    cluster = cluster_of([node(f"n{index}", 0, 2000) for index in range(3)])
    for index in range(3):
        place_pod(cluster, f"s{index}", f"n{index}", shape(0, 2000))
    pending = gang("x", group("x", 3, of=shape(0, 500)))
    found = explain(cluster, tight, POLICY, pending, InsufficientCapacity(), 10.0)
    assert found.changes[0].cost == 1
    assert found.changes[0].text == "free 2 cpu on node n0, now used by s0"


def test_gpu_shares_are_reported_as_fractions() -> None:
    cluster = cluster_of([node("n0", 1)])
    place_pod(cluster, "s", "n0", shape(1, milli=500), GpuShare(0, 500))
    pending = gang("x", group("x", 3, of=shape(1, milli=300)))
    found = explain(cluster, tight, POLICY, pending, InsufficientCapacity(), 10.0)
    assert found.blocking_constraint.text == (
        "group x needs 3 pods, but only 1 fit: 0.6 more nvidia.com/gpu are needed"
    )
    assert found.blocking_constraint.missing == 0.6
    assert found.changes[0].text == "free 0.5 nvidia.com/gpu on node n0, now used by s"


def test_elastic_gang_does_not_release_its_own_pods() -> None:
    cluster = cluster_of([node("n0", 2)], running=[replace(job("x", 2), duration=100.0)])
    placed = cluster.running_gangs["x"].gang.groups[0].members
    more = Group(
        "x", (Member("ns/x-9", shape(1)),), 2, placed_nodes=("n0", "n0"), placed_members=placed
    )
    found = explain(cluster, tight, POLICY, gang("x", more), InsufficientCapacity(), 10.0)
    assert found.expected_start is None
    assert [each.text for each in found.changes] == ["add 1 node like n0"]
