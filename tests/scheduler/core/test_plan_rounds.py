"""Whole rounds: queues, evictions, reservations."""

from dataclasses import replace

import pytest

from kilonova.scheduler.core.cluster import Cluster
from kilonova.scheduler.core.forest import forest_of
from kilonova.scheduler.core.gangs import Apart, Gang, Member, Pack
from kilonova.scheduler.core.ledgers import Blocked
from kilonova.scheduler.core.peers import Kind, Peers, Term
from kilonova.scheduler.core.plan import NoRoom, Plan, Planner, Policy, ask_of
from kilonova.scheduler.core.queues import Problem, QueueSpec
from kilonova.scheduler.core.snapshot import GPU
from tests.scheduler.core.clusters import BLOCK, RACK, gang, group, node, shape, tight
from tests.scheduler.core.waiting import waiting

HOSTNAME = "kubernetes.io/hostname"
NEVER = Policy((BLOCK, RACK), reserve_after=1e9)
AT_ONCE = Policy((BLOCK, RACK), reserve_after=0)


def cluster_of(count: int, *queues: QueueSpec, gpus: int = 8) -> Cluster:
    cluster = Cluster(forest_of(queues))
    for index in range(count):
        cluster.snapshot.put_node(node(f"n{index}", gpus, rack=f"r{index // 2}"))
    return cluster


def planner(cluster: Cluster, policy: Policy = NEVER) -> Planner:
    return Planner(cluster, tight, policy)


def placed(plan: Plan) -> list[str]:
    return [placement.gang.name for placement in plan.placements]


def refused(plan: Plan) -> dict[str, object]:
    return {refusal.gang.name: refusal.why for refusal in plan.refusals}


def job(name: str, pods: int, **facts: object) -> Gang:
    return replace(gang(name, group(name, pods)), **facts)


def test_a_plan_changes_nothing_and_a_decision_is_the_same_plan() -> None:
    cluster = cluster_of(2)
    wanted = [job("a", 9), job("b", 9), job("c", 4)]
    first = planner(cluster).plan(wanted, 0)
    assert not cluster.snapshot.bookings
    assert not cluster.standing
    assert cluster.used.of("default") == {}
    assert planner(cluster).decide(wanted, 0) == first
    assert placed(first) == ["a", "c"]
    assert cluster.used.of("default")[GPU] == 13_000


def test_a_limit_holds_a_gang_back_and_extras_too() -> None:
    cluster = cluster_of(2, QueueSpec("team", limit={GPU: 6000}))
    elastic = replace(gang("a", group("a", 10, 2)), queue="team")
    plan = planner(cluster).decide([elastic, job("b", 3, queue="team", priority=-1)], 0)
    assert len(plan.placements[0].bookings) == 6
    assert isinstance(refused(plan)["b"], Blocked)


def test_a_queue_that_is_not_there_is_named() -> None:
    why = refused(planner(cluster_of(1)).decide([job("a", 1, queue="none")], 0))["a"]
    assert isinstance(why, Problem)
    assert why.reason == "UnknownQueue"


def test_queues_take_turns_by_their_fair_share() -> None:
    cluster = cluster_of(1, QueueSpec("a"), QueueSpec("b"))
    wanted = [job(f"{queue}{index}", 1, queue=queue) for queue in "ab" for index in range(8)]
    names = placed(planner(cluster).decide(wanted, 0))
    assert sorted(name[0] for name in names) == ["a"] * 4 + ["b"] * 4


def test_a_more_important_gang_pushes_out_the_cheapest_whole_gang() -> None:
    cluster = cluster_of(1)
    planner(cluster).decide([job("old", 4), job("vip", 1, priority=9)], 0)
    planner(cluster).decide([job("new", 3)], 50)
    plan = planner(cluster).decide([job("big", 3, priority=5)], 100)
    assert [unit.gang for unit in plan.placements[0].evicted] == ["new"]
    assert set(cluster.standing) == {"old", "vip", "big"}


def test_of_those_that_have_just_begun_the_smaller_goes() -> None:
    cluster = cluster_of(3)
    wanted = [job("a", 16), job("b", 8)]
    planner(cluster).decide(wanted, 100)
    whole = replace(gang("big", group("big", 1, of=shape(8))), priority=5)
    plan = planner(cluster).decide([whole], 100)
    assert [unit.gang for unit in plan.placements[0].evicted] == ["b"]


def test_pods_beyond_the_minimum_go_before_whole_gangs() -> None:
    cluster = cluster_of(1)
    planner(cluster).decide([gang("elastic", group("e", 6, 2)), job("rigid", 2)], 0)
    plan = planner(cluster).decide([job("big", 3, priority=5)], 100)
    assert [len(unit.pods) for unit in plan.placements[0].evicted] == [1, 1, 1]
    assert len(cluster.standing["elastic"].pods) == 3


def test_nobody_is_pushed_out_for_nothing() -> None:
    cluster = cluster_of(2)
    planner(cluster).decide([job("a", 8), job("b", 8, priority=9)], 0)
    plan = planner(cluster).decide([job("big", 16, priority=5)], 100)
    assert isinstance(refused(plan)["big"], NoRoom)
    assert set(cluster.standing) == {"a", "b"}


def test_only_those_in_the_domain_that_is_cheapest_go() -> None:
    cluster = cluster_of(4)
    near = Pack(required=RACK)
    low = [replace(gang(f"g{i}", group(f"g{i}", 8, pack=near)), priority=i) for i in range(4)]
    planner(cluster).decide(low, 0)
    big = replace(gang("big", group("big", 16, pack=near)), priority=50)
    plan = planner(cluster).decide([big], 100)
    evicted = sorted(unit.gang for unit in plan.placements[0].evicted)
    rows = {booking.row // 2 for booking in plan.placements[0].bookings}
    assert len(evicted) == 2
    assert len(rows) == 1
    assert sum(int(name[1]) for name in evicted) <= 3


def test_room_is_made_beside_the_rest_of_a_gang_however_many_racks_lack_less() -> None:
    cluster = cluster_of(40, gpus=4)
    for index in range(40):
        fill = group(f"f{index}", 1, of=shape(4 if index < 2 else 3))
        planner(cluster).decide([gang(f"f{index}", fill)], 0)
    names = cluster.snapshot.names
    rows = {names[b.row]: b.gang for b in cluster.snapshot.bookings.values()}
    crowded = next(node for node, name in rows.items() if name == "f0")
    near = Pack(required=RACK)
    member = group("w", 3, 3, pack=near)
    wanted = replace(member, members=member.members[1:], placed=(crowded,))
    plan = planner(cluster).decide([replace(gang("w", wanted), priority=9)], 100)
    assert {names[booking.row] for booking in plan.placements[0].bookings} <= rack_of(crowded)


def rack_of(name: str) -> set[str]:
    first = int(name[1:]) // 2 * 2
    return {f"n{first}", f"n{first + 1}"}


def test_a_queue_gets_back_what_it_deserves_and_no_more() -> None:
    cluster = cluster_of(
        1, QueueSpec("mine", deserved={GPU: 4000}), QueueSpec("theirs", deserved={GPU: 4000})
    )
    planner(cluster).decide([job(f"t{i}", 1, queue="theirs") for i in range(8)], 0)
    plan = planner(cluster).decide([job(f"m{i}", 1, queue="mine") for i in range(8)], 100)
    assert len(plan.placements) == 4
    assert cluster.used.of("theirs")[GPU] == cluster.used.of("mine")[GPU] == 4000


def test_a_guarded_pod_stays() -> None:
    cluster = cluster_of(1)
    low = gang("low", group("low", 8))
    guarded = tuple(
        Member(member.pod, member.shape, budgets=("ns/pdb",)) for member in low.groups[0].members
    )
    planner(cluster).decide([replace(low, groups=(replace(low.groups[0], members=guarded),))], 0)
    cluster.budgets["ns/pdb"] = 7
    assert placed(planner(cluster).decide([job("vip", 1, priority=9)], 1)) == []
    cluster.budgets["ns/pdb"] = 8
    assert placed(planner(cluster).decide([job("vip", 1, priority=9)], 1)) == ["vip"]


@pytest.mark.parametrize(
    ("duration", "passes"), [(90.0, True), (100.0, True), (101.0, False), (None, False)]
)
def test_only_who_ends_before_a_reservation_passes_it(duration: float | None, passes: bool) -> None:
    cluster = cluster_of(1)
    planner(cluster).decide([job("runs", 4, duration=100.0)], 0)
    wanted = [job("large", 8), job("small", 4, created=1.0, duration=duration)]
    plan = planner(cluster, AT_ONCE).decide(wanted, 0)
    assert plan.reservation is not None
    assert (plan.reservation.gang.name, plan.reservation.at) == ("large", 100.0)
    assert placed(plan) == (["small"] if passes else [])


def test_long_gangs_use_what_the_reserved_one_leaves() -> None:
    cluster = cluster_of(2)
    planner(cluster).decide([job("runs", 8, duration=100.0)], 0)
    wanted = [job("large", 12), job("small", 4, created=1.0), job("other", 1, created=2.0)]
    plan = planner(cluster, AT_ONCE).decide(wanted, 0)
    assert placed(plan) == ["small"]
    assert plan.reservation is not None
    assert plan.reservation.nodes == ("n0", "n1")


def test_gangs_of_one_round_keep_apart_from_each_other() -> None:
    cluster = cluster_of(6)
    apart = Apart(RACK, required=True, among="ns/set=web")
    plan = planner(cluster).decide([job(f"g{n}", 2, apart=apart) for n in range(4)], 0)
    assert placed(plan) == ["g0", "g1", "g2"]
    racks = [
        {cluster.snapshot.names[booking.row] for booking in placement.bookings}
        for placement in plan.placements
    ]
    assert sorted(map(sorted, racks)) == [["n0"], ["n2"], ["n4"]]
    assert planner(cluster).decide([job("other", 2)], 0).placements
    cluster.leave("g1", list(cluster.standing["g1"].pods))
    for booking in plan.placements[1].bookings:
        cluster.snapshot.release(booking.pod)
    assert placed(planner(cluster).decide([job("g3", 2, apart=apart)], 0)) == ["g3"]


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
def test_a_domain_is_chosen_that_holds_more_than_the_minimum(
    members: int, coming: int, where: str
) -> None:
    cluster = Cluster(forest_of(()))
    for name, gpus in (("small", 6), ("large", 20)):
        cluster.snapshot.put_node(node(name, gpus, rack=name))
    wanted = gang("g", group("w", members, 3, pack=Pack(RACK)))
    wanted = replace(wanted, groups=(replace(wanted.groups[0], coming=coming),))
    first = planner(cluster).plan([wanted], 0)
    assert not cluster.snapshot.bookings
    plan = planner(cluster).decide([wanted], 0)
    assert plan == first
    (placement,) = plan.placements
    assert {cluster.snapshot.names[booking.row] for booking in placement.bookings} == {where}
    room = 6 if where == "small" else 20
    assert len(placement.bookings) == len(cluster.snapshot.bookings) == min(members, room)


def test_extras_that_do_not_fit_do_not_keep_smaller_extras_of_others_out() -> None:
    cluster = cluster_of(1, gpus=4)
    elastic = {
        name: gang(name, replace(group(name, 1), members=(first, extra)))
        for name, first, extra in (
            ("a", Member("ns/a-0", shape(1)), Member("ns/a-1", shape(4))),
            ("b", Member("ns/b-0", shape(1)), Member("ns/b-1", shape(1))),
        )
    }
    planner(cluster).decide([each.at_least() for each in elastic.values()], 0)
    plan = planner(cluster).decide(waiting(elastic.values(), cluster), 100)
    assert placed(plan) == ["b"]
    assert isinstance(refused(plan)["a"], NoRoom)


def test_extras_with_rules_about_others_are_tried_each_by_themselves() -> None:
    apart = Peers(apart=(Term(Kind(None, ()), HOSTNAME),))
    members = [Member(f"ns/{name}", replace(shape(1), peers=apart)) for name in "ab"]
    gangs = [gang(each.pod, replace(group("g", 0), members=(each,))) for each in members]
    assert [ask_of(each, cluster_of(1).snapshot.neighbours) for each in gangs] == [None, None]
