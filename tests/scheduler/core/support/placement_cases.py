"""Small, partly used clusters with one pending gang each, drawn from a seed. Few nodes with little
left, several shapes, groups, bundles and segments: feasibility is hard to see."""

from dataclasses import replace
from random import Random

import numpy as np

from kilonova.catalog.resource_names import GPU
from kilonova.scheduler.core.filters.feasibility import count_fitting
from kilonova.scheduler.core.gpu.assignment import make_placements
from kilonova.scheduler.core.model.cluster import Cluster
from kilonova.scheduler.core.model.gangs import (
    Gang,
    GangAntiAffinity,
    Group,
    GroupBundle,
    Member,
    PackConstraint,
    SegmentConstraint,
)
from kilonova.scheduler.core.model.nodes import Node
from kilonova.scheduler.core.model.requests import GpuRequest, Shape
from kilonova.scheduler.core.model.snapshot import Snapshot
from tests.scheduler.core.support.clusters import BLOCK, RACK
from tests.scheduler.core.support.random_clusters import shape_of

POOL = "pool"
WHOLE = tuple(shape_of(cpu, GpuRequest(count)) for cpu in (500, 2000) for count in (1, 2, 3, 4))
SHARES = tuple(shape_of(100, GpuRequest(*ask)) for ask in ((1, 500), (1, 300), (1, 700), (2, 400)))
CPU = (shape_of(1000), shape_of(3000))
LEVELS = (BLOCK, RACK)


def placement_case(seed: int) -> tuple[Cluster, Gang]:
    """A cluster and a pending gang."""
    dice = Random(seed)
    cluster = Cluster()
    put_nodes(dice, cluster, dice.randint(1, 6))
    _place_other_pods(dice, cluster.snapshot)
    gang = random_gang(dice, "gang", cluster.snapshot)
    if dice.random() < 0.1:
        apart = GangAntiAffinity(
            dice.choice((RACK, BLOCK)), dice.random() < 0.7, avoided_nodes=("n0",)
        )
        gang = replace(gang, anti_affinity=apart)
    return cluster, gang


def put_nodes(dice: Random, cluster: Cluster, count: int) -> None:
    """Adds nodes n0, n1, …"""
    for index in range(count):
        cluster.snapshot.put_node(_node(dice, f"n{index}"))


def _node(dice: Random, name: str) -> Node:
    labels: dict[str, str] = {}
    if dice.random() < 0.85:
        rack = dice.randint(0, 2)
        labels = {RACK: f"r{rack}", BLOCK: f"b{rack // 2}"}
    if dice.random() < 0.5:
        labels[POOL] = dice.choice("ab")
    amounts = {
        "cpu": dice.choice((2000, 4000, 6000)),
        "memory": 64 << 30,
        "pods": dice.choice((2, 4, 10)),
        GPU: dice.choice((0, 1, 2, 2, 3, 4, 8)),
    }
    return Node(name, amounts, labels)


def _place_other_pods(dice: Random, snapshot: Snapshot) -> None:
    """Places pods of other gangs at random."""
    for index in range(dice.choice((0, 0, 2, 4))):
        _place_pod(
            dice, snapshot, Member(f"ns/other-{index}", dice.choice((*WHOLE, *SHARES))), "other"
        )


def _place_pod(dice: Random, snapshot: Snapshot, member: Member, gang: str) -> str | None:
    """Places a pod on any node on which it fits; returns the node."""
    rows = np.arange(snapshot.size)
    feasible = np.flatnonzero(count_fitting(snapshot, member.shape, rows) > 0).tolist()
    if not feasible:
        return None
    row = dice.choice(feasible)
    snapshot.add_pods(make_placements(snapshot, row, [member], gang))
    return snapshot.names[row]


def random_gang(dice: Random, name: str, snapshot: Snapshot | None = None) -> Gang:
    """A gang that requires some pods; with a snapshot, other pods of it may be placed already."""
    count = dice.choice((1, 2, 2, 3, 4))
    most = {1: 7, 2: 4, 3: 3, 4: 2}[count]
    shapes = _shapes(dice)
    names = (f"{name}.{index}" for index in range(count))
    groups = tuple(_group(dice, snapshot, each, most, shapes) for each in names)
    bundles: tuple[GroupBundle, ...] = ()
    if count > 1 and dice.random() < 0.3:
        inside = tuple(group.name for group in groups[: dice.randint(1, count)])
        bundles = (GroupBundle(inside, _pack(dice)),)
    pack = _pack(dice) if dice.random() < 0.5 else PackConstraint()
    gang = Gang(name, groups, pack, bundles)
    return gang if gang.needed else replace(gang, groups=(_first_needed(groups[0]), *groups[1:]))


def _first_needed(group: Group) -> Group:
    return replace(group, minimum=len(group.placed_nodes) + len(group.members))


def _shapes(dice: Random) -> tuple[Shape, ...]:
    """The shapes of a gang: few different ones."""
    kinds = dice.choice((WHOLE, WHOLE, (*WHOLE, *SHARES), SHARES, (*WHOLE, *CPU)))
    return tuple(_selecting(dice, dice.choice(kinds)) for _ in range(dice.randint(1, 3)))


def _selecting(dice: Random, shape: Shape) -> Shape:
    chance = dice.random()
    if chance < 0.15:
        return replace(shape, node_selector=((POOL, dice.choice("ab")),))
    return replace(shape, node_selector=((RACK, "r0"),)) if chance < 0.2 else shape


def _pack(dice: Random) -> PackConstraint:
    required = dice.choice(("", "", RACK, BLOCK))
    return PackConstraint(required, dice.choice(("", "", "", RACK)))


def _group(
    dice: Random, snapshot: Snapshot | None, name: str, most: int, shapes: tuple[Shape, ...]
) -> Group:
    count = dice.randint(1, most)
    several = dice.random() < 0.3
    first = dice.choice(shapes)
    members = [
        Member(f"ns/{name}-{rank}", dice.choice(shapes) if several else first)
        for rank in range(count)
    ]
    minimum = count if dice.random() < 0.8 else dice.randint(0, count)
    segments = None
    if dice.random() < 0.2:
        segments = SegmentConstraint(dice.randint(1, 3), dice.choice((RACK, BLOCK)))
    placed: list[str] = []
    running_gangs: list[Member] = []
    if snapshot is not None and dice.random() < 0.1:
        node = _place_pod(dice, snapshot, members[0], "gang")
        if node is not None:
            placed, running_gangs = [node], [members.pop(0)]
            if not members:
                members = [replace(running_gangs[0], pod=f"ns/{name}-more")]
    return Group(
        name,
        tuple(members),
        minimum,
        _pack(dice),
        segments,
        tuple(placed),
        tuple(running_gangs),
    )
