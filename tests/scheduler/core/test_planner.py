"""Whole scheduling cycles: queues, evictions, backfill reservations."""

from dataclasses import replace

import pytest

from kilonova.catalog.resource_names import GPU
from kilonova.scheduler.core.decisions import InsufficientCapacity, Plan
from kilonova.scheduler.core.equivalence import equivalence_key
from kilonova.scheduler.core.model.cluster import Cluster
from kilonova.scheduler.core.model.gangs import Gang, GangAntiAffinity, Member, PackConstraint
from kilonova.scheduler.core.model.pod_affinity import AffinityTerm, PodAffinityRules, PodSelector
from kilonova.scheduler.core.planner import Planner
from kilonova.scheduler.core.queueing.forest import build_queue_forest
from kilonova.scheduler.core.queueing.ledger import LimitExceeded
from kilonova.scheduler.core.queueing.queues import QueueProblem, QueueSpec
from kilonova.scheduler.core.scheduling_cycle import PlannerPolicy
from tests.scheduler.core.support.clusters import BLOCK, RACK, gang, group, node, shape, tight
from tests.scheduler.core.support.pending_gangs import list_pending

HOSTNAME = "kubernetes.io/hostname"
NO_BACKFILL = PlannerPolicy((BLOCK, RACK), reserve_after=1e9)
IMMEDIATE_BACKFILL = PlannerPolicy((BLOCK, RACK), reserve_after=0)


def cluster_of(count: int, *queues: QueueSpec, gpus: int = 8) -> Cluster:
    cluster = Cluster(build_queue_forest(queues))
    for index in range(count):
        cluster.snapshot.put_node(node(f"n{index}", gpus, rack=f"r{index // 2}"))
    return cluster


def planner(cluster: Cluster, policy: PlannerPolicy = NO_BACKFILL) -> Planner:
    return Planner(cluster, tight, policy)


def placed_gangs(plan: Plan) -> list[str]:
    return [placement.gang.name for placement in plan.placements]


def rejection_reasons(plan: Plan) -> dict[str, object]:
    return {unschedulable.gang.name: unschedulable.reason for unschedulable in plan.unschedulable}


def job(name: str, pods: int, **facts: object) -> Gang:
    return replace(gang(name, group(name, pods)), **facts)


def test_plan_changes_nothing_and_equals_decision() -> None:
    cluster = cluster_of(2)
    wanted = [job("a", 9), job("b", 9), job("c", 4)]
    first = planner(cluster).plan(wanted, 0)
    assert not cluster.snapshot.placements
    assert not cluster.running_gangs
    assert cluster.used.amounts_of("default") == {}
    assert planner(cluster).schedule(wanted, 0) == first
    assert placed_gangs(first) == ["a", "c"]
    assert cluster.used.amounts_of("default")[GPU] == 13_000


def test_limit_applies_to_gang_and_surplus_pods() -> None:
    cluster = cluster_of(2, QueueSpec("team", limit={GPU: 6000}))
    elastic = replace(gang("a", group("a", 10, 2)), queue="team")
    plan = planner(cluster).schedule([elastic, job("b", 3, queue="team", priority=-1)], 0)
    assert len(plan.placements[0].pods) == 6
    assert isinstance(rejection_reasons(plan)["b"], LimitExceeded)


def test_unknown_queue_is_named() -> None:
    why = rejection_reasons(planner(cluster_of(1)).schedule([job("a", 1, queue="none")], 0))["a"]
    assert isinstance(why, QueueProblem)
    assert why.reason == "QueueNotFound"


def test_queues_alternate_by_fair_share() -> None:
    cluster = cluster_of(1, QueueSpec("a"), QueueSpec("b"))
    wanted = [job(f"{queue}{index}", 1, queue=queue) for queue in "ab" for index in range(8)]
    names = placed_gangs(planner(cluster).schedule(wanted, 0))
    assert sorted(name[0] for name in names) == ["a"] * 4 + ["b"] * 4


def test_higher_priority_gang_evicts_cheapest_gang() -> None:
    cluster = cluster_of(1)
    planner(cluster).schedule([job("old", 4), job("vip", 1, priority=9)], 0)
    planner(cluster).schedule([job("new", 3)], 50)
    plan = planner(cluster).schedule([job("big", 3, priority=5)], 100)
    assert [unit.gang for unit in plan.placements[0].victims] == ["new"]
    assert set(cluster.running_gangs) == {"old", "vip", "big"}


def test_of_newly_started_gangs_the_smaller_is_evicted() -> None:
    cluster = cluster_of(3)
    wanted = [job("a", 16), job("b", 8)]
    planner(cluster).schedule(wanted, 100)
    whole = replace(gang("big", group("big", 1, of=shape(8))), priority=5)
    plan = planner(cluster).schedule([whole], 100)
    assert [unit.gang for unit in plan.placements[0].victims] == ["b"]


def test_surplus_pods_are_evicted_before_whole_gangs() -> None:
    cluster = cluster_of(1)
    planner(cluster).schedule([gang("elastic", group("e", 6, 2)), job("rigid", 2)], 0)
    plan = planner(cluster).schedule([job("big", 3, priority=5)], 100)
    assert [len(unit.pods) for unit in plan.placements[0].victims] == [1, 1, 1]
    assert len(cluster.running_gangs["elastic"].pods) == 3


def test_no_eviction_without_placement() -> None:
    cluster = cluster_of(2)
    planner(cluster).schedule([job("a", 8), job("b", 8, priority=9)], 0)
    plan = planner(cluster).schedule([job("big", 16, priority=5)], 100)
    assert isinstance(rejection_reasons(plan)["big"], InsufficientCapacity)
    assert set(cluster.running_gangs) == {"a", "b"}


def test_only_victims_in_cheapest_domain_are_evicted() -> None:
    cluster = cluster_of(4)
    near = PackConstraint(required=RACK)
    low = [replace(gang(f"g{i}", group(f"g{i}", 8, pack=near)), priority=i) for i in range(4)]
    planner(cluster).schedule(low, 0)
    big = replace(gang("big", group("big", 16, pack=near)), priority=50)
    plan = planner(cluster).schedule([big], 100)
    evicted = sorted(unit.gang for unit in plan.placements[0].victims)
    rows = {placement.row // 2 for placement in plan.placements[0].pods}
    assert len(evicted) == 2
    assert len(rows) == 1
    assert sum(int(name[1]) for name in evicted) <= 3


def test_capacity_is_freed_beside_placed_pods_of_the_gang() -> None:
    cluster = cluster_of(40, gpus=4)
    for index in range(40):
        fill = group(f"f{index}", 1, of=shape(4 if index < 2 else 3))
        planner(cluster).schedule([gang(f"f{index}", fill)], 0)
    names = cluster.snapshot.names
    rows = {names[b.row]: b.gang for b in cluster.snapshot.placements.values()}
    crowded = next(node for node, name in rows.items() if name == "f0")
    near = PackConstraint(required=RACK)
    member = group("w", 3, 3, pack=near)
    wanted = replace(member, members=member.members[1:], placed_nodes=(crowded,))
    plan = planner(cluster).schedule([replace(gang("w", wanted), priority=9)], 100)
    assert {names[placement.row] for placement in plan.placements[0].pods} <= rack_of(crowded)


def rack_of(name: str) -> set[str]:
    first = int(name[1:]) // 2 * 2
    return {f"n{first}", f"n{first + 1}"}


def test_queue_reclaims_exactly_deserved() -> None:
    cluster = cluster_of(
        1, QueueSpec("mine", deserved={GPU: 4000}), QueueSpec("theirs", deserved={GPU: 4000})
    )
    planner(cluster).schedule([job(f"t{i}", 1, queue="theirs") for i in range(8)], 0)
    plan = planner(cluster).schedule([job(f"m{i}", 1, queue="mine") for i in range(8)], 100)
    assert len(plan.placements) == 4
    assert cluster.used.amounts_of("theirs")[GPU] == cluster.used.amounts_of("mine")[GPU] == 4000


def test_pod_under_disruption_budget_stays() -> None:
    cluster = cluster_of(1)
    low = gang("low", group("low", 8))
    guarded = tuple(
        Member(member.pod, member.shape, budgets=("ns/pdb",)) for member in low.groups[0].members
    )
    planner(cluster).schedule([replace(low, groups=(replace(low.groups[0], members=guarded),))], 0)
    cluster.budgets["ns/pdb"] = 7
    assert placed_gangs(planner(cluster).schedule([job("vip", 1, priority=9)], 1)) == []
    cluster.budgets["ns/pdb"] = 8
    assert placed_gangs(planner(cluster).schedule([job("vip", 1, priority=9)], 1)) == ["vip"]


@pytest.mark.parametrize(
    ("duration", "passes"), [(90.0, True), (100.0, True), (101.0, False), (None, False)]
)
def test_only_gang_ending_before_reservation_is_backfilled(
    duration: float | None, passes: bool
) -> None:
    cluster = cluster_of(1)
    planner(cluster).schedule([job("runs", 4, duration=100.0)], 0)
    wanted = [job("large", 8), job("small", 4, created=1.0, duration=duration)]
    plan = planner(cluster, IMMEDIATE_BACKFILL).schedule(wanted, 0)
    assert plan.backfill_reservation is not None
    assert (plan.backfill_reservation.gang.name, plan.backfill_reservation.start_time) == (
        "large",
        100.0,
    )
    assert placed_gangs(plan) == (["small"] if passes else [])


def test_long_gangs_use_capacity_the_reservation_leaves() -> None:
    cluster = cluster_of(2)
    planner(cluster).schedule([job("runs", 8, duration=100.0)], 0)
    wanted = [job("large", 12), job("small", 4, created=1.0), job("other", 1, created=2.0)]
    plan = planner(cluster, IMMEDIATE_BACKFILL).schedule(wanted, 0)
    assert placed_gangs(plan) == ["small"]
    assert plan.backfill_reservation is not None
    assert plan.backfill_reservation.nodes == ("n0", "n1")


def test_gangs_of_one_cycle_respect_gang_anti_affinity() -> None:
    cluster = cluster_of(6)
    apart = GangAntiAffinity(RACK, required=True, group_key="ns/set=web")
    plan = planner(cluster).schedule([job(f"g{n}", 2, anti_affinity=apart) for n in range(4)], 0)
    assert placed_gangs(plan) == ["g0", "g1", "g2"]
    racks = [
        {cluster.snapshot.names[pod_placement.row] for pod_placement in placement.pods}
        for placement in plan.placements
    ]
    assert sorted(map(sorted, racks)) == [["n0"], ["n2"], ["n4"]]
    assert planner(cluster).schedule([job("other", 2)], 0).placements
    cluster.record_removed("g1", list(cluster.running_gangs["g1"].pods))
    for pod_placement in plan.placements[1].pods:
        cluster.snapshot.remove_pod(pod_placement.pod)
    assert placed_gangs(planner(cluster).schedule([job("g3", 2, anti_affinity=apart)], 0)) == ["g3"]


@pytest.mark.parametrize(
    ("members", "coming", "where"),
    [(6, 0, "small"), (7, 0, "large"), (3, 3, "small"), (3, 9, "large"), (30, 0, "small")],
    ids=[
        "all of it fits where it is tightest",
        "more than the minimum is there",
        "those to come will fit",
        "more are to come than fit",
        "nowhere is room for all",
    ],
)
def test_domain_fitting_more_than_minimum_is_chosen(members: int, coming: int, where: str) -> None:
    cluster = Cluster(build_queue_forest(()))
    for name, gpus in (("small", 6), ("large", 20)):
        cluster.snapshot.put_node(node(name, gpus, rack=name))
    wanted = gang("g", group("w", members, 3, pack=PackConstraint(RACK)))
    wanted = replace(wanted, groups=(replace(wanted.groups[0], expected_pods=coming),))
    first = planner(cluster).plan([wanted], 0)
    assert not cluster.snapshot.placements
    plan = planner(cluster).schedule([wanted], 0)
    assert plan == first
    (placement,) = plan.placements
    assert {cluster.snapshot.names[pod_placement.row] for pod_placement in placement.pods} == {
        where
    }
    capacity = 6 if where == "small" else 20
    assert len(placement.pods) == len(cluster.snapshot.placements) == min(members, capacity)


def test_unplaceable_surplus_pods_do_not_block_smaller_ones() -> None:
    cluster = cluster_of(1, gpus=4)
    elastic = {
        name: gang(name, replace(group(name, 1), members=(first, extra)))
        for name, first, extra in (
            ("a", Member("ns/a-0", shape(1)), Member("ns/a-1", shape(4))),
            ("b", Member("ns/b-0", shape(1)), Member("ns/b-1", shape(1))),
        )
    }
    planner(cluster).schedule([each.only_required_members() for each in elastic.values()], 0)
    plan = planner(cluster).schedule(list_pending(elastic.values(), cluster), 100)
    assert placed_gangs(plan) == ["b"]
    assert isinstance(rejection_reasons(plan)["a"], InsufficientCapacity)


def test_surplus_pods_with_pod_rules_are_tried_individually() -> None:
    apart = PodAffinityRules(anti_affinity=(AffinityTerm(PodSelector(None, ()), HOSTNAME),))
    members = [Member(f"ns/{name}", replace(shape(1), pod_rules=apart)) for name in "ab"]
    gangs = [gang(each.pod, replace(group("g", 0), members=(each,))) for each in members]
    assert [equivalence_key(each, cluster_of(1).snapshot.pod_counts) for each in gangs] == [
        None,
        None,
    ]
