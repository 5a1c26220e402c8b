"""Small clusters in which preemption can be judged exactly: every set of victims is looked at."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, combinations
from random import Random

from kilonova.scheduler.core.asks import GpuAsk, Shape
from kilonova.scheduler.core.cluster import Cluster, Standing, asked
from kilonova.scheduler.core.devices import Share
from kilonova.scheduler.core.forest import forest_of
from kilonova.scheduler.core.gangs import Gang, Group, Member, Pack
from kilonova.scheduler.core.nodes import Node
from kilonova.scheduler.core.queues import QueueSpec
from kilonova.scheduler.core.rights import (
    Claimant,
    Holder,
    kept_from_preemption,
    kept_from_reclaim,
)
from kilonova.scheduler.core.snapshot import GPU, Booking

ZONE = "example.com/zone"
NOW = 1000.0
QUEUES = ("a", "b", "c")
BUDGETS = ("ns/one", "ns/two")

Victim = tuple[str, frozenset[str]]
"""A gang, and its pods that go together."""


def shape(gpus: int, cpu: int = 1000) -> Shape:
    requests = {"cpu": cpu, "memory": 1 << 30, "pods": 1, **({GPU: gpus} if gpus else {})}
    return Shape(tuple(sorted(requests.items())), GpuAsk(gpus) if gpus else None)


def node(name: str, gpus: int, zone: str = "") -> Node:
    allocatable = {"cpu": 256_000, "memory": 1 << 40, "pods": 110, GPU: gpus}
    return Node(name, allocatable, {ZONE: zone} if zone else {})


def stand(
    cluster: Cluster,
    gang: Gang,
    places: Sequence[tuple[str, tuple[int, ...]]],
    age: float = 0.0,
) -> None:
    """Lets a gang of one group stand: its members on nodes, with devices."""
    group = gang.groups[0]
    bookings = [
        Booking(member, cluster.snapshot.row(name), tuple(map(Share, devices)), gang.name)
        for member, (name, devices) in zip(group.standing, places, strict=True)
    ]
    cluster.snapshot.book_all(bookings)
    cluster.stand(gang, bookings, NOW - age)


def running(
    name: str,
    places: Sequence[tuple[str, tuple[int, ...]]],
    minimum: int | None = None,
    *,
    queue: str = "default",
    priority: int = 0,
    preemptible: bool = True,
    budgets: tuple[str, ...] = (),
    cpu: int = 1000,
) -> Gang:
    """A gang of one group whose pods have places, each with so many GPUs as devices are named."""
    members = tuple(
        Member(f"ns/{name}-{index}", shape(len(devices), cpu), budgets=budgets)
        for index, (_, devices) in enumerate(places)
    )
    nodes = tuple(each for each, _ in places)
    least = len(members) if minimum is None else minimum
    group = Group(name, (), least, placed=nodes, standing=members)
    return Gang(name, (group,), queue=queue, priority=priority, preemptible=preemptible)


def pending(
    name: str,
    pods: int,
    gpus: int,
    *,
    queue: str = "default",
    priority: int = 0,
    zone: bool = False,
    cpu: int = 1000,
) -> Gang:
    """A gang of equal pods without places."""
    of = shape(gpus, cpu)
    members = tuple(Member(f"ns/{name}-{index}", of) for index in range(pods))
    pack = Pack(required=ZONE) if zone else Pack()
    return Gang(
        name, (Group(name, members, pods),), pack, queue=queue, priority=priority, created=NOW
    )


def world(dice: Random) -> tuple[Cluster, Gang]:
    """Up to four nodes, up to six gangs on them, and one that waits."""
    cluster = Cluster(forest_of(_queues(dice)))
    free: dict[str, list[int]] = {}
    for index in range(dice.randint(1, 4)):
        each = node(f"n{index}", dice.randint(1, 4), dice.choice(("", "z0", "z1")))
        cluster.snapshot.put_node(each)
        free[each.name] = dice.sample(range(each.allocatable[GPU]), each.allocatable[GPU])
    for index in range(dice.randint(1, 6)):
        places = list(_places(dice, free))
        if places:
            gang = running(
                f"s{index}",
                places,
                dice.randint(1, len(places)),
                queue=dice.choice(QUEUES),
                priority=dice.randint(0, 2),
                preemptible=dice.random() < 0.9,
                budgets=dice.choice(((), (), (), *((each,) for each in BUDGETS))),
                cpu=dice.choice((1000, 2000)),
            )
            stand(cluster, gang, places, dice.choice((1.0, 10.0, 100.0)))
    cluster.budgets = {each: dice.randint(0, 3) for each in BUDGETS}
    waiting = pending(
        "w",
        dice.randint(1, 3),
        dice.randint(1, 2),
        queue=dice.choice(QUEUES),
        priority=dice.randint(0, 3),
        zone=dice.random() < 0.3,
        cpu=dice.choice((1000, 2000)),
    )
    return cluster, waiting


def _queues(dice: Random) -> list[QueueSpec]:
    parents = {"a": dice.choice(("", "top")), "b": dice.choice(("", "top")), "c": ""}
    specs = [QueueSpec("top")]
    for name in QUEUES:
        deserved = {GPU: 1000 * dice.randint(0, 4)} if dice.random() < 0.8 else {}
        if dice.random() < 0.3:
            deserved["cpu"] = 1000 * dice.randint(1, 6)
        limit = {GPU: 1000 * dice.randint(1, 6)} if dice.random() < 0.2 else {}
        young = dice.choice((None, None, 5.0))
        specs.append(QueueSpec(name, parents[name], deserved, limit, reclaim_min_runtime=young))
    return specs


def _places(dice: Random, free: dict[str, list[int]]) -> Iterator[tuple[str, tuple[int, ...]]]:
    for _ in range(dice.randint(1, 4)):
        gpus, name = dice.randint(1, 2), dice.choice(sorted(free))
        if len(free[name]) >= gpus:
            yield name, tuple(free[name].pop() for _ in range(gpus))


@dataclass(frozen=True)
class Judge:
    """What is right and what is enough, worked out the long way for a gang of equal pods."""

    cluster: Cluster
    gang: Gang

    def victims(self) -> list[Victim]:
        """All that might leave: pods beyond a minimum one by one, and whole gangs."""
        found: list[Victim] = []
        for name, standing in sorted(self.cluster.standing.items()):
            group = standing.gang.groups[0]
            pods = [member.pod for member in group.standing]
            found += [(name, frozenset({pod})) for pod in pods[group.minimum :]]
            found.append((name, frozenset(pods)))
        return found

    def choices(self) -> Iterator[tuple[Victim, ...]]:
        """All sets of victims that are right and enough."""
        able = [each for each in self.victims() if self._standing(each).gang.preemptible]
        sets = chain.from_iterable(combinations(able, count) for count in range(len(able) + 1))
        return (each for each in sets if self.is_choice(each))

    def is_choice(self, victims: Sequence[Victim]) -> bool:
        pods = [pod for _, some in victims for pod in some]
        if len(set(pods)) < len(pods):
            return False
        return self.is_enough(pods) and self.is_lawful(victims)

    def is_enough(self, gone: Iterable[str]) -> bool:
        """Whether the nodes have room without some pods: nothing but GPUs is scarce."""
        group, snapshot = self.gang.groups[0], self.cluster.snapshot
        ask = group.members[0].shape.gpu
        assert ask is not None
        gone = set(gone)
        room: dict[str, int] = {}
        for each in snapshot.nodes():
            there = snapshot.pods_on[snapshot.row(each.name)].values()
            used = sum(len(b.devices) for b in there if b.pod not in gone)
            fits = (each.allocatable[GPU] - used) // ask.count
            zone = each.labels.get(ZONE, "") if self.gang.pack.required else "anywhere"
            if zone:
                room[zone] = room.get(zone, 0) + fits
        return max(room.values(), default=0) >= group.minimum

    def is_lawful(self, victims: Sequence[Victim]) -> bool:
        """Whether all may be taken together: each by right when all others are gone, and no limit
        and no disruption budget is broken."""
        gang, used, left = self.gang, self.cluster.used.copy(), dict(self.cluster.budgets)
        claimant = Claimant(gang.queue, asked(gang), gang.priority)
        for victim in victims:
            used.discharge(self._standing(victim).gang.queue, self._amounts(victim))
            for pod in victim[1]:
                for budget in self.cluster.snapshot.bookings[pod].member.budgets:
                    left[budget] -= 1
        if used.blocked(gang.queue, claimant.amounts) or min(left.values(), default=0) < 0:
            return False
        for victim in victims:
            other, since = self._standing(victim).gang, self._standing(victim).since
            amounts = self._amounts(victim)
            with_it = used.copy()
            with_it.charge(other.queue, amounts)
            holder = Holder(other.queue, amounts, since, other.priority, other.preemptible)
            keeps = kept_from_preemption if other.queue == gang.queue else kept_from_reclaim
            if keeps(with_it, claimant, holder, NOW) is not None:
                return False
        return True

    def _standing(self, victim: Victim) -> Standing:
        return self.cluster.standing[victim[0]]

    def _amounts(self, victim: Victim) -> dict[str, int]:
        total: dict[str, int] = {}
        for pod in victim[1]:
            for name, amount in self._standing(victim).pods[pod].items():
                total[name] = total.get(name, 0) + amount
        return total
