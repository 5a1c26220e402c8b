"""Which room is kept by reservations, and for whom.

A reservation is a gang whose pods never come: it waits for a place as any other, and what it gets
stays booked. The **places** that it has are remembered; what is booked for it is always its places
without those who stand in them, worked out anew whenever one of them comes or goes. So room goes
back to its reservation in the moment in which it is left, before anybody is decided about.

Places are what the status says, but for what was decided and is not written yet.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from kilonova.api.podgang import NamespacedName, PodGang
from kilonova.api.scheduling import Reservation
from kilonova.api.times import parse_time
from kilonova.kube import Store
from kilonova.scheduler.core.cluster import Cluster
from kilonova.scheduler.core.gangs import Gang
from kilonova.scheduler.core.giving import are_free
from kilonova.scheduler.core.keeping import is_inside, remaining
from kilonova.scheduler.core.plan import Placement
from kilonova.scheduler.core.queues import DEFAULT
from kilonova.scheduler.core.snapshot import Booking, Snapshot
from kilonova.scheduler.objects import Pod
from kilonova.scheduler.reading.gangs import NotYet, plain_name
from kilonova.scheduler.reading.keptplaces import (
    Places,
    adopted,
    booking_at,
    lacking,
    places_of,
    suits,
)
from kilonova.scheduler.reading.pods import Misread
from kilonova.scheduler.reading.reservations import (
    ends_at,
    key_of_reservation,
    reservation_name,
    starts_at,
    wanted_gang,
    wanted_pods,
)
from kilonova.scheduler.reservationstatus import State
from kilonova.scheduler.roomtakers import RoomTakers, key_of


@dataclass(slots=True)
class _Kept:
    """What is known of one reservation beside what people wrote."""

    uid: str
    places: Places = ()
    since: float | None = None
    generation: int | None = None
    """Of the object for which the places were found."""
    opens: float = 0.0
    ends: float | None = None
    queue: str = DEFAULT
    expired: int | None = None
    """Generation of the object that came to its end."""
    unwritten: bool = False
    """Something was decided that the status does not say yet."""
    before: Places | None = None
    """What it had before a decision for which others have to go; until they are gone."""


class ReservationBook:
    """Reservations by the names of their gangs. Fills the same tables as `GangBook`."""

    def __init__(
        self,
        cluster: Cluster,
        reservations: Store[Reservation],
        gangs: Store[PodGang],
        pods: Store[Pod],
        now: Callable[[], datetime],
        wake: Callable[[], None],
        gain: Callable[[], None],
        waiting: dict[str, Gang],
        not_yet: dict[str, NotYet],
        touch_gang: Callable[[str], None],
    ) -> None:
        self.changed: Callable[[str], None] = lambda _: None
        """Hears of reservations of which there may be something new to tell."""
        self._cluster = cluster
        self._reservations = reservations
        self._gangs = gangs
        self._pods = pods
        self._takers = RoomTakers(cluster, reservations, gangs, pods)
        self._now = now
        self._wake = wake
        self._gain = gain
        self._waiting = waiting
        self._not_yet = not_yet
        self._touch_gang = touch_gang
        self._kept: dict[str, _Kept] = {}
        self._states: dict[str, State] = {}
        self._users: dict[str, dict[str, None]] = {}
        """Gangs that name a reservation, or are named by it."""
        self._touched: dict[str, None] = {}
        reservations.subscribe(self._changed)

    # What gangs have to do with reservations.

    def lead(self, gang: Gang) -> Gang:
        """A gang with the room that it may take, and the nodes on which another was before it."""
        room, before = self._takers.room_of(gang.name), self._takers.nodes_before(gang.name)
        if room:
            self._users.setdefault(room, {})[gang.name] = None
            self.touch(room)
        return replace(gang, room=room, before=before) if room or before else gang

    def settle(self, name: str) -> None:
        """Books what a reservation keeps beside those who stand in its places."""
        kept = self._kept.get(name)
        if kept is None:
            return
        lost = self._hold(name, kept)
        if lost:
            kept.places = tuple(each for n, each in enumerate(kept.places) if n not in lost)
            kept.unwritten = True
            self._hold(name, kept)
            self.touch(name)
        self._protect(name, kept)
        self._tell(name)

    def crowded(self, row: int) -> None:
        """Somebody stands on a row who may be in the way of what is kept there."""
        node = self._cluster.snapshot.names[row]
        for name in self._keeping_on(node):
            self.touch(name)

    def node_goes(self, node: str) -> None:
        """What is kept on a node is lost."""
        for name in self._keeping_on(node):
            kept = self._kept[name]
            kept.places = tuple(place for place in kept.places if place.name != node)
            kept.unwritten = True
            self.settle(name)
            self.touch(name)

    # What is decided.

    def refresh(self) -> None:
        """Reads all reservations that something happened to."""
        touched, self._touched = self._touched, {}
        for name in touched:
            self._read(name)

    def recall(self) -> None:
        """Takes all places as they are written: whoever decided before us knew them best."""
        for reservation in self._reservations.objects():
            meta = reservation.metadata
            name = reservation_name(meta.namespace, meta.name)
            self._kept[name] = _as_written(reservation)
            self.touch(name)

    def assume(self, placement: Placement) -> None:
        """A reservation was given its place; it is told of when those are gone who leave it."""
        name = placement.gang.name
        self._waiting.pop(name, None)
        kept = self._kept.get(name)
        new = places_of(placement.bookings, self._cluster.snapshot.names)
        if kept is None:
            return
        kept.before = kept.places
        kept.places, kept.unwritten = (*kept.places, *new), True
        self.settle(name)

    def cleared(self, name: str, gone: bool) -> None:
        """Those who were in the way of a reservation are gone; if they are not, it waits again."""
        kept = self._kept.get(name)
        if kept is not None and kept.before is not None:
            if not gone:
                kept.places = kept.before
            kept.before = None
            self.settle(name)
            self.touch(name)

    def state(self, name: str) -> State | None:
        """What is to be told of a reservation; None if nobody has looked at it yet."""
        return self._states.get(name)

    def touch(self, name: str) -> None:
        """Something happened to a reservation."""
        self._touched[name] = None
        self._wake()

    def _read(self, name: str) -> None:
        self._waiting.pop(name, None)
        self._not_yet.pop(name, None)
        reservation = self._reservations.get(key_of_reservation(name))
        if reservation is None or reservation.metadata.deletion_timestamp:
            self._forget(name)
            return
        kept = self._kept.get(name)
        if kept is None or kept.uid != reservation.metadata.uid:
            kept = self._kept[name] = _as_written(reservation)
        if kept.before is not None:
            self._tell(name)
            return
        now, generation = self._now().timestamp(), reservation.metadata.generation
        try:
            kept.opens, kept.ends = (
                starts_at(reservation.spec),
                ends_at(reservation.spec, kept.since),
            )
        except Misread as error:
            self._not_yet[name] = NotYet(error.reason, str(error))
            self._drop(name, kept)
            return
        if kept.expired == generation or (kept.ends is not None and now >= kept.ends):
            kept.expired = generation
            self._drop(name, kept)
        elif now < kept.opens:
            self._drop(name, kept)
        else:
            self._ask(name, reservation, kept, now)

    def _ask(self, name: str, reservation: Reservation, kept: _Kept, now: float) -> None:
        """Has a reservation wait for what it lacks."""
        wanted = self._wanted(reservation)
        kept.queue = wanted.queue if isinstance(wanted, Gang) else kept.queue
        if isinstance(wanted, NotYet):
            if not kept.places:
                self._not_yet[name] = wanted
            self.settle(name)
            return
        if kept.generation != reservation.metadata.generation:
            if not suits(wanted, kept.places, self._cluster.snapshot):
                kept.places, kept.since, kept.unwritten = (), None, True
            kept.generation = reservation.metadata.generation
        if not kept.places:
            kept.places = self._adopted(name, wanted)
        self.settle(name)
        rest = lacking(wanted, kept.places)
        if any(group.members for group in rest.groups):
            self._waiting[name] = rest
        elif kept.since is None:
            kept.since, kept.unwritten = now, True
            kept.ends = ends_at(reservation.spec, now)
            self.settle(name)
        self._tell(name)

    def _wanted(self, reservation: Reservation) -> Gang | NotYet:
        if reservation.spec.pod_gang is None:
            return wanted_pods(reservation)
        gang = self._gangs.get((reservation.metadata.namespace, reservation.spec.pod_gang))
        base = gang.spec.base_ref if gang is not None else None
        nodes = None if base is None else self._takers.nodes_of(f"{base.namespace}/{base.name}")
        return wanted_gang(reservation, gang, lambda pod: self._pods.get(key_of(pod)), nodes)

    def _adopted(self, name: str, wanted: Gang) -> Places:
        """Places of those who stand already: of the gang that is meant, or of who named it."""
        return adopted(wanted, self._users_of(name), self._cluster.snapshot.names)

    # What reservations have.

    def _as_gang(self, name: str, kept: _Kept) -> Gang:
        """A reservation as those see it who wait for its end."""
        duration = None if kept.ends is None or kept.since is None else kept.ends - kept.since
        return Gang(name, (), queue=kept.queue, duration=duration, preemptible=False)

    def _users_of(self, name: str) -> list[Booking]:
        """The pods of all gangs that may stand in the room of a reservation."""
        standing, bookings = self._cluster.standing, self._cluster.snapshot.bookings
        gangs = sorted(gang for gang in self._users.get(name, ()) if gang in standing)
        return [
            bookings[pod]
            for gang in gangs
            if standing[gang].gang.room == name
            for pod in standing[gang].pods
        ]

    def _hold(self, name: str, kept: _Kept) -> set[int]:
        """Has booked what is kept, and nothing else; says which places somebody else has, or are
        not there any more."""
        cluster, snapshot = self._cluster, self._cluster.snapshot
        places = self._bookings(name, kept)
        wanted = remaining([each for each in places if each is not None], self._users_of(name))
        standing, gang = cluster.standing.get(name), self._as_gang(name, kept)
        has = [snapshot.bookings[pod] for pod in standing.pods] if standing is not None else []
        gone = {number for number, each in enumerate(places) if each is None}
        if has == wanted and (standing is None or standing.gang == gang):
            return gone
        if has:
            pods = [booking.pod for booking in has]
            snapshot.release_all(pods)
            cluster.leave(name, pods)
            self._gain()
        booked = [booking for booking in wanted if _book(snapshot, booking)]
        if booked:
            cluster.stand(gang, booked, kept.since or self._now().timestamp())
        missed = {each.pod for each in wanted} - {each.pod for each in booked}
        return gone | {n for n, each in enumerate(places) if each and each.pod in missed}

    def _bookings(self, name: str, kept: _Kept) -> list[Booking | None]:
        snapshot = self._cluster.snapshot
        return [booking_at(snapshot, name, n, each) for n, each in enumerate(kept.places)]

    def _protect(self, name: str, kept: _Kept) -> None:
        """Who stands within kept room is pushed out by nobody: nobody else would get it."""
        standing, bookings = self._cluster.standing, self._cluster.snapshot.bookings
        places = [each for each in self._bookings(name, kept) if each is not None]
        for user in self._users.get(name, ()):
            one = standing.get(user)
            if one is None or one.gang.room != name or not one.gang.preemptible:
                continue
            if is_inside(places, [bookings[pod] for pod in one.pods]):
                one.gang = replace(one.gang, preemptible=False)

    def _drop(self, name: str, kept: _Kept) -> None:
        """Keeps nothing any more; whoever stands there is one of many."""
        if kept.places:
            kept.places, kept.unwritten = (), True
            for user in self._users.get(name, ()):
                self._touch_gang(user)
        kept.since = None
        self.settle(name)

    def _forget(self, name: str) -> None:
        kept = self._kept.get(name)
        if kept is not None:
            self._drop(name, kept)
            del self._kept[name]
        self._users.pop(name, None)
        self._states.pop(name, None)

    def _tell(self, name: str) -> None:
        kept, reservation = self._kept[name], self._reservations.get(key_of_reservation(name))
        if reservation is None:
            return
        nodes = {place.name for place in kept.places}
        names = self._cluster.snapshot.names
        users = sorted({each.gang for each in self._users_of(name) if names[each.row] in nodes})
        new = State(
            kept.places if kept.before is None else kept.before,
            kept.since,
            kept.opens,
            kept.ends,
            expired=kept.expired == reservation.metadata.generation,
            complete=kept.since is not None and name not in self._waiting,
            used_by=NamespacedName(*plain_name(users[0]).split("/")) if users else None,
            not_yet=self._not_yet.get(name),
        )
        if self._states.get(name) != new:
            self._states[name] = new
            self.changed(name)

    # What the caches tell.

    def _changed(self, old: Reservation | None, new: Reservation | None) -> None:
        reservation = new or old
        assert reservation is not None
        meta = reservation.metadata
        name = reservation_name(meta.namespace, meta.name)
        for gang in self._takers.note(old, new):
            self._touch_gang(gang)
        if old is None or new is None:
            for gang in list(self._naming(name)):
                self._touch_gang(gang)
        kept = self._kept.get(name)
        if new is not None and kept is not None:
            written = _as_written(new)
            if written.uid == kept.uid and written.places == kept.places:
                kept.unwritten = False
            if not kept.unwritten and kept.before is None and written.places != kept.places:
                self._kept[name] = written
        self.touch(name)

    def _naming(self, name: str) -> Iterable[str]:
        """Gangs that were there before the reservation that they name."""
        for gang in [*self._cluster.standing, *self._waiting]:
            if self._takers.room_of(gang) == name:
                yield gang

    def _keeping_on(self, node: str) -> list[str]:
        return [
            name
            for name, kept in self._kept.items()
            if any(place.name == node for place in kept.places)
        ]


def _as_written(reservation: Reservation) -> _Kept:
    """What a reservation has, by its status."""
    status, meta = reservation.status, reservation.metadata
    if status.phase == "Expired":
        return _Kept(meta.uid, expired=status.observed_generation)
    since = parse_time(status.reserved_at).timestamp() if status.reserved_at else None
    return _Kept(meta.uid, status.nodes, since, status.observed_generation)


def _book(snapshot: Snapshot, booking: Booking) -> bool:
    """Books what is kept, if nobody else has it."""
    columns, amounts = snapshot.request(booking.shape)
    free = bool((snapshot.free[columns, booking.row] >= amounts).all())
    if free and are_free(snapshot, booking.row, booking.devices):
        snapshot.book(booking)
        return True
    return False
