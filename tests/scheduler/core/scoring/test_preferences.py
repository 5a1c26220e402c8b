"""Soft constraints decide between feasible nodes, and never make a pod unschedulable."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from kilonova.scheduler.core.model.cluster import Cluster
from kilonova.scheduler.core.model.gangs import Gang, Group, Member
from kilonova.scheduler.core.model.nodes import Node
from kilonova.scheduler.core.model.pod_affinity import (
    AffinityTerm,
    PodAffinityRules,
    PodSelector,
    TopologySpread,
)
from kilonova.scheduler.core.model.requests import Shape
from kilonova.scheduler.core.model.requirements import NodeSelectorTerm, Requirement
from kilonova.scheduler.core.model.taints import Taint, Toleration
from kilonova.scheduler.core.planner import Planner
from kilonova.scheduler.core.scoring.plugins import default_scoring
from tests.scheduler.core.support.clusters import RACK, node, shape

OTHERS = Taint("dedicated", "PreferNoSchedule", "others")
PLAIN = shape(0)
WEB = {"app": "web"}


def rack(name: str, weight: int = 1) -> tuple[int, NodeSelectorTerm]:
    return weight, NodeSelectorTerm((Requirement(RACK, "In", (name,)),))


def placed(nodes: Sequence[Node], asked: Sequence[Shape]) -> list[str]:
    """The nodes of pods placed one after the other."""
    cluster = Cluster()
    for each in nodes:
        cluster.snapshot.put_node(each)
    planner = Planner(cluster, default_scoring())
    for number, each in enumerate(asked):
        member = Member(f"ns/p{number}", each, labels=WEB)
        gang = Gang(f"g{number}", (Group("g", (member,), 1),))
        assert planner.schedule([gang], 0.0).placements, number
    placements = cluster.snapshot.placements
    return [cluster.snapshot.names[placements[f"ns/p{n}"].row] for n in range(len(asked))]


BARE = node("bare", gpus=0)
"""Where pods without GPUs go without soft constraints."""


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
        ([BARE, node("a", rack="r1")], replace(PLAIN, preferred_node_terms=(rack("r1"),)), "a"),
        (
            [BARE, node("a", rack="r1"), node("b", rack="r2")],
            replace(PLAIN, preferred_node_terms=(rack("r1", 10), rack("r2", 90))),
            "b",
        ),
        ([BARE, node("a", rack="r1")], replace(PLAIN, preferred_node_terms=(rack("r9"),)), "bare"),
    ],
    ids=[
        "no preferences",
        "a PreferNoSchedule taint",
        "a tolerated PreferNoSchedule taint",
        "a preference excludes no other node",
        "a preferred node",
        "the preference with more weight",
        "a preference that no node meets",
    ],
)
def test_pod_goes_where_preferences_are_met(nodes: list[Node], asked: Shape, where: str) -> None:
    assert placed(nodes, [asked]) == [where]


def test_pods_follow_preferred_affinity_and_anti_affinity() -> None:
    racks = [node("a0", rack="a"), node("a1", rack="a"), node("b0", rack="b")]
    web = AffinityTerm(PodSelector(frozenset({"ns"}), (Requirement("app", "In", ("web",)),)), RACK)
    first = replace(PLAIN, preferred_node_terms=(rack("b"),))
    near = replace(PLAIN, pod_rules=PodAffinityRules(preferred=((1, web),)))
    away = replace(PLAIN, pod_rules=PodAffinityRules(preferred=((-1, web),)))
    assert placed(racks, [first, near]) == ["b0", "b0"]
    assert placed(racks, [first, away])[1] in ("a0", "a1")


def test_preferred_spread_spreads_pods() -> None:
    racks = [node(f"{name}{index}", rack=name) for name in "abc" for index in range(2)]
    kind = PodSelector(frozenset({"ns"}), (Requirement("app", "In", ("web",)),))
    spread = replace(
        PLAIN,
        pod_rules=PodAffinityRules(
            topology_spread=(TopologySpread(kind, RACK, 1, required=False),)
        ),
    )
    where = placed(racks, [spread] * 6)
    assert sorted(name[0] for name in where) == ["a", "a", "b", "b", "c", "c"]


def test_taint_added_later_affects_score() -> None:
    cluster = Cluster()
    for each in (BARE, node("full")):
        cluster.snapshot.put_node(each)
    planner = Planner(cluster, default_scoring())

    def place(name: str) -> str:
        gang = Gang(name, (Group("g", (Member(name, PLAIN),), 1),))
        planner.schedule([gang], 0.0)
        return cluster.snapshot.names[cluster.snapshot.placements[name].row]

    assert place("ns/before") == "bare"
    cluster.snapshot.put_node(replace(BARE, taints=(OTHERS,)))
    assert place("ns/after") == "full"
