"""No gang costs more than its budget: it is unschedulable with that reason, and others are
placed."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from kilonova.scheduler.core.decisions import InsufficientCapacity, Plan, UnschedulableGang
from kilonova.scheduler.core.dra.claims import (
    AttributeConstraint,
    ClaimRequest,
    Device,
    DeviceAttribute,
    DeviceId,
    DeviceRequestOption,
)
from kilonova.scheduler.core.dra.inventory import DevicePool
from kilonova.scheduler.core.explain import explain
from kilonova.scheduler.core.filters.feasibility import Counts, FeasibilityCache
from kilonova.scheduler.core.model.cluster import Cluster
from kilonova.scheduler.core.model.gangs import Gang, Group, Member
from kilonova.scheduler.core.model.nodes import Node
from kilonova.scheduler.core.model.pod_affinity import AffinityTerm, PodAffinityRules, PodSelector
from kilonova.scheduler.core.model.requests import Shape
from kilonova.scheduler.core.placement.backtracking_search import search_placement
from kilonova.scheduler.core.planner import Planner
from kilonova.scheduler.core.scheduling_cycle import PlannerPolicy
from kilonova.scheduler.core.search_budget import SearchBudget
from kilonova.scheduler.core.topology.gang_tree import build_gang_tree
from kilonova.scheduler.status.results import rejection_reason
from tests.scheduler.core.support.clusters import gang as plain_gang
from tests.scheduler.core.support.clusters import group, node, tight
from tests.scheduler.core.support.clusters import shape as plain_shape

DRIVER = "gpu.example.com"
POLICY = PlannerPolicy(preemption_enabled=False, reserve_after=float("inf"))
ONE = ClaimRequest(((DeviceRequestOption("gpu"),),))


def cluster_of(nodes: int, devices: int, *, cpu: int = 8000) -> Cluster:
    """Equal nodes with a number of claimable devices each."""
    cluster = Cluster()
    snapshot = cluster.snapshot
    for index in range(nodes):
        name = f"n{index:02d}"
        snapshot.put_node(node(name, 0, cpu))
        ids = (DeviceId(DRIVER, name, f"gpu-{each}") for each in range(devices))
        pool = DevicePool(tuple(Device(id, name) for id in ids), nodes=frozenset({name}))
        snapshot.put_pool((DRIVER, name), pool)
    return cluster


def sharing(name: str, pods: int, claims: Sequence[str], *, cpu: int, memory: int = 0) -> Group:
    """Pods that all use the same claims."""
    requests = tuple(replace(ONE, name=f"ns/{claim}") for claim in claims)
    shape = Shape((("cpu", cpu), ("memory", memory), ("pods", 1)), claims=requests)
    names = tuple(f"ns/{claim}" for claim in claims)
    members = tuple(Member(f"ns/{name}-{each}", shape, claims=names) for each in range(pods))
    return Group(name, members, pods)


def other() -> Gang:
    return plain_gang("other", group("other", 1, of=plain_shape(0, 500)))


def schedule_all(cluster: Cluster, *gangs: Gang) -> Plan:
    return Planner(cluster, tight, POLICY).schedule(gangs, 0.0)


def only_unschedulable(plan: Plan) -> UnschedulableGang:
    (unschedulable,) = plan.unschedulable
    return unschedulable


SIX = [f"c{each}" for each in range(6)]


def test_pods_with_six_shared_claims_are_placed_where_both_fit() -> None:
    cluster = cluster_of(20, 6, cpu=6000)
    cluster.snapshot.put_node(node("n13", 0, 8000))
    plan = schedule_all(cluster, Gang("g", (sharing("g", 2, SIX, cpu=4000),)), other())
    assert [placement.gang.name for placement in plan.placements] == ["g", "other"]
    rows = {pod_placement.row for pod_placement in plan.placements[0].pods}
    assert [cluster.snapshot.names[row] for row in rows] == ["n13"]


def test_infeasible_shared_claims_are_rejected_soon() -> None:
    cluster = cluster_of(20, 6, cpu=6000)
    plan = schedule_all(cluster, Gang("g", (sharing("g", 2, SIX, cpu=4000),)), other())
    assert [placement.gang.name for placement in plan.placements] == ["other"]
    assert only_unschedulable(plan).reason == InsufficientCapacity()


def test_gang_exceeding_search_budget_is_reported_and_others_are_placed() -> None:
    """Four pairs fit anywhere, and the last one, which comes last by its size, nowhere."""
    cluster = cluster_of(20, 6)
    pairs = [sharing(f"p{each}", 2, [f"p{each}"], cpu=1000) for each in range(4)]
    last = sharing("last", 2, ["last"], cpu=500, memory=200 << 30)
    wanted = Gang("g", (*pairs, last))
    plan = schedule_all(cluster, wanted, other())
    assert [placement.gang.name for placement in plan.placements] == ["other"]
    unschedulable = only_unschedulable(plan)
    assert unschedulable.reason == InsufficientCapacity(search_exceeded=True)
    assert rejection_reason(unschedulable.reason) == "SearchBudgetExceeded"
    found = explain(cluster, tight, POLICY, wanted, unschedulable.reason, 0.0)
    assert found.blocking_constraint.kind == "SearchBudgetExceeded"
    assert "search budget was exceeded" in found.message


def test_equal_gangs_get_same_reason() -> None:
    cluster = cluster_of(20, 6)

    def gang(name: str) -> Gang:
        pairs = [sharing(f"p{each}", 2, [f"p{each}"], cpu=1000) for each in range(4)]
        return Gang(name, (*pairs, sharing("last", 2, ["last"], cpu=500, memory=200 << 30)))

    first, second = gang("a"), gang("b")
    second = replace(
        second,
        groups=tuple(
            replace(each, members=tuple(replace(m, pod=f"{m.pod}-b") for m in each.members))
            for each in second.groups
        ),
    )
    plan = schedule_all(cluster, first, second)
    assert [unschedulable.reason for unschedulable in plan.unschedulable] == [
        InsufficientCapacity(search_exceeded=True)
    ] * 2


def test_too_many_anti_affinity_pods_are_rejected_without_search() -> None:
    cluster = cluster_of(8, 0)
    rule = AffinityTerm(PodSelector(None, ()), "metadata.name")
    shape = replace(plain_shape(0, 500), pod_rules=PodAffinityRules(anti_affinity=(rule,)))
    plan = schedule_all(cluster, plain_gang("g", group("g", 10, of=shape)), other())
    assert [placement.gang.name for placement in plan.placements] == ["other"]
    assert only_unschedulable(plan).reason == InsufficientCapacity()


def coloured(nodes: int, *colours: int) -> Cluster:
    """Equal nodes with a number of devices of each colour, all of them distinguishable."""
    cluster = Cluster()
    snapshot = cluster.snapshot
    numbered = [colour for colour, count in enumerate(colours) for _ in range(count)]
    for index in range(nodes):
        name = f"n{index:02d}"
        snapshot.put_node(node(name, 0))
        devices = tuple(
            Device(
                DeviceId(DRIVER, name, f"gpu-{number}"),
                name,
                attributes={
                    "colour": DeviceAttribute("int", colour),
                    "number": DeviceAttribute("int", number),
                },
            )
            for number, colour in enumerate(numbered)
        )
        pool = DevicePool(devices, nodes=frozenset({name}))
        snapshot.put_pool((DRIVER, name), pool)
    return cluster


def of_one_colour(count: int) -> Member:
    """A pod that claims a number of devices of one colour."""
    requests = tuple((DeviceRequestOption(f"r{each}"),) for each in range(count))
    request = ClaimRequest(
        requests, (AttributeConstraint("colour"), AttributeConstraint("number", distinct=True))
    )
    return Member("ns/hard", Shape((("cpu", 1000), ("pods", 1)), claims=(request,)), claims=("c",))


def test_device_search_over_budget_is_abandoned_on_all_nodes() -> None:
    wanted = Gang("hard", (Group("hard", (of_one_colour(13),), 1),))
    plan = schedule_all(coloured(20, 12, 12), wanted, other())
    assert [placement.gang.name for placement in plan.placements] == ["other"]
    assert only_unschedulable(plan).reason == InsufficientCapacity(search_exceeded=True)


def test_abandoned_search_is_retried_with_next_budget() -> None:
    snapshot, member = coloured(2, 5, 6).snapshot, of_one_colour(6)
    feasibility = FeasibilityCache(snapshot, tight)
    assert snapshot.claims.budget.spend(20_000)
    assert feasibility.free_capacity(member.shape).tolist() == [0, 0]
    assert snapshot.claims.budget.exceeded
    snapshot.claims.renew_budget()
    assert feasibility.free_capacity(member.shape).tolist() == [1, 1]
    assert feasibility.best_row(member.shape) == 0


@pytest.mark.parametrize("claims", [20, 600])
def test_pod_with_very_many_claims_is_scheduled_or_rejected(claims: int) -> None:
    cluster = cluster_of(1, 30)
    member = Member(
        "ns/many",
        Shape((("cpu", 1000), ("pods", 1)), claims=(ONE,) * claims),
        claims=tuple(f"ns/{each}" for each in range(claims)),
    )
    plan = schedule_all(cluster, Gang("many", (Group("many", (member,), 1),)))
    assert bool(plan.placements) == (claims == 20)


def uneven(nodes: int, fillers: int) -> tuple[Cluster, Gang]:
    """Nodes that all differ, and a gang whose leader must use one of two nodes, so that the greedy
    attempt finds no placement for its worker."""
    cluster = Cluster()
    for name, labels in (("a0", {"pool": "b"}), ("a1", {})):
        cluster.snapshot.put_node(Node(name, {"cpu": 2000, "pods": 110}, labels))
    for index in range(nodes):
        cluster.snapshot.put_node(Node(f"n{index:05}", {"cpu": 1000 + index, "pods": 110}, {}))

    def of(name: str, pods: int, cpu: int, **selector: str) -> Group:
        shape = Shape((("cpu", cpu), ("pods", 1)), node_selector=tuple(selector.items()))
        return Group(name, tuple(Member(f"ns/{name}{n}", shape) for n in range(pods)), pods)

    groups = of("worker", 1, 2000), of("leader", 1, 1000, pool="b"), of("fill", fillers, 999)
    return cluster, Gang("g", groups)


@pytest.mark.parametrize(("nodes", "fillers"), [(990, 250), (2000, 120)])
def test_large_gang_is_placed_on_heterogeneous_nodes(nodes: int, fillers: int) -> None:
    cluster, gang = uneven(nodes, fillers)
    assert len(schedule_all(cluster, gang).placements) == 1


def test_search_ends_with_its_budget_regardless_of_next_cost() -> None:
    """Each pod examines all nodes: in total far more than a budget allows."""
    cluster, gang = uneven(400, 200)
    snapshot, budget = cluster.snapshot, CountingBudget(500)
    rows = np.flatnonzero(snapshot.alive[: snapshot.size])
    assert (
        search_placement(
            snapshot, FeasibilityCache(snapshot, tight), build_gang_tree(gang), rows, "g", budget
        )
        is None
    )
    assert budget.exceeded
    assert budget.rejected_steps == 1


def test_no_search_starts_with_spent_budget() -> None:
    cluster, gang = uneven(10, 2)
    snapshot, budget = cluster.snapshot, CountingBudget(500)
    assert not budget.spend(501)
    rows = np.flatnonzero(snapshot.alive[: snapshot.size])
    assert (
        search_placement(
            snapshot,
            ForbiddenFeasibility(snapshot, tight),
            build_gang_tree(gang),
            rows,
            "g",
            budget,
        )
        is None
    )
    assert budget.rejected_steps == 1


class CountingBudget(SearchBudget):
    """Counts requests beyond the budget."""

    rejected_steps = 0

    def spend(self, steps: int = 1) -> bool:
        paid = super().spend(steps)
        self.rejected_steps += not paid
        return paid


class ForbiddenFeasibility(FeasibilityCache):
    """A feasibility cache that must not be used."""

    def free_capacity(self, shape: Shape) -> Counts:
        raise AssertionError("nodes are looked at")


def test_renewed_reservation_does_not_use_budget_of_next_gang() -> None:
    """The node of a reservation shrinks: finding no other one exceeds a budget."""
    cluster = cluster_of(20, 6)
    small = node("n13", 0, 8000)
    large = replace(small, allocatable={**small.allocatable, "memory": 800 << 30})
    cluster.snapshot.put_node(large)
    pairs = [sharing(f"p{each}", 2, [f"p{each}"], cpu=1000) for each in range(4)]
    last = sharing("last", 2, ["last"], cpu=500, memory=200 << 30)
    hog = plain_gang("hog", group("hog", 1, of=Shape((("cpu", 900), ("memory", 600 << 30)))))
    policy = replace(POLICY, reserve_after=0.0)
    planner = Planner(cluster, tight, policy)
    assert planner.schedule([replace(hog, duration=50.0)], 0.0).placements
    next_one = plain_gang("next", group("next", 2, of=plain_shape(0, 9000)))
    pending = Gang("g", (*pairs, last)), replace(next_one, created=1.0)
    queue = planner.begin_cycle(pending, 10.0)
    for each in queue.gangs_in_order:
        if each.name == "next":
            assert queue.backfill_reservation is not None
            cluster.snapshot.put_node(small)
        queue.schedule_gang(each)
    assert [each.gang.name for each in queue.unschedulable] == ["g", "next"]
    assert queue.unschedulable[1].reason == InsufficientCapacity()
