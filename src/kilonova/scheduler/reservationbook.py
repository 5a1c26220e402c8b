"""Which room is kept by reservations, and for whom.

A reservation is a gang whose pods never come: it waits for a place as any other, and what it gets
stays booked. The **places** that it has are remembered; what is booked for it is always its places
without those who stand in them, worked out anew whenever one of them comes or goes. So room goes
back to its reservation in the moment in which it is left, before anybody is decided about.

Places are what the status says, but for what was decided and is not written yet.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime

from kilonova.api.podgang import NamespacedName, PodGang
from kilonova.api.scheduling import Reservation
from kilonova.kube import Store
from kilonova.scheduler.core.cluster import Cluster
from kilonova.scheduler.core.gangs import Gang
from kilonova.scheduler.core.plan import Placement
from kilonova.scheduler.keptroom import Holder, Kept, as_written
from kilonova.scheduler.objects import Pod
from kilonova.scheduler.reading.gangs import NotYet, plain_name
from kilonova.scheduler.reading.keptplaces import (
    Places,
    adopted,
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
        self.patient: Callable[[Gang], Gang] = lambda gang: gang
        """Says of a reservation that waits whether it may evict others now."""
        self._cluster = cluster
        self._reservations = reservations
        self._gangs = gangs
        self._pods = pods
        self._takers = RoomTakers(cluster, reservations, gangs, pods)
        self._now = now
        self._wake = wake
        self._holder = Holder(cluster, now, gain)
        self._waiting = waiting
        self._not_yet = not_yet
        self._touch_gang = touch_gang
        self._kept: dict[str, Kept] = {}
        self._states: dict[str, State] = {}
        self._touched: dict[str, None] = {}
        reservations.subscribe(self._changed)

    # What gangs have to do with reservations.

    def lead(self, gang: Gang) -> Gang:
        """A gang with the room that it may take, and the nodes on which another was before it."""
        room, before = self._takers.room_of(gang.name), self._takers.nodes_before(gang.name)
        if room:
            self._holder.users.setdefault(room, {})[gang.name] = None
            self.touch(room)
        return replace(gang, room=room, before=before) if room or before else gang

    def settle(self, name: str, *, among_others: bool = False) -> None:
        """Books what a reservation keeps beside those who stand in its places; `among_others` as
        for `Holder.hold`."""
        kept = self._kept.get(name)
        if kept is None:
            return
        lost = self._holder.hold(name, kept, among_others=among_others)
        if lost:
            kept.places = tuple(each for n, each in enumerate(kept.places) if n not in lost)
            kept.unwritten = True
            self._holder.hold(name, kept)
            self.touch(name)
        self._holder.protect(name, kept)
        self._tell(name)

    def left(self, row: int) -> None:
        """Somebody left a row: what is kept there is booked before anybody is decided about."""
        for name in self._keeping_on(self._cluster.snapshot.names[row]):
            self.settle(name)

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
            self._kept[name] = as_written(reservation)
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

    def revoke(self, name: str) -> None:
        """A decision about a reservation failed: it has what it had before."""
        self.cleared(name, gone=False)
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
            kept = self._kept[name] = as_written(reservation)
        if kept.before is not None:
            self._tell(name)
            return
        now, generation = self._now().timestamp(), reservation.metadata.generation
        try:
            opens, kept.ends = starts_at(reservation.spec), ends_at(reservation.spec, kept.since)
        except Misread as error:
            self._not_yet[name] = NotYet(error.reason, str(error))
            self._drop(name, kept)
            return
        kept.opens = opens if now < opens else None
        if kept.expired == generation or (kept.ends is not None and now >= kept.ends):
            kept.expired = generation
            self._drop(name, kept)
        elif kept.opens is not None:
            self._drop(name, kept)
        else:
            self._ask(name, reservation, kept, now)

    def _ask(self, name: str, reservation: Reservation, kept: Kept, now: float) -> None:
        """Has a reservation wait for what it lacks."""
        wanted = self._wanted(reservation)
        kept.queue = wanted.queue if isinstance(wanted, Gang) else kept.queue
        if isinstance(wanted, NotYet):
            if not kept.places:
                self._not_yet[name] = wanted
            self.settle(name, among_others=True)
            return
        if kept.generation != reservation.metadata.generation:
            if not suits(wanted, kept.places, self._cluster.snapshot):
                kept.places, kept.since, kept.unwritten = (), None, True
            kept.generation = reservation.metadata.generation
        if not kept.places:
            kept.places = self._adopted(name, wanted)
        self.settle(name, among_others=True)
        rest = lacking(wanted, kept.places)
        if any(group.members for group in rest.groups):
            self._waiting[name] = self.patient(rest)
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
        return adopted(wanted, self._holder.users_of(name), self._cluster.snapshot.names)

    # What reservations have.

    def _drop(self, name: str, kept: Kept) -> None:
        """Keeps nothing any more; whoever stands there is one of many."""
        if kept.places:
            kept.places, kept.unwritten = (), True
            for user in self._holder.users.get(name, ()):
                self._touch_gang(user)
        kept.since = None
        self.settle(name)

    def _forget(self, name: str) -> None:
        kept = self._kept.get(name)
        if kept is not None:
            self._drop(name, kept)
            del self._kept[name]
        self._holder.users.pop(name, None)
        self._states.pop(name, None)

    def _tell(self, name: str) -> None:
        kept, reservation = self._kept[name], self._reservations.get(key_of_reservation(name))
        if reservation is None:
            return
        nodes = {place.name for place in kept.places}
        names = self._cluster.snapshot.names
        users = sorted(
            {
                each.gang
                for each in self._holder.users_of(name, kept.places)
                if names[each.row] in nodes
            }
        )
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
            written = as_written(new)
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
