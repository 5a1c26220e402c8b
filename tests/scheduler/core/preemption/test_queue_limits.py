"""A queue at its limit: gangs of higher priority preempt within it."""

from dataclasses import replace

import pytest

from kilonova.catalog.resource_names import GPU
from kilonova.scheduler.core.decisions import Plan
from kilonova.scheduler.core.model.cluster import Cluster
from kilonova.scheduler.core.model.gangs import PackConstraint
from kilonova.scheduler.core.queueing.ledger import LimitExceeded
from kilonova.scheduler.core.queueing.queues import QueueSpec
from kilonova.scheduler.core.scheduling_cycle import PlannerPolicy
from tests.scheduler.core.support.clusters import RACK, gang, group
from tests.scheduler.core.test_planner import (
    cluster_of,
    job,
    placed_gangs,
    planner,
    rejection_reasons,
)

TEAM = QueueSpec("team", limit={GPU: 4000})


def evicted_gangs(plan: Plan) -> list[str]:
    return [unit.gang for placement in plan.placements for unit in placement.victims]


def build_full_cluster(*queues: QueueSpec, **jobs: int) -> Cluster:
    """Two nodes with free capacity, and gangs of the queue `team` with a number of pods each."""
    cluster = cluster_of(2, *(queues or (TEAM,)))
    wanted = [job(name, pods, queue="team") for name, pods in jobs.items()]
    assert len(planner(cluster).schedule(wanted, 0).placements) == len(jobs)
    return cluster


@pytest.mark.parametrize("pods", [1, 2])
def test_higher_priority_gang_preempts_within_queue_limit(pods: int) -> None:
    cluster = build_full_cluster(a=2, b=2)
    plan = planner(cluster).schedule([job("vip", pods, queue="team", priority=5)], 100)
    assert placed_gangs(plan) == ["vip"]
    assert evicted_gangs(plan) == ["a"]
    assert cluster.used.amounts_of("team")[GPU] == 2000 + 1000 * pods


def test_fewest_and_cheapest_victims_under_limit() -> None:
    cluster = build_full_cluster(small=1, large=3)
    plan = planner(cluster).schedule([job("vip", 1, queue="team", priority=5)], 100)
    assert evicted_gangs(plan) == ["small"]


def test_surplus_pods_are_evicted_first() -> None:
    cluster = cluster_of(2, TEAM)
    elastic = replace(gang("elastic", group("e", 3, 1)), queue="team")
    planner(cluster).schedule([elastic, job("rigid", 1, queue="team")], 0)
    plan = planner(cluster).schedule([job("vip", 2, queue="team", priority=5)], 100)
    assert evicted_gangs(plan) == ["elastic", "elastic"]
    assert set(cluster.running_gangs) == {"elastic", "rigid", "vip"}


def test_equal_priority_gangs_stay_and_limit_is_reported() -> None:
    cluster = build_full_cluster(a=4)
    plan = planner(cluster).schedule([job("b", 1, queue="team")], 100)
    assert rejection_reasons(plan) == {"b": LimitExceeded("team", GPU, 4000, 4000, 1000)}


def test_no_eviction_for_gang_larger_than_limit() -> None:
    cluster = build_full_cluster(a=4)
    plan = planner(cluster).schedule([job("vip", 5, queue="team", priority=5)], 100)
    assert rejection_reasons(plan) == {"vip": LimitExceeded("team", GPU, 4000, 4000, 5000)}
    assert set(cluster.running_gangs) == {"a"}


def test_no_eviction_when_preemption_is_disabled() -> None:
    cluster = build_full_cluster(a=4)
    plan = planner(cluster, PlannerPolicy(preemption_enabled=False)).schedule(
        [job("vip", 1, queue="team", priority=5)], 100
    )
    assert isinstance(rejection_reasons(plan)["vip"], LimitExceeded)


def test_parent_limit_evicts_within_queue() -> None:
    cluster = build_full_cluster(QueueSpec("org", limit={GPU: 4000}), QueueSpec("team", "org"), a=4)
    plan = planner(cluster).schedule([job("vip", 2, queue="team", priority=5)], 100)
    assert evicted_gangs(plan) == ["a"]


def test_queue_reclaims_deserved_share_of_parent_limit() -> None:
    cluster = build_full_cluster(
        QueueSpec("org", limit={GPU: 4000}),
        QueueSpec("team", "org", deserved={GPU: 2000}),
        QueueSpec("other", "org", deserved={GPU: 2000}),
        a=2,
        b=2,
    )
    plan = planner(cluster).schedule([job("mine", 2, queue="other")], 100)
    assert evicted_gangs(plan) == ["a"]
    plan = planner(cluster).schedule([job("more", 1, queue="other", priority=9)], 200)
    assert evicted_gangs(plan) == ["mine"]


def test_gangs_outside_limited_queue_stay() -> None:
    cluster = build_full_cluster(a=4)
    planner(cluster).schedule([job("elsewhere", 2)], 10)
    plan = planner(cluster).schedule([job("vip", 2, queue="team", priority=5)], 100)
    assert evicted_gangs(plan) == ["a"]
    assert "elsewhere" in cluster.running_gangs


def test_victim_on_needed_node_is_preferred() -> None:
    cluster = cluster_of(3, QueueSpec("team", limit={GPU: 12_000}))
    for name, pods, queue in (
        ("first", 8, "default"),
        ("big", 8, "team"),
        ("third", 7, "default"),
        ("late", 1, "team"),
    ):
        planner(cluster).schedule([job(name, pods, queue=queue)], 0)
    near = replace(
        gang("near", group("near", 8, pack=PackConstraint(RACK))), queue="team", priority=5
    )
    plan = planner(cluster).schedule([near], 100)
    assert evicted_gangs(plan) == ["big"]
    assert cluster.used.amounts_of("team")[GPU] == 9000


def test_evicted_gang_does_not_preempt_back() -> None:
    cluster = build_full_cluster(a=4)
    vip = job("vip", 4, queue="team", priority=5)
    planner(cluster).schedule([vip], 100)
    plan = planner(cluster).schedule([job("a", 4, queue="team")], 200)
    assert not plan.placements
    assert set(cluster.running_gangs) == {"vip"}


def test_equal_requests_are_all_rejected_by_limit() -> None:
    cluster = build_full_cluster(a=4)
    plan = planner(cluster).schedule([job(f"b{i}", 1, queue="team") for i in range(3)], 100)
    assert set(map(type, rejection_reasons(plan).values())) == {LimitExceeded}


def test_never_preempting_gang_does_not_block_equal_preempting_gang() -> None:
    cluster = build_full_cluster(a=4)
    wanted = [job(name, 1, queue="team", priority=5) for name in ("calm", "vip")]
    plan = planner(cluster).schedule([replace(wanted[0], preempts=False), wanted[1]], 100)
    assert isinstance(rejection_reasons(plan)["calm"], LimitExceeded)
    assert placed_gangs(plan) == ["vip"]
    assert evicted_gangs(plan) == ["a"]
