"""All that is decided from: nodes and bookings, queues and what they use, gangs that stand."""

from collections import Counter
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Protocol

import numpy as np

from kilonova.scheduler.core.asks import Shape, is_for_queues
from kilonova.scheduler.core.claimcharges import Sharers, Successor, asked_by, by_claim
from kilonova.scheduler.core.claims import ClaimAsk
from kilonova.scheduler.core.devices import WHOLE
from kilonova.scheduler.core.forest import forest_of
from kilonova.scheduler.core.gangs import Gang
from kilonova.scheduler.core.history import History
from kilonova.scheduler.core.ledgers import Ledger
from kilonova.scheduler.core.queues import Amounts, Forest
from kilonova.scheduler.core.snapshot import GPU, PODS, Booking, Snapshot

_HALF_LIFE = 24 * 3600.0


@dataclass(slots=True)
class Standing:
    """A gang of which pods have a place. `amounts` is what they count in its queue."""

    gang: Gang
    since: float
    pods: dict[str, Amounts] = field(default_factory=dict[str, Amounts])


@dataclass(frozen=True, slots=True)
class Saved:
    """What `Cluster.save` keeps."""

    standing: dict[str, Standing]
    used: Ledger
    budgets: dict[str, int]
    sharers: Sharers


class Charges(Protocol):
    """Where what queues use is counted."""

    def charge(self, queue: str, amounts: Amounts) -> None: ...
    def discharge(self, queue: str, amounts: Amounts) -> None: ...


class Cluster:
    """Nodes, queues and gangs. Whoever changes bookings of gangs does it here, so that what queues
    use stays true; bookings of pods that belong to nobody's queue may go to the snapshot alone."""

    def __init__(self, forest: Forest | None = None, half_life: float = _HALF_LIFE) -> None:
        self.snapshot = Snapshot()
        self.used = Ledger(forest or forest_of(()))
        self.history = History(half_life)
        self.standing: dict[str, Standing] = {}
        self.priorities: dict[str, Counter[int]] = {}
        """How many gangs of which priority stand in each queue; none for queues without any."""
        self.budgets: dict[str, int] = {}
        """How many pods each disruption budget lets go now."""
        self._sharers = Sharers()
        self._sharers_lent = False
        """Whether the sharers are those of before a trial, which must not change."""
        self._before: dict[str, Standing | None] | None = None
        """In a trial, gangs that changed in it as they were."""
        self._capacity: Amounts = {}
        self._capacity_at = -1

    @property
    def forest(self) -> Forest:
        return self.used.forest

    def replace_queues(self, forest: Forest) -> None:
        """Takes other queues; what gangs use is counted anew."""
        self._sharers = self._found_sharers()
        self.used = Ledger(forest)
        for standing in self.standing.values():
            for amounts in standing.pods.values():
                self.used.charge(standing.gang.queue, amounts)
        self._count_priorities()

    @contextmanager
    def trial(self) -> Generator[None]:
        """Whatever is changed within it, by `stand` and `leave` and in the snapshot, is as it was
        before when it ends. Costs what changes, not what there is."""
        outer = self._before, self._sharers, self._sharers_lent
        used, budgets = self.used.copy(), dict(self.budgets)
        mark = self.snapshot.mark()
        before: dict[str, Standing | None] = {}
        self._before = before
        self._sharers_lent = True
        try:
            yield
        finally:
            self.snapshot.undo(mark)
            for name, standing in before.items():
                now = self.standing.pop(name, None)
                if now is not None:
                    self._count_priority(now.gang, -1)
                if standing is not None:
                    self.standing[name] = standing
                    self._count_priority(standing.gang, 1)
            self.used, self.budgets = used, budgets
            self._before, self._sharers, self._sharers_lent = outer

    def save(self) -> "Saved":
        """Gangs and queues as they are, for `restore`; bookings are the snapshot's to undo."""
        standing = {
            name: Standing(one.gang, one.since, dict(one.pods))
            for name, one in self.standing.items()
        }
        return Saved(standing, self.used.copy(), dict(self.budgets), self._sharers.copy())

    def restore(self, saved: "Saved") -> None:
        self.standing, self.used = saved.standing, saved.used
        self.budgets, self._sharers = saved.budgets, saved.sharers
        self._count_priorities()

    def copy(self) -> "Cluster":
        """The same nodes, queues and gangs, which change by themselves from now on."""
        other = Cluster(self.forest)
        other.snapshot, other.history = self.snapshot.copy(), self.history
        other.restore(self.save())
        return other

    def capacity(self) -> Amounts:
        """What all nodes have together, as queues count it; what none has is not listed, whether
        anybody ever asked for it or not."""
        snapshot = self.snapshot
        if self._capacity_at != snapshot.fact_changes.position:
            total = snapshot.allocatable[:, : snapshot.size].sum(axis=1, dtype=np.float64)
            self._capacity = {
                name: int(total[column]) * (WHOLE if name == GPU else 1)
                for name, column in snapshot.resources.items()
                if name != PODS and is_for_queues(name) and total[column] > 0
            }
            self._capacity_at = snapshot.fact_changes.position
        return self._capacity

    def stand(
        self,
        gang: Gang,
        bookings: Iterable[Booking],
        now: float,
        charges: "Charges | None" = None,
    ) -> None:
        """Counts bookings, made already, as those of a gang."""
        self._remember(gang.name)
        standing = self.standing.get(gang.name)
        if standing is None:
            standing = self.standing[gang.name] = Standing(gang, now)
        else:
            self._count_priority(standing.gang, -1)
        standing.gang = gang
        self._count_priority(gang, 1)
        total: dict[str, int] = {}
        for shape, alike in _by_shape(bookings).items():
            if not shape.claims:
                amounts = charged(shape)
                standing.pods.update((booking.pod, amounts) for booking in alike)
                _add(total, amounts, len(alike))
                continue
            for booking in alike:
                standing.pods[booking.pod] = own = self.counted((booking,))
                self._join(gang.name, booking)
                _add(total, own, 1)
        (charges or self.used).charge(gang.queue, total)

    def apart(self, gang: Gang) -> Gang:
        """A gang that knows where those stand now from which it keeps apart."""
        wish = gang.apart
        if wish is None or not wish.among:
            return gang
        rows = {
            self.snapshot.bookings[pod].row
            for name, standing in self.standing.items()
            if name != gang.name
            and standing.gang.apart is not None
            and standing.gang.apart.among == wish.among
            for pod in standing.pods
        }
        others = tuple(sorted(self.snapshot.names[row] for row in rows))
        return replace(gang, apart=replace(wish, others=others))

    def leave(self, gang: str, pods: Iterable[str], charges: "Charges | None" = None) -> None:
        """Some pods of a gang have no place any more; their bookings are released by the caller."""
        self._remember(gang)
        standing = self.standing[gang]
        for pod in pods:
            (charges or self.used).discharge(standing.gang.queue, standing.pods.pop(pod))
            if self._sharers.has(pod):
                for heir in self._own_sharers().leave(pod):
                    self._inherit(heir, charges or self.used)
        if not standing.pods:
            del self.standing[gang]
            self._count_priority(standing.gang, -1)

    def counted(self, bookings: Iterable[Booking], claimed: set[str] | None = None) -> Counter[str]:
        """What pods count in their queue by the very devices that they have. Claims that others
        use already, or that are in `claimed`, count with those; the others are added to it."""
        total: Counter[str] = Counter()
        known = set[str]() if claimed is None else claimed
        for booking in bookings:
            total.update(_requested(booking.shape))
            for claim, amounts in by_claim(booking):
                if claim not in known and not self._sharers.counts(claim):
                    total.update(amounts)
                if claim:
                    known.add(claim)
        return total

    def _join(self, gang: str, booking: Booking) -> None:
        for claim, amounts in by_claim(booking):
            if claim:
                self._own_sharers().join(claim, gang, booking.pod, amounts)

    def _inherit(self, heir: Successor, charges: "Charges") -> None:
        """A claim counts with another pod now."""
        self._remember(heir.gang)
        standing = self.standing[heir.gang]
        had = standing.pods[heir.pod]
        standing.pods[heir.pod] = Counter(had) + Counter(heir.amounts)
        charges.charge(standing.gang.queue, heir.amounts)

    def _own_sharers(self) -> Sharers:
        """Those that may be changed."""
        if self._sharers_lent:
            self._sharers, self._sharers_lent = self._sharers.copy(), False
        return self._sharers

    def _remember(self, name: str) -> None:
        """In a trial, how a gang stood before it changes."""
        if self._before is not None and name not in self._before:
            one = self.standing.get(name)
            self._before[name] = one and Standing(one.gang, one.since, dict(one.pods))

    def _count_priority(self, gang: Gang, sign: int) -> None:
        counts = self.priorities.setdefault(gang.queue, Counter())
        counts[gang.priority] += sign
        if not counts[gang.priority]:
            del counts[gang.priority]
            if not counts:
                del self.priorities[gang.queue]

    def _count_priorities(self) -> None:
        self.priorities = {}
        for standing in self.standing.values():
            self._count_priority(standing.gang, 1)

    def _found_sharers(self) -> Sharers:
        """Who uses which claim, those first with whom it counts."""
        self._sharers, bookings = Sharers(), self.snapshot.bookings
        paying: list[tuple[bool, str, Booking]] = []
        for name, standing in self.standing.items():
            for pod, amounts in standing.pods.items():
                booking = bookings.get(pod)
                if booking is not None and booking.shape.claims:
                    paying.append((amounts != self.counted((booking,)), name, booking))
        for _, name, booking in sorted(paying, key=lambda one: one[0]):
            self._join(name, booking)
        return self._sharers


def _by_shape(bookings: Iterable[Booking]) -> dict[Shape, list[Booking]]:
    found: dict[Shape, list[Booking]] = {}
    for booking in bookings:
        found.setdefault(booking.member.shape, []).append(booking)
    return found


def _add(total: dict[str, int], amounts: Amounts, times: int) -> None:
    for name, amount in amounts.items():
        total[name] = total.get(name, 0) + times * amount


@lru_cache(maxsize=4096)
def charged(shape: Shape) -> Mapping[str, int]:
    """What a pod of a shape counts in its queue, devices that it claims included. GPUs count in
    milli there, so that shares and instances count as what they are."""
    if not shape.claims:
        return _requested(shape)
    total = Counter(_requested(shape))
    for ask in shape.claims:
        total.update(asked_by(ask))
    return dict(total)


@lru_cache(maxsize=4096)
def _requested(shape: Shape) -> Mapping[str, int]:
    amounts = {
        name: amount
        for name, amount in shape.requests
        if name not in (PODS, GPU) and is_for_queues(name) and amount > 0
    }
    ask = shape.gpu
    if ask is not None:
        amounts[GPU] = max(0, ask.count * (ask.milli or WHOLE))
    return amounts


def asked(gang: Gang, *, wholly: bool = False) -> Mapping[str, int]:
    """What all that must be placed of a gang counts in its queue; or wholly, what may be."""
    if len(gang.groups) == 1 and len(gang.groups[0].members) == gang.groups[0].needed == 1:
        return charged(gang.groups[0].members[0].shape)
    shapes: Counter[Shape] = Counter()
    for group in gang.groups:
        members = group.members if wholly else group.members[: group.needed]
        shapes.update(member.shape for member in members)
    total: dict[str, int] = {}
    for shape, count in shapes.items():
        _add(total, charged(shape), count)
    if any(shape.claims for shape in shapes):
        _count_once(gang, shapes, total)
    return total


def _count_once(gang: Gang, shapes: Mapping[Shape, int], total: dict[str, int]) -> None:
    """Takes away what claims count that pods of a gang share, but for once; and that too, if one
    of its pods has a place already."""
    standing = {
        ask.name for group in gang.groups for each in group.standing for ask in each.shape.claims
    }
    users: Counter[ClaimAsk] = Counter()
    for shape, count in shapes.items():
        users.update({ask: count for ask in shape.claims if ask.name})
    for ask, count in users.items():
        for name, amount in asked_by(ask).items():
            total[name] -= amount * (count if ask.name in standing else count - 1)
