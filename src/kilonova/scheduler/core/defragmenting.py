"""Moves that make room: for a gang that waits, or, when nobody does, of nodes that stay empty.

Everything is simulated: who moves has the new place before anything is proposed, and nobody loses
one. For a gang that waits domains are compared by the work that is lost there. Nodes are emptied,
those first that cost least, until the gang fits; who is not in the way after all stays, and all
others must find a place beside it.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from itertools import islice

from kilonova.scheduler.core.cluster import Cluster, asked
from kilonova.scheduler.core.flaws import flaw_of
from kilonova.scheduler.core.gangs import Gang
from kilonova.scheduler.core.labels import Rows
from kilonova.scheduler.core.lacking import likely_domains
from kilonova.scheduler.core.placing import Placer
from kilonova.scheduler.core.preemption_trial import fit_again
from kilonova.scheduler.core.relocating import Budget, Move, Movers
from kilonova.scheduler.core.rooms import Rooms
from kilonova.scheduler.core.snapshot import Booking
from kilonova.scheduler.core.tidying import Aims, Tidier

_ATTEMPTS = 8
"""So often a domain is tried, each time without one more gang that found no other place."""
_SHIFTS = 128
"""So often, at most, another place is tried in a domain so that somebody may stay."""


@dataclass(frozen=True, slots=True)
class Consolidation:
    """Moves that are made together or not at all, and the place that they make for the gang that
    waits: whoever carries them out holds it, and the new places of those who move."""

    moves: tuple[Move, ...] = ()
    bookings: tuple[Booking, ...] = ()


def consolidate(
    cluster: Cluster,
    rooms: Rooms,
    placer: Placer,
    waiting: Gang | None,
    budget: Budget,
    now: float,
    *,
    aims: Aims | None = None,
    keep: Collection[str] = (),
) -> Consolidation:
    """The moves that are worth it now; nothing changes. With a gang that waits only those after
    which it fits. The gangs named in `keep` stay where they are."""
    movers = Movers(cluster, now, keep, waiting)
    mark = cluster.snapshot.mark()
    try:
        if waiting is None:
            tidier = Tidier(cluster, rooms, placer, movers, aims or Aims())
            return Consolidation(tidier.moves(budget, now))
        return _Way(cluster, rooms, placer, movers, waiting.at_least()).cheapest(budget, now)
    finally:
        cluster.snapshot.undo(mark)


@dataclass(frozen=True, slots=True)
class _Stuck:
    """A gang that found no place beside the one that waits."""

    gang: str


@dataclass(slots=True)
class _Trial:
    """One try to empty nodes."""

    stay: frozenset[str]
    left: dict[str, dict[str, Booking]] = field(default_factory=dict[str, dict[str, Booking]])
    """Who left so far, by gang and pod."""
    place: list[Booking] = field(default_factory=list[Booking])
    """What the gang that waits has got."""
    shifts: int = 0
    """How often another place was looked for, so that others may stay."""


class _Way:
    """Looks for the moves after which one gang fits."""

    def __init__(
        self, cluster: Cluster, rooms: Rooms, placer: Placer, movers: Movers, gang: Gang
    ) -> None:
        self._cluster = cluster
        self._snapshot = cluster.snapshot
        self._rooms = rooms
        self._placer = placer
        self._movers = movers
        self._gang = gang

    def cheapest(self, budget: Budget, now: float) -> Consolidation:
        """Of the domains, the one where least is lost; nothing where no move helps."""
        best = Consolidation()
        if not self._is_welcome() or self._placer.fits(self._gang):
            return best
        for rows in likely_domains(self._snapshot, self._rooms, self._gang):
            found = self._within(rows)
            if found is None or not budget.allows(found.moves, now):
                continue
            if not best.moves or _price(found) < _price(best):
                best = found
        return best

    def _is_welcome(self) -> bool:
        """Whether only room is missing."""
        gang, cluster = self._gang, self._cluster
        return (
            bool(gang.needed)
            and cluster.forest.refusal(gang.queue) is None
            and flaw_of(gang, self._snapshot.bookings) is None
            and cluster.used.blocked(gang.queue, asked(gang)) is None
        )

    def _within(self, rows: Rows) -> Consolidation | None:
        stay: frozenset[str] = frozenset()
        for _ in range(_ATTEMPTS):
            mark = self._snapshot.mark()
            found = self._tried(rows, _Trial(stay))
            self._snapshot.undo(mark)
            if not isinstance(found, _Stuck):
                return found
            stay |= {found.gang}
        return None

    def _tried(self, rows: Rows, trial: _Trial) -> Consolidation | _Stuck | None:
        order = iter(self._cheapest_rows(rows, trial))
        step = 1
        while not trial.place:
            more = list(islice(order, step))
            if not more:
                return None
            for row in more:
                self._empty(row, trial)
            trial.place = self._placer.place(self._gang, rows) or []
            step *= 2
        self._give_back(rows, trial)
        moves = self._settle(trial)
        return moves if isinstance(moves, _Stuck) else Consolidation(moves, tuple(trial.place))

    def _cheapest_rows(self, rows: Rows, trial: _Trial) -> list[int]:
        """Rows on which somebody may be moved; those that would be wholly empty come first, then
        those where less is lost."""
        costs: list[tuple[bool, float, int, int]] = []
        ranks, listed = self._snapshot.ranks, [int(row) for row in rows]
        for row in listed:
            movable = list(self._movable(row, trial))
            if movable:
                gangs = {booking.gang for booking in self._snapshot.pods_on[row].values()}
                lost = sum(self._movers.work(gang, pods) for gang, pods in movable)
                costs.append((len(gangs - {""}) > len(movable), lost, int(ranks[row]), row))
        return [row for *_, row in sorted(costs)]

    def _movable(self, row: int, trial: _Trial) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Gangs that may leave a row, and who of each has left then."""
        here: dict[str, set[str]] = {}
        for pod, booking in self._snapshot.pods_on[row].items():
            if booking.gang not in trial.stay:
                here.setdefault(booking.gang, set()).add(pod)
        for gang, pods in sorted(here.items()):
            leaving = self._movers.leaving(gang, pods | trial.left.get(gang, {}).keys())
            if leaving:
                yield gang, leaving

    def _empty(self, row: int, trial: _Trial) -> None:
        for gang, pods in list(self._movable(row, trial)):
            bookings = [self._snapshot.bookings[pod] for pod in pods if self._stands(pod)]
            gone = [each for left in trial.left.values() for each in left.values()]
            if self._movers.may_go([*gone, *bookings]):
                self._snapshot.release_all([booking.pod for booking in bookings])
                left = trial.left.setdefault(gang, {})
                left.update((booking.pod, booking) for booking in bookings)

    def _stands(self, pod: str) -> bool:
        return pod in self._snapshot.bookings

    def _give_back(self, rows: Rows, trial: _Trial) -> None:
        """Has those stay without whose leaving the gang fits, the dearest first."""
        movers = self._movers
        for gang in sorted(trial.left, key=lambda one: (-movers.work(one, trial.left[one]), one)):
            left = trial.left[gang]
            singly = movers.are_extras(gang, left)
            for pods in [[pod] for pod in left] if singly else [list(left)]:
                if self._may_stay(rows, trial, [left[pod] for pod in pods]):
                    for pod in pods:
                        del left[pod]
            if not left:
                del trial.left[gang]

    def _may_stay(self, rows: Rows, trial: _Trial, bookings: list[Booking]) -> bool:
        """Books pods where they were if the gang that waits fits beside them, if need be in another
        place than it has."""
        snapshot = self._snapshot
        if fit_again(snapshot, bookings):
            snapshot.book_all(bookings)
            return True
        if trial.shifts == _SHIFTS:
            return False
        trial.shifts += 1
        mark = snapshot.mark()
        snapshot.release_all([booking.pod for booking in trial.place])
        if fit_again(snapshot, bookings):
            snapshot.book_all(bookings)
            place = self._placer.place(self._gang, rows)
            if place is not None:
                snapshot.keep(mark)
                trial.place = place
                return True
        snapshot.undo(mark)
        return False

    def _settle(self, trial: _Trial) -> tuple[Move, ...] | _Stuck:
        """Gives all who left another place, the largest first."""
        moves: list[Move] = []
        movers = self._movers
        for gang in sorted(trial.left, key=lambda one: (-movers.size(one, trial.left[one]), one)):
            left = trial.left[gang]
            bookings = self._placer.place(movers.asking(gang, left))
            if bookings is None:
                return _Stuck(gang)
            moves.append(movers.moved(list(left.values()), bookings))
        return tuple(moves)


def _price(found: Consolidation) -> tuple[float, int, list[str]]:
    """Work that is lost, number of pods, and their gangs."""
    return (
        sum(move.work for move in found.moves),
        sum(len(move.leaves) for move in found.moves),
        [move.gang.name for move in found.moves],
    )
