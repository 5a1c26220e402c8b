"""Small clusters in which preemption can be judged exactly: every set of victims is tried."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, combinations
from random import Random

from kilonova.catalog.resource_names import GPU
from kilonova.scheduler.core.gpu.layout import GpuShare
from kilonova.scheduler.core.model.cluster import Cluster, RunningGang, gang_charges
from kilonova.scheduler.core.model.gangs import Gang, Group, Member, PackConstraint
from kilonova.scheduler.core.model.nodes import Node
from kilonova.scheduler.core.model.pod_placement import PodPlacement
from kilonova.scheduler.core.model.requests import GpuRequest, Shape
from kilonova.scheduler.core.preemption.rules import (
    PotentialVictim,
    Preemptor,
    find_preemption_protection,
    find_reclaim_protection,
)
from kilonova.scheduler.core.queueing.forest import build_queue_forest
from kilonova.scheduler.core.queueing.queues import QueueSpec

ZONE = "example.com/zone"
NOW = 1000.0
QUEUES = ("a", "b", "c")
BUDGETS = ("ns/one", "ns/two")

Victim = tuple[str, frozenset[str]]
"""A gang, and those of its pods that are evicted together."""


def shape(gpus: int, cpu: int = 1000) -> Shape:
    requests = {"cpu": cpu, "memory": 1 << 30, "pods": 1, **({GPU: gpus} if gpus else {})}
    return Shape(tuple(sorted(requests.items())), GpuRequest(gpus) if gpus else None)


def node(name: str, gpus: int, zone: str = "") -> Node:
    allocatable = {"cpu": 256_000, "memory": 1 << 40, "pods": 110, GPU: gpus}
    return Node(name, allocatable, {ZONE: zone} if zone else {})


def place_gang(
    cluster: Cluster,
    gang: Gang,
    places: Sequence[tuple[str, tuple[int, ...]]],
    age: float = 0.0,
) -> None:
    """Places a gang of one group: its members on nodes, with devices."""
    group = gang.groups[0]
    placements = [
        PodPlacement(member, cluster.snapshot.row(name), tuple(map(GpuShare, devices)), gang.name)
        for member, (name, devices) in zip(group.placed_members, places, strict=True)
    ]
    cluster.snapshot.add_pods(placements)
    cluster.record_placed(gang, placements, NOW - age)


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
    """A running gang of one group, each pod with as many GPUs as devices are named."""
    members = tuple(
        Member(f"ns/{name}-{index}", shape(len(devices), cpu), budgets=budgets)
        for index, (_, devices) in enumerate(places)
    )
    nodes = tuple(each for each, _ in places)
    least = len(members) if minimum is None else minimum
    group = Group(name, (), least, placed_nodes=nodes, placed_members=members)
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
    """A pending gang of equal pods."""
    of = shape(gpus, cpu)
    members = tuple(Member(f"ns/{name}-{index}", of) for index in range(pods))
    pack = PackConstraint(required=ZONE) if zone else PackConstraint()
    return Gang(
        name, (Group(name, members, pods),), pack, queue=queue, priority=priority, created=NOW
    )


def random_case(dice: Random) -> tuple[Cluster, Gang]:
    """Up to four nodes, up to six gangs on them, and a pending one."""
    cluster = Cluster(build_queue_forest(_queues(dice)))
    free: dict[str, list[int]] = {}
    for index in range(dice.randint(1, 4)):
        each = node(f"n{index}", dice.randint(1, 4), dice.choice(("", "z0", "z1")))
        cluster.snapshot.put_node(each)
        free[each.name] = dice.sample(range(each.allocatable[GPU]), each.allocatable[GPU])
    for index in range(dice.randint(1, 6)):
        places = list(_iter_slots(dice, free))
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
            place_gang(cluster, gang, places, dice.choice((1.0, 10.0, 100.0)))
    cluster.budgets = {each: dice.randint(0, 3) for each in BUDGETS}
    pending_gang = pending(
        "w",
        dice.randint(1, 3),
        dice.randint(1, 2),
        queue=dice.choice(QUEUES),
        priority=dice.randint(0, 3),
        zone=dice.random() < 0.3,
        cpu=dice.choice((1000, 2000)),
    )
    return cluster, pending_gang


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


def _iter_slots(dice: Random, free: dict[str, list[int]]) -> Iterator[tuple[str, tuple[int, ...]]]:
    for _ in range(dice.randint(1, 4)):
        gpus, name = dice.randint(1, 2), dice.choice(sorted(free))
        if len(free[name]) >= gpus:
            yield name, tuple(free[name].pop() for _ in range(gpus))


@dataclass(frozen=True)
class PreemptionOracle:
    """Which victims are permitted and sufficient, computed by brute force for a gang of equal
    pods."""

    cluster: Cluster
    gang: Gang

    def victims(self) -> list[Victim]:
        """All eviction units: surplus pods one by one, and whole gangs."""
        found: list[Victim] = []
        for name, running_gang in sorted(self.cluster.running_gangs.items()):
            group = running_gang.gang.groups[0]
            pods = [member.pod for member in group.placed_members]
            found += [(name, frozenset({pod})) for pod in pods[group.minimum :]]
            found.append((name, frozenset(pods)))
        return found

    def choices(self) -> Iterator[tuple[Victim, ...]]:
        """All sets of victims that are permitted and sufficient."""
        feasible = [each for each in self.victims() if self._running_gang(each).gang.preemptible]
        sets = chain.from_iterable(
            combinations(feasible, count) for count in range(len(feasible) + 1)
        )
        return (each for each in sets if self.is_choice(each))

    def is_choice(self, victims: Sequence[Victim]) -> bool:
        pods = [pod for _, some in victims for pod in some]
        if len(set(pods)) < len(pods):
            return False
        return self.is_sufficient(pods) and self.is_entitled(victims)

    def is_sufficient(self, removed: Iterable[str]) -> bool:
        """Whether the gang fits without some pods: only GPUs are scarce."""
        group, snapshot = self.gang.groups[0], self.cluster.snapshot
        request = group.members[0].shape.gpu
        assert request is not None
        removed = set(removed)
        capacity: dict[str, int] = {}
        for each in snapshot.nodes():
            there = snapshot.pods_on[snapshot.row(each.name)].values()
            used = sum(len(b.devices) for b in there if b.pod not in removed)
            fits = (each.allocatable[GPU] - used) // request.count
            zone = each.labels.get(ZONE, "") if self.gang.pack.required else "anywhere"
            if zone:
                capacity[zone] = capacity.get(zone, 0) + fits
        return max(capacity.values(), default=0) >= group.minimum

    def is_entitled(self, victims: Sequence[Victim]) -> bool:
        """Whether all may be evicted together: each is permitted when all others are evicted, and
        no limit or disruption budget is exceeded."""
        gang, used, left = self.gang, self.cluster.used.copy(), dict(self.cluster.budgets)
        preemptor = Preemptor(gang.queue, gang_charges(gang), gang.priority)
        for victim in victims:
            used.discharge(self._running_gang(victim).gang.queue, self._amounts(victim))
            for pod in victim[1]:
                for budget in self.cluster.snapshot.placements[pod].member.budgets:
                    left[budget] -= 1
        if (
            used.first_exceeded_limit(gang.queue, preemptor.amounts)
            or min(left.values(), default=0) < 0
        ):
            return False
        for victim in victims:
            other, since = self._running_gang(victim).gang, self._running_gang(victim).since
            amounts = self._amounts(victim)
            with_it = used.copy()
            with_it.charge(other.queue, amounts)
            holder = PotentialVictim(other.queue, amounts, since, other.priority, other.preemptible)
            keeps = (
                find_preemption_protection if other.queue == gang.queue else find_reclaim_protection
            )
            if keeps(with_it, preemptor, holder, NOW) is not None:
                return False
        return True

    def _running_gang(self, victim: Victim) -> RunningGang:
        return self.cluster.running_gangs[victim[0]]

    def _amounts(self, victim: Victim) -> dict[str, int]:
        total: dict[str, int] = {}
        for pod in victim[1]:
            for name, amount in self._running_gang(victim).pods[pod].items():
                total[name] = total.get(name, 0) + amount
        return total
