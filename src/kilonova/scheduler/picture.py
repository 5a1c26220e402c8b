"""A **picture**: all that a decision depends on, as one value that can be kept and sent elsewhere.

It is taken of a cluster at a moment, and a cluster that decides the same is made from it, here or
on another machine. Everything in it is in order of names, so that equal clusters give equal
pictures, however they came about.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from kilonova.scheduler.core.claimbook import Pool, PoolId, Written
from kilonova.scheduler.core.claims import Counter, Device
from kilonova.scheduler.core.cluster import Cluster, Standing
from kilonova.scheduler.core.devices import WHOLE
from kilonova.scheduler.core.forest import forest_of
from kilonova.scheduler.core.gangs import Gang
from kilonova.scheduler.core.history import History
from kilonova.scheduler.core.mig import MASKS
from kilonova.scheduler.core.nodes import Node
from kilonova.scheduler.core.plan import Planner, Policy
from kilonova.scheduler.core.queues import QueueSpec
from kilonova.scheduler.core.scores import Scoring, default_scoring
from kilonova.scheduler.core.snapshot import Booking
from kilonova.scheduler.plugins import plugged_in
from kilonova.scheduler.reading.cel import Selectors
from kilonova.scheduler.reading.gangs import NotYet


@dataclass(frozen=True, slots=True)
class PoolPicture:
    """A pool of devices that a driver publishes."""

    driver: str
    name: str
    devices: tuple[Device, ...]
    counters: tuple[tuple[Counter, int], ...]
    complete: bool
    nodes: frozenset[str]

    @staticmethod
    def of(id: PoolId, pool: Pool) -> "PoolPicture":
        counters = tuple(sorted(pool.counters.items()))
        return PoolPicture(*id, pool.devices, counters, pool.complete, pool.nodes)

    def pool(self) -> Pool:
        return Pool(self.devices, dict(self.counters), self.complete, self.nodes)


@dataclass(frozen=True, slots=True)
class Picture:
    """A cluster, who waits for a place in it, and what decisions go by. `ValueError` where parts of
    it contradict each other."""

    now: float
    policy: Policy
    weights: Mapping[str, float]
    """How much each part of the score counts, by its name."""
    nodes: tuple[Node, ...]
    bookings: tuple[Booking, ...]
    """The row of each is the position of its node in `nodes`."""
    standing: tuple[Standing, ...]
    waiting: tuple[Gang, ...]
    not_yet: Mapping[str, NotYet]
    """Gangs that cannot be placed as they are, whatever room there is."""
    queues: tuple[QueueSpec, ...]
    history: History
    budgets: Mapping[str, int]
    """How many pods each disruption budget lets go now."""
    pools: tuple[PoolPicture, ...]
    claims: Mapping[str, Written]
    """What claims to devices have, by their names, as everybody sees it."""
    priorities: Mapping[str, int]
    """What PriorityClasses stand for; pods that are not made yet name them."""
    never_preempting: tuple[str, ...] = ()
    """PriorityClasses whose pods never preempt."""

    def __post_init__(self) -> None:
        _without_twins("nodes", (node.name for node in self.nodes))
        _without_twins("bookings", (booking.pod for booking in self.bookings))
        _without_twins("standing", (one.gang.name for one in self.standing))
        _without_twins("waiting", (gang.name for gang in self.waiting))
        _without_twins("queues", (queue.name for queue in self.queues))
        booked = {booking.pod for booking in self.bookings}
        for booking in self.bookings:
            if not 0 <= booking.row < len(self.nodes):
                raise ValueError(f"{booking.pod} is on node {booking.row} of {len(self.nodes)}")
            layout = self.nodes[booking.row].layout
            for share in booking.devices:
                if layout is not None and not 0 <= share.index < len(layout.gpus):
                    raise ValueError(f"{booking.pod} has device {share.index}, which is not there")
                if not 0 <= share.milli <= WHOLE or not 0 <= share.mask < MASKS:
                    raise ValueError(
                        f"{booking.pod} has more of device {share.index} than there is"
                    )
        for one in self.standing:
            for pod in one.pods:
                if pod not in booked:
                    raise ValueError(f"{pod} of gang {one.gang.name} stands and is not booked")

    def cluster(self) -> Cluster:
        """A cluster as it was."""
        cluster = Cluster()
        for node in self.nodes:
            cluster.snapshot.put_node(node)
        if self.pools or self.claims:
            self._offer_devices(cluster)
        cluster.snapshot.book_all(self.bookings)
        cluster.standing = {
            one.gang.name: Standing(one.gang, one.since, dict(one.pods)) for one in self.standing
        }
        cluster.history = self.history
        cluster.budgets = dict(self.budgets)
        cluster.replace_queues(forest_of(self.queues))
        return cluster

    def _offer_devices(self, cluster: Cluster) -> None:
        book = cluster.snapshot.claims
        book.select_by(Selectors())
        for each in self.pools:
            book.put_pool((each.driver, each.name), each.pool())
        for name, written in self.claims.items():
            book.put_claim(name, written)

    def scoring(self) -> Scoring:
        """How nodes are weighed; `ValueError` where a part is not known here."""
        parts = default_scoring(extra=plugged_in(self.weights)).parts
        known = {part.name: part for part in parts}
        unknown = sorted(name for name, each in self.weights.items() if each and name not in known)
        if unknown:
            raise ValueError(
                f"a part of the score is not known here: {', '.join(unknown)} (known are "
                f"{', '.join(known)}); install what brings it, or give it no weight"
            )
        return Scoring(
            [replace(part, weight=self.weights.get(name, 0.0)) for name, part in known.items()]
        )

    def by_rules(self, policy: Policy, scoring: Scoring) -> "Picture":
        """The same cluster, decided about by other rules."""
        return replace(self, policy=policy, weights=_weights(scoring))

    def planner(self, cluster: Cluster) -> Planner:
        """Who decides about a cluster of this picture."""
        return Planner(cluster, self.scoring(), self.policy)


def picture_of(
    cluster: Cluster,
    waiting: Iterable[Gang],
    queues: Iterable[QueueSpec],
    policy: Policy,
    now: float,
    *,
    scoring: Scoring | None = None,
    not_yet: Mapping[str, NotYet] | None = None,
    pools: Mapping[PoolId, Pool] | None = None,
    claims: Mapping[str, Written] | None = None,
    priorities: Mapping[str, int] | None = None,
    never_preempting: Iterable[str] = (),
) -> Picture:
    """A cluster at a moment; `queues` are those that it was given, as people wrote them."""
    snapshot = cluster.snapshot
    nodes = snapshot.nodes()
    ranks = snapshot.ranks.tolist()
    return Picture(
        now=now,
        policy=policy,
        weights=_weights(scoring or default_scoring()),
        nodes=tuple(nodes),
        bookings=tuple(
            replace(booking, row=ranks[booking.row])
            for _, booking in sorted(snapshot.bookings.items())
        ),
        standing=tuple(one for _, one in sorted(cluster.standing.items())),
        waiting=tuple(sorted(waiting, key=lambda gang: gang.name)),
        not_yet=dict(sorted((not_yet or {}).items())),
        queues=tuple(sorted(map(_in_order, queues), key=lambda queue: queue.name)),
        history=cluster.history,
        budgets=dict(sorted(cluster.budgets.items())),
        pools=tuple(PoolPicture.of(id, pool) for id, pool in sorted((pools or {}).items())),
        claims=dict(sorted((claims or {}).items())),
        priorities=dict(sorted((priorities or {}).items())),
        never_preempting=tuple(sorted(never_preempting)),
    )


def _weights(scoring: Scoring) -> dict[str, float]:
    return {part.name: float(part.weight) for part in scoring.parts}


def _in_order(queue: QueueSpec) -> QueueSpec:
    """A queue with its amounts by name: of several limits, the first that is broken is told."""
    deserved, limit = dict(sorted(queue.deserved.items())), dict(sorted(queue.limit.items()))
    return replace(queue, deserved=deserved, limit=limit)


def _without_twins(what: str, names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ValueError(f"{name} is there twice among {what}")
        seen.add(name)
