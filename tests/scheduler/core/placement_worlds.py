"""Small clusters that are partly used, and one gang each that wants a place there: drawn by a seed.

Few nodes with little left, several shapes, groups, bundles and segments: what fits is hard to see.
"""

from dataclasses import replace
from random import Random

import numpy as np

from kilonova.scheduler.core.asks import GpuAsk, Shape
from kilonova.scheduler.core.cluster import Cluster
from kilonova.scheduler.core.gangs import Apart, Bundle, Gang, Group, Member, Pack, Segments
from kilonova.scheduler.core.giving import bookings_for
from kilonova.scheduler.core.nodes import Node
from kilonova.scheduler.core.rooms import fitting
from kilonova.scheduler.core.snapshot import GPU, Snapshot
from tests.scheduler.core.clusters import BLOCK, RACK
from tests.scheduler.core.random_clusters import shape_of

POOL = "pool"
WHOLE = tuple(shape_of(cpu, GpuAsk(count)) for cpu in (500, 2000) for count in (1, 2, 3, 4))
SHARES = tuple(shape_of(100, GpuAsk(*ask)) for ask in ((1, 500), (1, 300), (1, 700), (2, 400)))
CPU = (shape_of(1000), shape_of(3000))
LEVELS = (BLOCK, RACK)


def world(seed: int) -> tuple[Cluster, Gang]:
    """A cluster and a gang without a place."""
    dice = Random(seed)
    cluster = Cluster()
    put_nodes(dice, cluster, dice.randint(1, 6))
    _fill(dice, cluster.snapshot)
    gang = gang_of(dice, "gang", cluster.snapshot)
    if dice.random() < 0.1:
        apart = Apart(dice.choice((RACK, BLOCK)), dice.random() < 0.7, others=("n0",))
        gang = replace(gang, apart=apart)
    return cluster, gang


def put_nodes(dice: Random, cluster: Cluster, count: int) -> None:
    """Nodes n0, n1, …"""
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


def _fill(dice: Random, snapshot: Snapshot) -> None:
    """Others run here and there."""
    for index in range(dice.choice((0, 0, 2, 4))):
        _stand(dice, snapshot, Member(f"ns/other-{index}", dice.choice((*WHOLE, *SHARES))), "other")


def _stand(dice: Random, snapshot: Snapshot, member: Member, gang: str) -> str | None:
    """Books a pod on any node that has room for it; says which."""
    rows = np.arange(snapshot.size)
    able = np.flatnonzero(fitting(snapshot, member.shape, rows) > 0).tolist()
    if not able:
        return None
    row = dice.choice(able)
    snapshot.book_all(bookings_for(snapshot, row, [member], gang))
    return snapshot.names[row]


def gang_of(dice: Random, name: str, snapshot: Snapshot | None = None) -> Gang:
    """A gang that needs some pods; with a snapshot, others of its pods may stand there already."""
    count = dice.choice((1, 2, 2, 3, 4))
    most = {1: 7, 2: 4, 3: 3, 4: 2}[count]
    shapes = _shapes(dice)
    names = (f"{name}.{index}" for index in range(count))
    groups = tuple(_group(dice, snapshot, each, most, shapes) for each in names)
    bundles: tuple[Bundle, ...] = ()
    if count > 1 and dice.random() < 0.3:
        inside = tuple(group.name for group in groups[: dice.randint(1, count)])
        bundles = (Bundle(inside, _pack(dice)),)
    pack = _pack(dice) if dice.random() < 0.5 else Pack()
    gang = Gang(name, groups, pack, bundles)
    return gang if gang.needed else replace(gang, groups=(_first_needed(groups[0]), *groups[1:]))


def _first_needed(group: Group) -> Group:
    return replace(group, minimum=len(group.placed) + len(group.members))


def _shapes(dice: Random) -> tuple[Shape, ...]:
    """What the pods of a gang ask for: few different things."""
    kinds = dice.choice((WHOLE, WHOLE, (*WHOLE, *SHARES), SHARES, (*WHOLE, *CPU)))
    return tuple(_selecting(dice, dice.choice(kinds)) for _ in range(dice.randint(1, 3)))


def _selecting(dice: Random, shape: Shape) -> Shape:
    chance = dice.random()
    if chance < 0.15:
        return replace(shape, selector=((POOL, dice.choice("ab")),))
    return replace(shape, selector=((RACK, "r0"),)) if chance < 0.2 else shape


def _pack(dice: Random) -> Pack:
    required = dice.choice(("", "", RACK, BLOCK))
    return Pack(required, dice.choice(("", "", "", RACK)))


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
        segments = Segments(dice.randint(1, 3), dice.choice((RACK, BLOCK)))
    placed: list[str] = []
    standing: list[Member] = []
    if snapshot is not None and dice.random() < 0.1:
        node = _stand(dice, snapshot, members[0], "gang")
        if node is not None:
            placed, standing = [node], [members.pop(0)]
            if not members:
                members = [replace(standing[0], pod=f"ns/{name}-more")]
    return Group(
        name,
        tuple(members),
        minimum,
        _pack(dice),
        segments,
        tuple(placed),
        tuple(standing),
    )
