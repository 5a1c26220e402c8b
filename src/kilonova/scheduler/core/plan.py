"""`plan`: which gangs get a place now, where, and why the others do not.

Gangs are tried in the order that their queues' fair shares, priorities and age give. What a gang
gets counts at once, for its queue and on the nodes, before the next is tried. A plan leaves the
cluster as it was; `decide` is the same and keeps what it booked.
"""

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from kilonova.scheduler.core.cluster import Cluster, Standing, asked
from kilonova.scheduler.core.defragmenting import Consolidation, consolidate
from kilonova.scheduler.core.evicting import Evictor, Room
from kilonova.scheduler.core.flaws import Flaw, flaw_of
from kilonova.scheduler.core.fragments import Worth
from kilonova.scheduler.core.gangs import Gang, Group, Member
from kilonova.scheduler.core.keeping import OpenRoom, place_as_before
from kilonova.scheduler.core.ledgers import Blocked
from kilonova.scheduler.core.neighbours import Neighbours
from kilonova.scheduler.core.placing import Placer, budget_for
from kilonova.scheduler.core.queues import Problem
from kilonova.scheduler.core.relocating import Budget
from kilonova.scheduler.core.reserving import Reservation, Shadow, reserve
from kilonova.scheduler.core.rooms import Rooms, Score
from kilonova.scheduler.core.shares import fair_shares
from kilonova.scheduler.core.snapshot import Booking
from kilonova.scheduler.core.tidying import Aims
from kilonova.scheduler.core.turns import Turns
from kilonova.scheduler.core.victims import Unit


@dataclass(frozen=True, slots=True)
class Placement:
    """A gang that gets a place: its pods, and those of others that have to go before."""

    gang: Gang
    bookings: tuple[Booking, ...]
    evicted: tuple[Unit, ...] = ()


@dataclass(frozen=True, slots=True)
class NoRoom:
    """A gang for which the nodes have no place now, or none that was found within the budget of the
    search."""

    search_exceeded: bool = False


@dataclass(frozen=True, slots=True)
class SchedulerError:
    """The decision about a gang failed unexpectedly: a defect, nothing that the gang lacks."""

    error: str


Why = Problem | Flaw | Blocked | NoRoom | SchedulerError
"""Its queue or the gang itself is at fault, its queue's limit holds it back, the nodes do, or the
decision failed."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A gang that gets no place now."""

    gang: Gang
    why: Why


@dataclass(frozen=True, slots=True)
class Plan:
    """What was decided, in the order in which it was."""

    placements: tuple[Placement, ...]
    refusals: tuple[Refusal, ...]
    reservation: Reservation | None = None
    """For whom room is kept, and when it will be there."""


@dataclass(frozen=True, slots=True)
class Policy:
    """What decisions go by, beside what gangs and queues say."""

    levels: tuple[str, ...] = ()
    """The topology, broadest level first."""
    evicts: bool = True
    reserve_after: float = 300.0
    """Seconds without a place after which room is kept for a gang."""


class Planner:
    """Decides about a cluster. Keeps vectors between decisions, nothing else."""

    def __init__(self, cluster: Cluster, score: Score, policy: Policy | None = None) -> None:
        self._cluster = cluster
        self._policy = policy or Policy()
        self._rooms = Rooms(cluster.snapshot, score)
        self._placer = Placer(cluster.snapshot, self._rooms, self._policy.levels)

    def plan(self, gangs: Iterable[Gang], now: float) -> Plan:
        """What would be decided; nothing changes."""
        with self._cluster.trial():
            return self.decide(gangs, now)

    def decide(self, gangs: Iterable[Gang], now: float) -> Plan:
        """Books what gets a place, and says what does not."""
        round_ = self.begin(gangs, now)
        for gang in round_.turns:
            round_.take_turn(gang)
        return Plan(tuple(round_.placements), tuple(round_.refusals), round_.reservation)

    def begin(self, gangs: Iterable[Gang], now: float) -> "Round":
        """A round of decisions, to be taken turn by turn; what is booked stays booked."""
        return Round(self._cluster, self._rooms, self._placer, self._policy, gangs, now)

    def place(self, gang: Gang) -> list[Booking] | None:
        """Books a gang on capacity that is free, whoever else waits; None if it does not fit."""
        return self._placer.place(self._cluster.apart(gang))

    def consolidate(
        self,
        waiting: Gang | None,
        budget: Budget,
        now: float,
        *,
        worth: Worth | None = None,
        keep: Collection[str] = (),
    ) -> Consolidation:
        """Moves that make room for a gang, or where nobody waits of nodes that stay empty; nothing
        changes. The gangs in `keep` stay: those on their way to a place, or not known well."""
        aims = Aims(self._policy.levels, worth=worth)
        gang = None if waiting is None else self._cluster.apart(waiting)
        placer = self._placer.with_budget(budget_for(gang))
        self._cluster.snapshot.claims.renew_budget()
        return consolidate(
            self._cluster, self._rooms, placer, gang, budget, now, aims=aims, keep=keep
        )


@dataclass(frozen=True, slots=True)
class _Vain:
    """How an ask was tried in vain."""

    passes: bool = False
    """Whether it is hopeless for gangs, too, that end before a reservation."""
    search_exceeded: bool = False


class Round:
    """One pass over gangs that wait. Between two turns the cluster may change."""

    def __init__(
        self,
        cluster: Cluster,
        rooms: Rooms,
        placer: Placer,
        policy: Policy,
        gangs: Iterable[Gang],
        now: float,
    ) -> None:
        self._cluster = cluster
        self._rooms = rooms
        self._placer = placer.with_budget(budget_for(None))
        self._policy = policy
        self._now = now
        self._evictor: Evictor | None = None
        self._shadow: Shadow | None = None
        self._open: OpenRoom | None = None
        self.placements: list[Placement] = []
        self.refusals: list[Refusal] = []
        self._newcomers: set[str] = set()
        self._left: list[tuple[Standing, Unit]] = []
        """What left for the gang whose turn it is, and how its gang stands without it."""
        self._hopeless: dict[Hashable, _Vain] = {}
        """Asks that found no place in this round, by whether a limit held them back: what was
        booked since makes none."""
        self._complete: list[Gang] = []
        """Gangs that have all they must have."""
        self._nodes_at = cluster.snapshot.node_changes
        self._turns = self._in_order(list(gangs))

    @property
    def turns(self) -> Iterator[Gang]:
        """Who is tried, in order; those who have all they must have, after all others."""
        yield from self._turns
        for gang in self._complete:
            self._turns.add(gang)
        yield from self._turns

    @property
    def reservation(self) -> Reservation | None:
        return self._shadow.reservation if self._shadow is not None else None

    def _in_order(self, waiting: list[Gang]) -> Turns[Gang]:
        """Gangs whose queue is at fault are refused at once."""
        cluster = self._cluster
        requested = cluster.used.copy()
        for gang in waiting:
            requested.charge(gang.queue, asked(gang, wholly=True))
        shares = fair_shares(cluster.capacity(), requested)
        turns: Turns[Gang] = Turns(cluster.used, shares, cluster.history.past(shares))
        for gang in waiting:
            problem = cluster.forest.refusal(gang.queue)
            if problem is not None:
                self.refusals.append(Refusal(gang, problem))
            elif gang.needed:
                turns.add(gang)
            else:
                self._complete.append(gang)
        return turns

    def take_turn(self, gang: Gang) -> Placement | Refusal:
        """Books one gang, or says why not. An error undoes what was booked for it, and the cycle
        can go on with the next gang."""
        self._follow_nodes()
        self._renew_budgets(gang)
        self._left.clear()
        if gang.room in self._cluster.standing:
            self._open = OpenRoom(self._cluster, gang.room, self._turns)
        mark = self._cluster.snapshot.mark()
        try:
            outcome = self._decide(self._cluster.apart(gang))
        except BaseException:
            self._cluster.snapshot.undo(mark)
            self._close(())
            self._restore()
            raise
        if isinstance(outcome, Placement):
            self._cluster.snapshot.end(mark)
            self._close(outcome.bookings)
            self.placements.append(outcome)
            self._newcomers.add(outcome.gang.name)
        else:
            self._cluster.snapshot.undo(mark)  # a gang that is refused changes nothing
            self._close(())
            if self._left:
                self._restore()
            self.refusals.append(outcome)
        return outcome

    def _renew_budgets(self, gang: Gang) -> None:
        """What one gang's searches cost is not taken from the next one, nor what a reservation
        costs that is renewed between them."""
        self._placer.budget = budget_for(gang)
        self._cluster.snapshot.claims.renew_budget()

    @property
    def _search_exceeded(self) -> bool:
        budgets = (self._placer.budget, self._cluster.snapshot.claims.budget)
        return any(budget is not None and budget.exceeded for budget in budgets)

    def _follow_nodes(self) -> None:
        """Nodes that changed since the last turn may hold what found no place before, and the
        shadow knows nothing of them: it is made anew for the same gang."""
        changes = self._cluster.snapshot.node_changes
        if self._nodes_at != changes:
            self._nodes_at = changes
            self._forget_trials()

    def _close(self, users: Iterable[Booking]) -> None:
        if self._open is not None:
            self._open.close(users)
            self._open = None

    def _forget_trials(self) -> None:
        """What was worked out before may be wrong by now; a reservation is renewed."""
        self._evictor = None
        self._hopeless.clear()
        if self._shadow is not None:
            gang = self._cluster.apart(self._shadow.reservation.gang)
            self._renew_budgets(gang)
            self._shadow = reserve(self._cluster, self._rooms, self._placer, gang, self._now)

    def _decide(self, gang: Gang) -> Placement | Refusal:
        flaw = flaw_of(gang, self._cluster.snapshot.bookings)
        if flaw is not None:
            return Refusal(gang, flaw)
        over = self._cluster.used.blocked(gang.queue, asked(gang))
        passes = self._shadow is None or self._shadow.ends_before(gang, self._now)
        known = self._known(gang, over) if self._hopeless else None
        vain = self._hopeless.get(known)
        tried = vain is not None and (vain.passes or not passes)
        room = None if tried else (over is None and self._place(gang)) or self._evict(gang)
        if room is None or not room.bookings:
            known = known or self._known(gang, over)
            before = vain or _Vain()
            vain = _Vain(passes or before.passes, self._search_exceeded or before.search_exceeded)
            if known is not None:
                self._hopeless[known] = vain
            if over is not None:
                return Refusal(gang, over)
            self._reserve(gang)
            return Refusal(gang, NoRoom(vain.search_exceeded))
        for unit in room.units:
            standing = self._cluster.standing[unit.gang]
            self._cluster.leave(unit.gang, unit.pods, self._turns)
            self._left.append((standing, unit))
        kept = self._within_limits(gang, list(room.bookings))
        if not kept:
            must, others = _divided(gang, room.bookings)
            counted = self._cluster.counted(must or others[:1])
            return Refusal(gang, self._cluster.used.blocked(gang.queue, counted) or NoRoom())
        if self._evictor is not None and room.units:
            self._evictor.victims.count_out(room.units)
            self._hopeless.clear()
        self._cluster.stand(gang, kept, self._now, self._turns)
        return Placement(gang, tuple(kept), room.units)

    def _restore(self) -> None:
        """Gives gangs back, whose bookings are there again, what they lost for one that gets no
        place after all. What was worked out with that is forgotten."""
        bookings = self._cluster.snapshot.bookings
        for standing, unit in self._left:
            had = [bookings[pod] for pod in unit.pods]
            self._cluster.stand(standing.gang, had, standing.since, self._turns)
        self._left.clear()
        self._forget_trials()

    def _known(self, gang: Gang, over: Blocked | None) -> Hashable | None:
        """By what it is known that a gang was tried in vain."""
        ask = ask_of(gang, self._cluster.snapshot.neighbours)
        return None if ask is None else (ask, over is not None)

    def _place(self, gang: Gang) -> Room | None:
        return self._place_inside(gang) or self._place_anywhere(gang)

    def _place_inside(self, gang: Gang) -> Room | None:
        """In room that is kept for it, whoever else waits; else where another was before it."""
        if self._open is not None:
            bookings = self._open.place(self._placer, gang)
            if bookings is not None and self._shadow is not None:
                self._shadow.take(bookings, [booking.pod for booking in self._open.kept])
        elif gang.before and self._shadow is None:
            bookings = place_as_before(self._placer, self._cluster.snapshot, gang)
        else:
            return None
        return None if bookings is None else Room(tuple(bookings))

    def _place_anywhere(self, gang: Gang) -> Room | None:
        shadow = self._shadow
        if shadow is None or shadow.ends_before(gang, self._now):
            bookings = self._placer.place(gang)
            return None if bookings is None else Room(tuple(bookings))
        mark = self._cluster.snapshot.mark()
        bookings = self._placer.within(shadow.rooms).place(gang)
        if bookings is not None and shadow.take(bookings):
            self._cluster.snapshot.keep(mark)
            return Room(tuple(bookings))
        self._cluster.snapshot.undo(mark)
        return None

    def _evict(self, gang: Gang) -> Room | None:
        if not self._policy.evicts or not gang.preempts or not gang.needed:
            return None
        if self._evictor is None:
            self._evictor = Evictor(
                self._cluster, self._rooms, self._placer, self._now, self._newcomers
            )
        mark = self._cluster.snapshot.mark()
        room = self._evictor.make_room(gang)
        gone = [pod for unit in room.units for pod in unit.pods] if room is not None else []
        if room is None or (
            self._shadow is not None and not self._shadow.take(list(room.bookings), gone)
        ):
            self._cluster.snapshot.undo(mark)
            return None
        self._cluster.snapshot.keep(mark)
        return room

    def _reserve(self, gang: Gang) -> None:
        """Keeps room for the first that has waited long enough."""
        waited = self._now - gang.created
        if self._shadow is None and waited >= self._policy.reserve_after:
            self._shadow = reserve(self._cluster, self._rooms, self._placer, gang, self._now)

    def _within_limits(self, gang: Gang, bookings: list[Booking]) -> list[Booking]:
        """Gives back what is above the minimum and above a limit of the queue."""
        used, queue = self._cluster.used, gang.queue
        claims = any(booking.shape.claims for booking in bookings)
        if not claims and (
            len(bookings) == gang.needed or used.blocked(queue, asked(gang, wholly=True)) is None
        ):
            return bookings
        must, others = _divided(gang, bookings)
        claimed: set[str] = set()
        total = self._cluster.counted(must, claimed)
        kept = [] if must and used.blocked(queue, total) is not None else list(must)
        for booking in others if len(kept) == len(must) else ():
            also = set(claimed)
            more = total + self._cluster.counted((booking,), also)
            if used.blocked(queue, more) is None:
                kept.append(booking)
                total, claimed = more, also
        over = {booking.pod for booking in bookings} - {booking.pod for booking in kept}
        self._cluster.snapshot.release_all(sorted(over))
        return [booking for booking in bookings if booking.pod not in over]


def _divided(gang: Gang, bookings: Iterable[Booking]) -> tuple[list[Booking], list[Booking]]:
    """Those that a gang must have, and those that it can do without."""
    needed = {member.pod for group in gang.groups for member in group.members[: group.needed]}
    must = [booking for booking in bookings if booking.pod in needed]
    return must, [booking for booking in bookings if booking.pod not in needed]


def ask_of(gang: Gang, neighbours: Neighbours) -> Hashable | None:
    """What is equal for gangs that find a place only together, or not at all; None where pods that
    come may make a place, or room is kept."""
    decisive = [_decisive(gang, group) for group in gang.groups]
    members = [member for some in decisive for member in some]
    if gang.room or any(member.shape.peers is not None for member in members):
        return None
    kept_away = {neighbours.repelling(each) for each in members} if neighbours.repels else ()
    groups = tuple(
        (
            tuple(Counter(member.shape for member in some).items()),
            group.pack,
            group.segments,
            group.placed if group.pack or gang.pack else (),
        )
        for group, some in zip(gang.groups, decisive, strict=True)
    )
    return (
        groups,
        gang.pack,
        gang.bundles,
        gang.apart,
        gang.within,
        gang.queue,
        gang.priority,
        gang.preempts,
        frozenset(kept_away),
    )


def _decisive(gang: Gang, group: Group) -> Sequence[Member]:
    """The pods of a group without which its gang gets no place: those that it must have, or where
    the gang has its minimum, the first that it could have beyond (see `placing.one_more`)."""
    return group.members[: group.needed if gang.needed else 1]
