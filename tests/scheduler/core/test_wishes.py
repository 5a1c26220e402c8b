"""What pods and nodes prefer decides where there is room, and never keeps a pod from its place."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from kilonova.scheduler.core.asks import Shape
from kilonova.scheduler.core.cluster import Cluster
from kilonova.scheduler.core.gangs import Gang, Group, Member
from kilonova.scheduler.core.nodes import Node
from kilonova.scheduler.core.peers import Kind, Peers, Spread, Term
from kilonova.scheduler.core.plan import Planner
from kilonova.scheduler.core.requirements import NodeTerm, Requirement
from kilonova.scheduler.core.scores import default_scoring
from kilonova.scheduler.core.taints import Taint, Toleration
from tests.scheduler.core.clusters import RACK, node, shape

OTHERS = Taint("dedicated", "PreferNoSchedule", "others")
PLAIN = shape(0)
WEB = {"app": "web"}


def rack(name: str, weight: int = 1) -> tuple[int, NodeTerm]:
    return weight, NodeTerm((Requirement(RACK, "In", (name,)),))


def placed(nodes: Sequence[Node], asked: Sequence[Shape]) -> list[str]:
    """Where pods went that came one after the other."""
    cluster = Cluster()
    for each in nodes:
        cluster.snapshot.put_node(each)
    planner = Planner(cluster, default_scoring())
    for number, each in enumerate(asked):
        member = Member(f"ns/p{number}", each, labels=WEB)
        gang = Gang(f"g{number}", (Group("g", (member,), 1),))
        assert planner.decide([gang], 0.0).placements, number
    bookings = cluster.snapshot.bookings
    return [cluster.snapshot.names[bookings[f"ns/p{n}"].row] for n in range(len(asked))]


BARE = node("bare", gpus=0)
"""Where pods without GPUs go if nobody wishes for something else."""


@pytest.mark.parametrize(
    ("nodes", "asked", "where"),
    [
        ([BARE, node("full")], PLAIN, "bare"),
        ([replace(BARE, taints=(OTHERS,)), node("full")], PLAIN, "full"),
        (
            [replace(BARE, taints=(OTHERS,)), node("full")],
            replace(PLAIN, tolerations=(Toleration("dedicated", "Exists"),)),
            "bare",
        ),
        ([replace(BARE, taints=(OTHERS,))], PLAIN, "bare"),
        ([BARE, node("a", rack="r1")], replace(PLAIN, preferred=(rack("r1"),)), "a"),
        (
            [BARE, node("a", rack="r1"), node("b", rack="r2")],
            replace(PLAIN, preferred=(rack("r1", 10), rack("r2", 90))),
            "b",
        ),
        ([BARE, node("a", rack="r1")], replace(PLAIN, preferred=(rack("r9"),)), "bare"),
    ],
    ids=[
        "nobody wishes",
        "a node would rather have others",
        "not those that tolerate it",
        "a wish keeps nobody away",
        "a node that is preferred",
        "the heavier wish",
        "a wish that nobody fulfils",
    ],
)
def test_a_pod_goes_where_wishes_are_fulfilled(nodes: list[Node], asked: Shape, where: str) -> None:
    assert placed(nodes, [asked]) == [where]


def test_pods_stand_near_those_they_like_and_away_from_others() -> None:
    racks = [node("a0", rack="a"), node("a1", rack="a"), node("b0", rack="b")]
    web = Term(Kind(frozenset({"ns"}), (Requirement("app", "In", ("web",)),)), RACK)
    first = replace(PLAIN, preferred=(rack("b"),))
    near = replace(PLAIN, peers=Peers(liked=((1, web),)))
    away = replace(PLAIN, peers=Peers(liked=((-1, web),)))
    assert placed(racks, [first, near]) == ["b0", "b0"]
    assert placed(racks, [first, away])[1] in ("a0", "a1")


def test_pods_spread_though_nobody_insists() -> None:
    racks = [node(f"{name}{index}", rack=name) for name in "abc" for index in range(2)]
    kind = Kind(frozenset({"ns"}), (Requirement("app", "In", ("web",)),))
    spread = replace(PLAIN, peers=Peers(spreads=(Spread(kind, RACK, 1, required=False),)))
    where = placed(racks, [spread] * 6)
    assert sorted(name[0] for name in where) == ["a", "a", "b", "b", "c", "c"]


def test_a_taint_that_comes_later_counts() -> None:
    cluster = Cluster()
    for each in (BARE, node("full")):
        cluster.snapshot.put_node(each)
    planner = Planner(cluster, default_scoring())

    def place(name: str) -> str:
        gang = Gang(name, (Group("g", (Member(name, PLAIN),), 1),))
        planner.decide([gang], 0.0)
        return cluster.snapshot.names[cluster.snapshot.bookings[name].row]

    assert place("ns/before") == "bare"
    cluster.snapshot.put_node(replace(BARE, taints=(OTHERS,)))
    assert place("ns/after") == "full"
