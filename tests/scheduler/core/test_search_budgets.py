"""No gang costs more than its budget: it is refused with that reason, and others are placed."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from kilonova.scheduler.core.asks import Shape
from kilonova.scheduler.core.backtracking import search
from kilonova.scheduler.core.claims import (
    Attribute,
    ClaimAsk,
    Constraint,
    Device,
    DeviceId,
    Option,
)
from kilonova.scheduler.core.cluster import Cluster
from kilonova.scheduler.core.explaining import explain
from kilonova.scheduler.core.gangs import Gang, Group, Member
from kilonova.scheduler.core.inventory import Pool
from kilonova.scheduler.core.nodes import Node
from kilonova.scheduler.core.parts import tree
from kilonova.scheduler.core.peers import Kind, Peers, Term
from kilonova.scheduler.core.plan import NoRoom, Plan, Planner, Policy, Refusal
from kilonova.scheduler.core.rooms import Counts, Rooms
from kilonova.scheduler.core.search_budget import SearchBudget
from kilonova.scheduler.verdicts import reason_of
from tests.scheduler.core.clusters import gang as plain_gang
from tests.scheduler.core.clusters import group, node, tight
from tests.scheduler.core.clusters import shape as plain_shape

DRIVER = "gpu.example.com"
POLICY = Policy(evicts=False, reserve_after=float("inf"))
ONE = ClaimAsk(((Option("gpu"),),))


def cluster_of(nodes: int, devices: int, *, cpu: int = 8000) -> Cluster:
    """Equal nodes with so many devices each that are claimed."""
    cluster = Cluster()
    snapshot = cluster.snapshot
    for index in range(nodes):
        name = f"n{index:02d}"
        snapshot.put_node(node(name, 0, cpu))
        ids = (DeviceId(DRIVER, name, f"gpu-{each}") for each in range(devices))
        pool = Pool(tuple(Device(id, name) for id in ids), nodes=frozenset({name}))
        snapshot.note_facts(snapshot.claims.put_pool((DRIVER, name), pool))
    return cluster


def sharing(name: str, pods: int, claims: Sequence[str], *, cpu: int, memory: int = 0) -> Group:
    """Pods that all use the same claims."""
    asks = tuple(replace(ONE, name=f"ns/{claim}") for claim in claims)
    shape = Shape((("cpu", cpu), ("memory", memory), ("pods", 1)), claims=asks)
    names = tuple(f"ns/{claim}" for claim in claims)
    members = tuple(Member(f"ns/{name}-{each}", shape, claims=names) for each in range(pods))
    return Group(name, members, pods)


def other() -> Gang:
    return plain_gang("other", group("other", 1, of=plain_shape(0, 500)))


def decided(cluster: Cluster, *gangs: Gang) -> Plan:
    return Planner(cluster, tight, POLICY).decide(gangs, 0.0)


def only_refusal(plan: Plan) -> Refusal:
    (refusal,) = plan.refusals
    return refusal


SIX = [f"c{each}" for each in range(6)]


def test_pods_that_share_six_claims_are_placed_where_both_fit() -> None:
    cluster = cluster_of(20, 6, cpu=6000)
    cluster.snapshot.put_node(node("n13", 0, 8000))
    plan = decided(cluster, Gang("g", (sharing("g", 2, SIX, cpu=4000),)), other())
    assert [placement.gang.name for placement in plan.placements] == ["g", "other"]
    rows = {booking.row for booking in plan.placements[0].bookings}
    assert [cluster.snapshot.names[row] for row in rows] == ["n13"]


def test_pods_that_share_six_claims_and_fit_nowhere_together_are_refused_soon() -> None:
    cluster = cluster_of(20, 6, cpu=6000)
    plan = decided(cluster, Gang("g", (sharing("g", 2, SIX, cpu=4000),)), other())
    assert [placement.gang.name for placement in plan.placements] == ["other"]
    assert only_refusal(plan).why == NoRoom()


def test_a_gang_that_exceeds_its_budget_is_refused_for_that_and_others_are_placed() -> None:
    """Four pairs fit anywhere, and the last one, which comes last by its size, nowhere."""
    cluster = cluster_of(20, 6)
    pairs = [sharing(f"p{each}", 2, [f"p{each}"], cpu=1000) for each in range(4)]
    last = sharing("last", 2, ["last"], cpu=500, memory=200 << 30)
    wanted = Gang("g", (*pairs, last))
    plan = decided(cluster, wanted, other())
    assert [placement.gang.name for placement in plan.placements] == ["other"]
    refusal = only_refusal(plan)
    assert refusal.why == NoRoom(search_exceeded=True)
    assert reason_of(refusal.why) == "SearchBudgetExceeded"
    found = explain(cluster, tight, POLICY, wanted, refusal.why, 0.0)
    assert found.binding.kind == "SearchBudgetExceeded"
    assert "within the budget of the search" in found.message


def test_equal_gangs_are_refused_for_the_same_reason() -> None:
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
    plan = decided(cluster, first, second)
    assert [refusal.why for refusal in plan.refusals] == [NoRoom(search_exceeded=True)] * 2


def test_pods_that_keep_apart_and_are_too_many_are_refused_without_a_search() -> None:
    cluster = cluster_of(8, 0)
    rule = Term(Kind(None, ()), "metadata.name")
    shape = replace(plain_shape(0, 500), peers=Peers(apart=(rule,)))
    plan = decided(cluster, plain_gang("g", group("g", 10, of=shape)), other())
    assert [placement.gang.name for placement in plan.placements] == ["other"]
    assert only_refusal(plan).why == NoRoom()


def coloured(nodes: int, *colours: int) -> Cluster:
    """Equal nodes with so many devices of each colour, of which no two are alike."""
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
                    "colour": Attribute("int", colour),
                    "number": Attribute("int", number),
                },
            )
            for number, colour in enumerate(numbered)
        )
        pool = Pool(devices, nodes=frozenset({name}))
        snapshot.note_facts(snapshot.claims.put_pool((DRIVER, name), pool))
    return cluster


def of_one_colour(count: int) -> Member:
    """A pod that claims so many devices of one colour."""
    requests = tuple((Option(f"r{each}"),) for each in range(count))
    ask = ClaimAsk(requests, (Constraint("colour"), Constraint("number", distinct=True)))
    return Member("ns/hard", Shape((("cpu", 1000), ("pods", 1)), claims=(ask,)), claims=("c",))


def test_a_search_for_devices_that_exceeds_its_budget_is_given_up_for_all_nodes() -> None:
    wanted = Gang("hard", (Group("hard", (of_one_colour(13),), 1),))
    plan = decided(coloured(20, 12, 12), wanted, other())
    assert [placement.gang.name for placement in plan.placements] == ["other"]
    assert only_refusal(plan).why == NoRoom(search_exceeded=True)


def test_what_was_given_up_is_searched_again_with_the_next_budget() -> None:
    snapshot, member = coloured(2, 5, 6).snapshot, of_one_colour(6)
    rooms = Rooms(snapshot, tight)
    assert snapshot.claims.budget.spend(20_000)
    assert rooms.room(member.shape).tolist() == [0, 0]
    assert snapshot.claims.budget.exceeded
    snapshot.claims.renew_budget()
    assert rooms.room(member.shape).tolist() == [1, 1]
    assert rooms.best(member.shape) == 0


@pytest.mark.parametrize("claims", [20, 600])
def test_a_pod_with_very_many_claims_is_decided_about(claims: int) -> None:
    cluster = cluster_of(1, 30)
    member = Member(
        "ns/many",
        Shape((("cpu", 1000), ("pods", 1)), claims=(ONE,) * claims),
        claims=tuple(f"ns/{each}" for each in range(claims)),
    )
    plan = decided(cluster, Gang("many", (Group("many", (member,), 1),)))
    assert bool(plan.placements) == (claims == 20)


def uneven(nodes: int, fillers: int) -> tuple[Cluster, Gang]:
    """Nodes of which no two are alike, and a gang for which only one of two nodes is right for its
    leader, so that the quick ways find no place for its worker."""
    cluster = Cluster()
    for name, labels in (("a0", {"pool": "b"}), ("a1", {})):
        cluster.snapshot.put_node(Node(name, {"cpu": 2000, "pods": 110}, labels))
    for index in range(nodes):
        cluster.snapshot.put_node(Node(f"n{index:05}", {"cpu": 1000 + index, "pods": 110}, {}))

    def of(name: str, pods: int, cpu: int, **selector: str) -> Group:
        shape = Shape((("cpu", cpu), ("pods", 1)), selector=tuple(selector.items()))
        return Group(name, tuple(Member(f"ns/{name}{n}", shape) for n in range(pods)), pods)

    groups = of("worker", 1, 2000), of("leader", 1, 1000, pool="b"), of("fill", fillers, 999)
    return cluster, Gang("g", groups)


@pytest.mark.parametrize(("nodes", "fillers"), [(990, 250), (2000, 120)])
def test_a_gang_of_many_pods_is_found_a_place_on_nodes_of_which_no_two_are_alike(
    nodes: int, fillers: int
) -> None:
    cluster, gang = uneven(nodes, fillers)
    assert len(decided(cluster, gang).placements) == 1


def test_a_search_ends_with_its_budget_whatever_the_next_choice_costs() -> None:
    """Each pod looks at all nodes: far more is looked at for all of them than a budget pays for."""
    cluster, gang = uneven(400, 200)
    snapshot, budget = cluster.snapshot, Counting(500)
    rows = np.flatnonzero(snapshot.alive[: snapshot.size])
    assert search(snapshot, Rooms(snapshot, tight), tree(gang), rows, "g", budget) is None
    assert budget.exceeded
    assert budget.refused == 1


def test_no_search_begins_with_a_budget_that_is_spent() -> None:
    cluster, gang = uneven(10, 2)
    snapshot, budget = cluster.snapshot, Counting(500)
    assert not budget.spend(501)
    rows = np.flatnonzero(snapshot.alive[: snapshot.size])
    assert search(snapshot, Unasked(snapshot, tight), tree(gang), rows, "g", budget) is None
    assert budget.refused == 1


class Counting(SearchBudget):
    """Counts how often it was asked for more than it has."""

    refused = 0

    def spend(self, steps: int = 1) -> bool:
        paid = super().spend(steps)
        self.refused += not paid
        return paid


class Unasked(Rooms):
    """Rooms that nobody may ask for."""

    def room(self, shape: Shape) -> Counts:
        raise AssertionError("nodes are looked at")


def test_a_reservation_that_is_renewed_costs_the_next_gang_nothing() -> None:
    """The node for which a reservation waits shrinks: that there is no other exceeds a budget."""
    cluster = cluster_of(20, 6)
    small = node("n13", 0, 8000)
    large = replace(small, allocatable={**small.allocatable, "memory": 800 << 30})
    cluster.snapshot.put_node(large)
    pairs = [sharing(f"p{each}", 2, [f"p{each}"], cpu=1000) for each in range(4)]
    last = sharing("last", 2, ["last"], cpu=500, memory=200 << 30)
    hog = plain_gang("hog", group("hog", 1, of=Shape((("cpu", 900), ("memory", 600 << 30)))))
    policy = replace(POLICY, reserve_after=0.0)
    planner = Planner(cluster, tight, policy)
    assert planner.decide([replace(hog, duration=50.0)], 0.0).placements
    next_one = plain_gang("next", group("next", 2, of=plain_shape(0, 9000)))
    waiting = Gang("g", (*pairs, last)), replace(next_one, created=1.0)
    turns = planner.begin(waiting, 10.0)
    for each in turns.turns:
        if each.name == "next":
            assert turns.reservation is not None
            cluster.snapshot.put_node(small)
        turns.take_turn(each)
    assert [each.gang.name for each in turns.refusals] == ["g", "next"]
    assert turns.refusals[1].why == NoRoom()
