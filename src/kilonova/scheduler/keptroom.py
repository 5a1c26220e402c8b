"""What is booked for a reservation: its places without those who stand in them."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

from kilonova.api.scheduling import Reservation
from kilonova.api.times import parse_time
from kilonova.scheduler.core.cluster import Cluster
from kilonova.scheduler.core.gangs import Gang
from kilonova.scheduler.core.giving import are_free
from kilonova.scheduler.core.keeping import is_inside, remaining
from kilonova.scheduler.core.queues import DEFAULT
from kilonova.scheduler.core.snapshot import Booking, Snapshot
from kilonova.scheduler.reading.keptplaces import Places, booking_at


@dataclass(slots=True)
class Kept:
    """What is known of one reservation beside what people wrote."""

    uid: str
    places: Places = ()
    since: float | None = None
    generation: int | None = None
    """Of the object for which the places were found."""
    opens: float | None = None
    """When it starts, if it has not started yet."""
    ends: float | None = None
    queue: str = DEFAULT
    expired: int | None = None
    """Generation of the object that came to its end."""
    unwritten: bool = False
    """Something was decided that the status does not say yet."""
    before: Places | None = None
    """What it had before a decision for which others have to go; until they are gone."""


class Holder:
    """Books what is kept in a cluster. `users` are the gangs that may stand in a reservation's
    places; `gain` hears that room may have become free."""

    def __init__(
        self, cluster: Cluster, now: Callable[[], datetime], gain: Callable[[], None]
    ) -> None:
        self._cluster = cluster
        self._now = now
        self._gain = gain
        self.users: dict[str, dict[str, None]] = {}

    def users_of(self, name: str, places: Places = ()) -> list[Booking]:
        """The pods of all gangs that may stand in the room of a reservation; in its places also
        those that are being deleted and count for their gang no more."""
        standing, snapshot = self._cluster.standing, self._cluster.snapshot
        gangs = sorted(gang for gang in self.users.get(name, ()) if gang in standing)
        found = {
            pod: snapshot.bookings[pod]
            for gang in gangs
            if standing[gang].gang.room == name
            for pod in standing[gang].pods
        }
        for node in dict.fromkeys(place.name for place in places if place.name in snapshot):
            for pod, booking in snapshot.pods_on[snapshot.row(node)].items():
                if booking.gang in self.users.get(name, ()) and not self._counts(pod):
                    found[pod] = booking
        return list(found.values())

    def _counts(self, pod: str) -> bool:
        """Whether a pod that has a place counts for a gang that stands."""
        standing = self._cluster.standing.get(self._cluster.snapshot.bookings[pod].gang)
        return standing is not None and pod in standing.pods

    def hold(self, name: str, kept: Kept, *, among_others: bool = False) -> set[int]:
        """Has booked what is kept, and nothing else; says which places are not there any more, or
        somebody else has. Who came since it was booked is looked for among others only if all are
        known who stand there."""
        cluster, snapshot = self._cluster, self._cluster.snapshot
        places = self._bookings(name, kept)
        users = self.users_of(name, kept.places)
        wanted = remaining([each for each in places if each is not None], users)
        standing, gang = cluster.standing.get(name), _as_gang(name, kept)
        has = [snapshot.bookings[pod] for pod in standing.pods] if standing is not None else []
        gone = {number for number, each in enumerate(places) if each is None}
        same = has == wanted and (standing is None or standing.gang == gang)
        if same and not (among_others and any(_overdrawn(snapshot, each) for each in has)):
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

    def _bookings(self, name: str, kept: Kept) -> list[Booking | None]:
        snapshot = self._cluster.snapshot
        return [booking_at(snapshot, name, n, each) for n, each in enumerate(kept.places)]

    def protect(self, name: str, kept: Kept) -> None:
        """Who stands within kept room is pushed out by nobody: nobody else would get it."""
        standing, bookings = self._cluster.standing, self._cluster.snapshot.bookings
        places = [each for each in self._bookings(name, kept) if each is not None]
        for user in self.users.get(name, ()):
            one = standing.get(user)
            if one is None or one.gang.room != name or not one.gang.preemptible:
                continue
            if is_inside(places, [bookings[pod] for pod in one.pods]):
                one.gang = replace(one.gang, preemptible=False)


def as_written(reservation: Reservation) -> Kept:
    """What a reservation has, by its status."""
    status, meta = reservation.status, reservation.metadata
    if status.phase == "Expired":
        return Kept(meta.uid, expired=status.observed_generation)
    since = parse_time(status.reserved_at).timestamp() if status.reserved_at else None
    return Kept(meta.uid, status.nodes, since, status.observed_generation)


def _as_gang(name: str, kept: Kept) -> Gang:
    """A reservation as those see it who wait for its end."""
    duration = None if kept.ends is None or kept.since is None else kept.ends - kept.since
    return Gang(name, (), queue=kept.queue, duration=duration, preemptible=False)


def _overdrawn(snapshot: Snapshot, booking: Booking) -> bool:
    """Whether a node cannot bear what is kept there beside all others."""
    columns, _ = snapshot.request(booking.shape)
    short = bool((snapshot.free[columns, booking.row] < 0).any())
    return short or any(snapshot.gpu_free[booking.row, each.index] < 0 for each in booking.devices)


def _book(snapshot: Snapshot, booking: Booking) -> bool:
    """Books what is kept, if nobody else has it."""
    columns, amounts = snapshot.request(booking.shape)
    free = bool((snapshot.free[columns, booking.row] >= amounts).all())
    if free and are_free(snapshot, booking.row, booking.devices):
        snapshot.book(booking)
        return True
    return False
