"""Which pods would have to go for a gang: never more than an exhaustive search over all sets of
pods finds, and the gang is placed when they are gone.

`KILONOVA_WORLDS` is how many random worlds are looked at (`make faults`: more of them).
"""

import os
from dataclasses import dataclass, replace
from itertools import combinations
from random import Random

from kilonova.scheduler.core.asks import Shape
from kilonova.scheduler.core.cluster import Cluster
from kilonova.scheduler.core.devices import Share
from kilonova.scheduler.core.explaining import Explanation, explain
from kilonova.scheduler.core.explaining.changes import Free
from kilonova.scheduler.core.explaining.proposing import MOST_PROPOSALS
from kilonova.scheduler.core.gangs import Gang, Group, Member, Pack
from kilonova.scheduler.core.plan import NoRoom, Planner, Policy
from kilonova.scheduler.core.snapshot import Booking
from tests.scheduler.core.clusters import BLOCK, RACK, gang, group, node, shape, tight
from tests.scheduler.core.refused import cluster_of, done, job

WORLDS = int(os.environ.get("KILONOVA_WORLDS", "400"))
POLICY = Policy((BLOCK, RACK), evicts=False, reserve_after=1e9)
SHAPES = (
    shape(1),
    shape(1),
    shape(2),
    shape(4),
    shape(1, milli=300),
    shape(1, milli=500),
    shape(0, 500),
    shape(0, 2000),
    shape(0, 6000),
)
PACKS = (Pack(), Pack(), Pack(), Pack(required=RACK), Pack(required=BLOCK))


@dataclass(frozen=True)
class World:
    """Nodes with running gangs, made anew each time it is asked for, and a gang that waits."""

    seed: int

    def make(self) -> tuple[Cluster, Gang]:
        dice = Random(self.seed)
        nodes = [
            node(
                f"n{index}",
                dice.choice((1, 2, 4)),
                dice.choice((4000, 8000)),
                rack=f"r{dice.randint(0, 1)}",
                block="b0",
            )
            for index in range(dice.randint(1, 4))
        ]
        running = [
            gang(f"r{index}", group(f"r{index}", dice.randint(1, 2), of=dice.choice(SHAPES)))
            for index in range(dice.randint(1, 6))
        ]
        groups = tuple(
            group(
                f"w{index}",
                dice.randint(1, 3),
                of=dice.choice(SHAPES),
                pack=dice.choice(PACKS),
            )
            for index in range(dice.randint(1, 2))
        )
        return cluster_of(nodes, running=running), Gang("x", groups, dice.choice(PACKS))


def is_placed_without(cluster: Cluster, pods: tuple[str, ...], waiting: Gang) -> bool:
    mark = cluster.snapshot.mark()
    cluster.snapshot.release_all(list(pods))
    placed = Planner(cluster, tight, POLICY).plan([waiting], 10.0).placements
    cluster.snapshot.undo(mark)
    return bool(placed)


def fewest(cluster: Cluster, waiting: Gang, fewer_than: int) -> tuple[str, ...] | None:
    """The smallest set of pods without which the gang has a place, by trying all of them."""
    pods = sorted(cluster.snapshot.bookings)
    for size in range(1, fewer_than):
        for chosen in combinations(pods, size):
            if is_placed_without(cluster, chosen, waiting):
                return chosen
    return None


def proposed(found: Explanation) -> list[Free]:
    return [each.change for each in found.changes if isinstance(each.change, Free)]


def test_no_set_of_fewer_pods_makes_room_than_the_one_proposed() -> None:
    several = 0
    for seed in range(WORLDS):
        cluster, waiting = World(seed).make()
        plan = Planner(cluster, tight, POLICY).plan([waiting], 10.0)
        if not plan.refusals:
            continue
        found = explain(cluster, tight, POLICY, waiting, plan.refusals[0].why, 10.0)
        changes = proposed(found)
        if not changes and len(found.changes) < MOST_PROPOSALS:
            assert fewest(cluster, waiting, 4) is None, f"world {seed}: {found.changes}"
        for change in changes:
            smaller = fewest(cluster, waiting, len(change.pods))
            assert smaller is None, f"world {seed}: {change.pods}, and {smaller} would do"
            changed, now = done(change, cluster, (), waiting, 10.0)
            placed = Planner(cluster, tight, POLICY).decide([changed], now).placements
            assert [each.gang.name for each in placed] == ["x"], f"world {seed}: {change}"
            several += len(change.pods) > 1
    assert several > WORLDS / 40


def stand(cluster: Cluster, name: str, node: str, of: Shape, *devices: Share) -> None:
    member = Member(f"ns/{name}", of)
    one = Gang(name, (Group("g", (), 1, placed=(node,), standing=(member,)),))
    booking = Booking(member, cluster.snapshot.row(node), devices, name)
    cluster.snapshot.book_all([booking])
    cluster.stand(one, [booking], 0.0)


def test_one_pod_goes_where_it_leaves_room_for_all() -> None:
    cluster = cluster_of([node(f"n{index}", 0, 2000) for index in range(3)])
    for index in range(3):
        stand(cluster, f"s{index}", f"n{index}", shape(0, 2000))
    waiting = gang("x", group("x", 3, of=shape(0, 500)))
    found = explain(cluster, tight, POLICY, waiting, NoRoom(), 10.0)
    assert found.changes[0].size == 1
    assert found.changes[0].text == "free 2 cpu on node n0, now used by s0"


def test_shares_of_gpus_are_told_as_shares() -> None:
    cluster = cluster_of([node("n0", 1)])
    stand(cluster, "s", "n0", shape(1, milli=500), Share(0, 500))
    waiting = gang("x", group("x", 3, of=shape(1, milli=300)))
    found = explain(cluster, tight, POLICY, waiting, NoRoom(), 10.0)
    assert found.binding.text == (
        "group x needs room for 3 pods and there is room for 1: 0.6 more nvidia.com/gpu are needed"
    )
    assert found.binding.lacking == 0.6
    assert found.changes[0].text == "free 0.5 nvidia.com/gpu on node n0, now used by s"


def test_an_elastic_gang_neither_waits_for_itself_nor_frees_its_own_pods() -> None:
    cluster = cluster_of([node("n0", 2)], running=[replace(job("x", 2), duration=100.0)])
    placed = cluster.standing["x"].gang.groups[0].members
    more = Group("x", (Member("ns/x-9", shape(1)),), 2, placed=("n0", "n0"), standing=placed)
    found = explain(cluster, tight, POLICY, gang("x", more), NoRoom(), 10.0)
    assert found.expected_start is None
    assert [each.text for each in found.changes] == ["add 1 node like n0"]
