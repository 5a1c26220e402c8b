"""Room that is held for pods which were moved, until those come that are made in their place.

A pod that is moved is evicted, and whoever owns it makes another. Until that one is there its room
is **held**: booked for a gang that nobody but the scheduler knows, in the same queue and of the
same priority. So it counts as if the pods stood there, and makes way for whom they would.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from kilonova.scheduler.core.cluster import Cluster
from kilonova.scheduler.core.filters import Reason, reasons
from kilonova.scheduler.core.gangs import Gang, Group, Member
from kilonova.scheduler.core.plan import Placement
from kilonova.scheduler.core.preemption_trial import fit_again
from kilonova.scheduler.core.relocating import Move
from kilonova.scheduler.core.snapshot import Booking

_HELD = "moving/"
"""No pod and no gang has a name that begins so and has as many strokes."""


@dataclass(frozen=True, slots=True)
class Seat:
    """Room for one pod: where it was, and its group (that of a pod alone has no name)."""

    left: str
    group: str
    booking: Booking


@dataclass(frozen=True, slots=True)
class Hold:
    """Room for pods of one gang; `owner` is who makes the pod anew if it is alone."""

    gang: str
    owner: str
    seats: tuple[Seat, ...]
    standing: Gang
    """As what the room counts."""

    @property
    def bookings(self) -> tuple[Booking, ...]:
        return tuple(seat.booking for seat in self.seats)

    @property
    def pods(self) -> tuple[str, ...]:
        """Who has left, or will."""
        return tuple(seat.left for seat in self.seats)


def hold_for(move: Move, owner: str = "") -> Hold:
    """The room that a move needs; `owner` is that of a pod alone."""
    groups = {
        member.pod: "" if owner else group.name
        for group in move.gang.groups
        for member in (*group.members, *group.standing)
    }
    places = ((booking.pod, groups.get(booking.pod, ""), booking) for booking in move.bookings)
    return hold_of(move.gang, places, owner)


def hold_of(gang: Gang, places: Iterable[tuple[str, str, Booking]], owner: str = "") -> Hold:
    """Room for pods of a gang: who has left, from which group, and where it will stand."""
    name = _HELD + gang.name
    seats = tuple(
        Seat(left, group, replace(booking, member=_nobody(booking.member), gang=name))
        for left, group, booking in places
    )
    members = tuple(seat.booking.member for seat in seats)
    group = Group(gang.name, (), len(members), standing=members)
    return Hold(gang.name, owner, seats, replace(gang, name=name, groups=(group,), within=()))


def _nobody(member: Member) -> Member:
    return replace(member, pod=_HELD + member.pod)


def seated(gang: Gang, hold: Hold) -> list[tuple[Seat, Member]] | None:
    """Who of a gang that came back gets which seat; None if not all who must have a place do: it is
    another gang by now."""
    free = list(hold.seats)
    found: list[tuple[Seat, Member]] = []
    for group in gang.groups:
        name = "" if hold.owner else group.name
        for number, member in enumerate(group.members):
            seat = next(
                (each for each in free if each.group == name and _suits(each, member)), None
            )
            if seat is not None:
                free.remove(seat)
                found.append((seat, member))
            elif number < group.needed:
                return None
    return found or None


def _suits(seat: Seat, member: Member) -> bool:
    """Whether a pod asks for what the one before it had; nodes to avoid are no part of that."""
    nowhere = frozenset[str]()
    had, asks = seat.booking.shape, member.shape
    return replace(had, avoided=nowhere) == replace(asks, avoided=nowhere)


class Holds:
    """All room that is held in a cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._holds: dict[str, Hold] = {}

    def __len__(self) -> int:
        return len(self._holds)

    def __iter__(self) -> Iterator[Hold]:
        return iter(list(self._holds.values()))

    @property
    def names(self) -> set[str]:
        """Gangs that move, by what they and their room are called."""
        return {name for hold in self for name in (hold.gang, hold.standing.name)}

    def take(self, hold: Hold, now: float) -> None:
        """Holds room from now on, which must be free."""
        self._cluster.snapshot.book_all(hold.bookings)
        self._cluster.stand(hold.standing, hold.bookings, now)
        self._holds[hold.gang] = hold

    def drop(self, hold: Hold, pods: Iterable[str] | None = None) -> bool:
        """Holds no longer what it held, or only not for some who did not leave after all. Whether
        there was anything left to be held."""
        known = self._holds.get(hold.gang)
        if known is None or known.standing is not hold.standing:
            return False
        gone = set(known.pods if pods is None else pods)
        self._release([seat for seat in known.seats if seat.left in gone])
        kept = tuple(seat for seat in known.seats if seat.left not in gone)
        if kept:
            self._holds[hold.gang] = replace(known, seats=kept)
        else:
            del self._holds[hold.gang]
        return True

    def give(self, gang: Gang, hold: Hold, now: float) -> Placement | None:
        """Gives those who came back their room; None if it is not theirs any more, and nothing is
        held then."""
        pairs = seated(gang, hold)
        bookings = self._cluster.snapshot.bookings
        if pairs is None or any(bookings.get(s.booking.pod) is not s.booking for s, _ in pairs):
            self.drop(hold)
            return None
        self.drop(hold, [seat.left for seat, _ in pairs])
        found = tuple(
            replace(seat.booking, member=member, gang=gang.name) for seat, member in pairs
        )
        if not all(self._admits(booking) for booking in found) or not self.fit(found):
            self.drop(hold)
            return None
        self._cluster.snapshot.book_all(found)
        self._cluster.stand(gang, found, now)
        return Placement(gang, found)

    def fit(self, bookings: Sequence[Booking]) -> bool:
        """Whether nobody uses what is booked."""
        return fit_again(self._cluster.snapshot, bookings)

    def _admits(self, booking: Booking) -> bool:
        """Whether a node is still one on which a pod may stand."""
        rows = np.array([booking.row], np.intp)
        return reasons(self._cluster.snapshot, booking.shape, rows)[0] == Reason.FITS

    def _release(self, seats: Iterable[Seat]) -> None:
        """Frees seats; some may have had to make way for others."""
        snapshot, standing = self._cluster.snapshot, self._cluster.standing
        for seat in seats:
            if snapshot.bookings.get(seat.booking.pod) is not seat.booking:
                continue
            snapshot.release(seat.booking.pod)
            one = standing.get(seat.booking.gang)
            if one is not None and seat.booking.pod in one.pods:
                self._cluster.leave(one.gang.name, [seat.booking.pod])


def nodes_of(hold: Hold, names: list[str]) -> Mapping[str, str]:
    """The node on which room is held, by the pod that leaves."""
    return {seat.left: names[seat.booking.row] for seat in hold.seats}
