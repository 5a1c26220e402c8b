"""A queue at its limit: more important gangs make room inside it."""

from dataclasses import replace

import pytest

from kilonova.scheduler.core.cluster import Cluster
from kilonova.scheduler.core.gangs import Pack
from kilonova.scheduler.core.ledgers import Blocked
from kilonova.scheduler.core.plan import Plan, Policy
from kilonova.scheduler.core.queues import QueueSpec
from kilonova.scheduler.core.snapshot import GPU
from tests.scheduler.core.clusters import RACK, gang, group
from tests.scheduler.core.test_plan_rounds import cluster_of, job, placed, planner, refused

TEAM = QueueSpec("team", limit={GPU: 4000})


def evicted(plan: Plan) -> list[str]:
    return [unit.gang for placement in plan.placements for unit in placement.evicted]


def full(*queues: QueueSpec, **jobs: int) -> Cluster:
    """Two nodes with room to spare, and gangs of the queue `team` with so many pods each."""
    cluster = cluster_of(2, *(queues or (TEAM,)))
    wanted = [job(name, pods, queue="team") for name, pods in jobs.items()]
    assert len(planner(cluster).decide(wanted, 0).placements) == len(jobs)
    return cluster


@pytest.mark.parametrize("pods", [1, 2])
def test_a_more_important_gang_takes_the_place_of_another_under_the_limit(pods: int) -> None:
    cluster = full(a=2, b=2)
    plan = planner(cluster).decide([job("vip", pods, queue="team", priority=5)], 100)
    assert placed(plan) == ["vip"]
    assert evicted(plan) == ["a"]
    assert cluster.used.of("team")[GPU] == 2000 + 1000 * pods


def test_only_as_many_go_as_the_limit_asks_for_and_the_cheapest() -> None:
    cluster = full(small=1, large=3)
    plan = planner(cluster).decide([job("vip", 1, queue="team", priority=5)], 100)
    assert evicted(plan) == ["small"]


def test_what_a_gang_can_do_without_goes_first() -> None:
    cluster = cluster_of(2, TEAM)
    elastic = replace(gang("elastic", group("e", 3, 1)), queue="team")
    planner(cluster).decide([elastic, job("rigid", 1, queue="team")], 0)
    plan = planner(cluster).decide([job("vip", 2, queue="team", priority=5)], 100)
    assert evicted(plan) == ["elastic", "elastic"]
    assert set(cluster.standing) == {"elastic", "rigid", "vip"}


def test_gangs_as_important_stay_and_the_limit_is_the_reason() -> None:
    cluster = full(a=4)
    plan = planner(cluster).decide([job("b", 1, queue="team")], 100)
    assert refused(plan) == {"b": Blocked("team", GPU, 4000, 4000, 1000)}


def test_nobody_goes_for_a_gang_that_is_above_the_limit_by_itself() -> None:
    cluster = full(a=4)
    plan = planner(cluster).decide([job("vip", 5, queue="team", priority=5)], 100)
    assert refused(plan) == {"vip": Blocked("team", GPU, 4000, 4000, 5000)}
    assert set(cluster.standing) == {"a"}


def test_nobody_goes_where_nobody_may_be_pushed_out() -> None:
    cluster = full(a=4)
    plan = planner(cluster, Policy(evicts=False)).decide(
        [job("vip", 1, queue="team", priority=5)], 100
    )
    assert isinstance(refused(plan)["vip"], Blocked)


def test_a_limit_above_the_queue_makes_room_in_the_queue() -> None:
    cluster = full(QueueSpec("org", limit={GPU: 4000}), QueueSpec("team", "org"), a=4)
    plan = planner(cluster).decide([job("vip", 2, queue="team", priority=5)], 100)
    assert evicted(plan) == ["a"]


def test_a_queue_gets_back_what_it_deserves_of_a_limit_above_both() -> None:
    cluster = full(
        QueueSpec("org", limit={GPU: 4000}),
        QueueSpec("team", "org", deserved={GPU: 2000}),
        QueueSpec("other", "org", deserved={GPU: 2000}),
        a=2,
        b=2,
    )
    plan = planner(cluster).decide([job("mine", 2, queue="other")], 100)
    assert evicted(plan) == ["a"]
    plan = planner(cluster).decide([job("more", 1, queue="other", priority=9)], 200)
    assert evicted(plan) == ["mine"]


def test_others_outside_the_limit_are_left_alone() -> None:
    cluster = full(a=4)
    planner(cluster).decide([job("elsewhere", 2)], 10)
    plan = planner(cluster).decide([job("vip", 2, queue="team", priority=5)], 100)
    assert evicted(plan) == ["a"]
    assert "elsewhere" in cluster.standing


def test_who_is_in_the_way_on_the_nodes_goes_instead_of_who_is_not() -> None:
    cluster = cluster_of(3, QueueSpec("team", limit={GPU: 12_000}))
    for name, pods, queue in (
        ("first", 8, "default"),
        ("big", 8, "team"),
        ("third", 7, "default"),
        ("late", 1, "team"),
    ):
        planner(cluster).decide([job(name, pods, queue=queue)], 0)
    near = replace(gang("near", group("near", 8, pack=Pack(RACK))), queue="team", priority=5)
    plan = planner(cluster).decide([near], 100)
    assert evicted(plan) == ["big"]
    assert cluster.used.of("team")[GPU] == 9000


def test_who_was_pushed_out_does_not_come_back_to_push() -> None:
    cluster = full(a=4)
    vip = job("vip", 4, queue="team", priority=5)
    planner(cluster).decide([vip], 100)
    plan = planner(cluster).decide([job("a", 4, queue="team")], 200)
    assert not plan.placements
    assert set(cluster.standing) == {"vip"}


def test_equal_asks_are_all_refused_for_the_limit() -> None:
    cluster = full(a=4)
    plan = planner(cluster).decide([job(f"b{i}", 1, queue="team") for i in range(3)], 100)
    assert set(map(type, refused(plan).values())) == {Blocked}


def test_nobody_goes_for_a_gang_that_does_not_preempt_and_its_equal_is_not_held_back() -> None:
    cluster = full(a=4)
    wanted = [job(name, 1, queue="team", priority=5) for name in ("calm", "vip")]
    plan = planner(cluster).decide([replace(wanted[0], preempts=False), wanted[1]], 100)
    assert isinstance(refused(plan)["calm"], Blocked)
    assert placed(plan) == ["vip"]
    assert evicted(plan) == ["a"]
