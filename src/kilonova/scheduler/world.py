"""The cluster as the caches tell it, together with what was decided and is not told yet.

Handlers of the caches keep it true, each at the cost of its event. A pod that was decided about is
**assumed**: booked before its binding is written, and until the cache shows it. A pod that was told
to go is **leaving**: its room belongs to somebody else already.

Which gangs wait is the business of `gangbook`.
"""

import dataclasses
from collections.abc import Callable, Collection, Iterable
from datetime import datetime

from kilonova.api.podgang import PodGang
from kilonova.api.scheduling import Queue, Reservation
from kilonova.api.schedulingnames import SCHEDULER
from kilonova.kube import Store
from kilonova.scheduler.core.asks import Shape, is_pool
from kilonova.scheduler.core.cluster import Cluster
from kilonova.scheduler.core.devices import Share
from kilonova.scheduler.core.gangs import Gang, Member
from kilonova.scheduler.core.plan import Placement
from kilonova.scheduler.core.snapshot import Booking
from kilonova.scheduler.devices import Devices
from kilonova.scheduler.foreigngroups import ForeignGroups
from kilonova.scheduler.gangbook import GangBook
from kilonova.scheduler.leaving import Leavers
from kilonova.scheduler.namespaces import NamespaceLabels
from kilonova.scheduler.objects import Node, Pod
from kilonova.scheduler.reading.bookings import booking_of
from kilonova.scheduler.reading.claims import claim_keys
from kilonova.scheduler.reading.gangs import NotYet, is_placeable
from kilonova.scheduler.reading.nodes import node_of
from kilonova.scheduler.reading.podchanges import (
    counts_otherwise,
    reads_otherwise,
    was_given_others,
)
from kilonova.scheduler.reading.queues import forest_from
from kilonova.scheduler.reading.reservations import is_reservation
from kilonova.scheduler.reservationbook import ReservationBook
from kilonova.scheduler.shelves import claim_keys as volume_claim_keys
from kilonova.scheduler.volumes import Volumes


class World:
    """What is decided from, and which gangs wait for a decision."""

    def __init__(
        self,
        nodes: Store[Node],
        pods: Store[Pod],
        gangs: Store[PodGang],
        queues: Store[Queue],
        now: Callable[[], datetime],
        wake: Callable[[], None],
        serves: frozenset[str] = frozenset({SCHEDULER}),
        *,
        others_gangs: bool = True,
        devices: Devices | None = None,
        volumes: Volumes | None = None,
        namespaces: NamespaceLabels | None = None,
        groups: ForeignGroups | None = None,
        reservations: Store[Reservation] | None = None,
        arrived: Callable[[Shape], None] = lambda _: None,
        mindful: Callable[[Gang], Gang] = lambda gang: gang,
        failed: Callable[[str, Exception], NotYet] | None = None,
    ) -> None:
        """`serves` are the names of schedulers whose pods are placed; `others_gangs` says that
        gangs of pods which others place are of interest, too. Without `devices` and `volumes`,
        claims of pods are not looked at; without `namespaces`, they have no labels; `groups` keeps
        `gangs` where some are groups of others. `arrived` hears what pods ask for that wait for a
        node; `mindful` has gangs that wait avoid nodes; `failed` hears of errors about one gang,
        which are raised without it."""
        self.cluster = Cluster()
        self._gangs = book = GangBook(
            self.cluster,
            pods,
            gangs,
            now,
            wake,
            serves,
            others_gangs=others_gangs,
            devices=devices,
            volumes=volumes,
            namespaces=namespaces,
            groups=groups,
            arrived=arrived,
            mindful=mindful,
            failed=failed,
        )
        self.waiting = book.waiting
        """Gangs that have pods to place."""
        self.not_yet = book.not_yet
        """Gangs that cannot be placed as they are."""
        self.misread = book.misread
        """Those of them of which people are told: what they ask for can not be read, or their
        volumes are not ready."""
        self.halves = book.halves
        """Gangs of which only some pods have a node, and since when."""
        self.touch = book.touch
        """Has a gang read anew."""
        self.find = book.find
        """A pod as the cache shows it."""
        self.bound_pods = book.bound_pods
        """The pods of a gang that have a node and will go on using it."""
        self.reservations = ReservationBook(
            self.cluster,
            Store(Reservation) if reservations is None else reservations,
            gangs,
            pods,
            now,
            wake,
            self._gain,
            book.waiting,
            book.not_yet,
            book.touch,
        )
        """Room that is kept."""
        book.lead = self.reservations.lead
        self.leavers = Leavers()
        self.gains = 0
        """Counts what may have made room: nothing is tried again before."""
        self.node_events = 0
        """Counts nodes that came or changed."""
        self._queues = queues
        self._volumes = volumes
        self._wake = wake
        self._homeless: dict[str, set[str]] = {}
        """Pods on nodes that are not known, by node."""
        self._queues_changed = False
        self._assumed: dict[str, Booking] = {}
        """Bookings as they were decided, by pod, until their bindings have come to an end. What is
        booked may have been amended since."""
        self._binding: set[str] = set()
        """Those of them whose bindings are being written."""
        nodes.subscribe(self._node_changed)
        gangs.subscribe(self._gang_changed)
        pods.subscribe(self._pod_changed)
        queues.subscribe(self._queue_changed)
        if devices is not None:
            devices.attach(self.cluster.snapshot, self._read_again)
        if volumes is not None:
            volumes.attach(self.cluster.snapshot, self._read_again)
        if namespaces is not None:
            namespaces.attach(self._read_again)
        if groups is not None:
            groups.attach(book.gang_of, self._read_again)

    # What is decided from.

    def refresh(self) -> None:
        """Brings queues and gangs that something happened to up to date."""
        if self._queues_changed:
            self._queues_changed = False
            self.cluster.replace_queues(forest_from(self._queues.objects()))
            self.gains += 1
        self._gangs.refresh()
        self.reservations.refresh()
        if self._volumes is not None and self._volumes.refresh():
            self.gains += 1

    def assume(self, placement: Placement) -> None:
        """Pods of a gang were booked, those of others released for it; what of it still waits is
        read anew."""
        gang = placement.gang
        for unit in placement.evicted:
            for pod in unit.pods:
                self._make_victim(pod)
        if is_reservation(gang.name):
            self.reservations.assume(placement)
            return
        self._assumed.update((booking.pod, booking) for booking in placement.bookings)
        self.reservations.settle(gang.room)
        self.waiting.pop(gang.name, None)
        if any(member.pod not in self.cluster.snapshot.bookings for member in _members_of(gang)):
            self._gangs.touch(gang.name)
        self._gangs.touch_dependents(gang.name)
        self._gain_for_peers()

    def _make_victim(self, pod: str) -> None:
        """A pod has to leave its node. One that is not bound has nothing to leave: it loses its
        claim, and its gang waits again; unless its binding is being written."""
        found, assumed = self.find(pod), self._assumed.get(pod)
        if found is None or found.ended:
            return
        if found.spec.node_name or assumed is None:
            self.leavers.add(pod, found.spec.node_name)
        elif pod in self._binding:
            self.leavers.add(pod, self.cluster.snapshot.names[assumed.row])
        else:
            del self._assumed[pod]
            self._gangs.touch_pod(pod)
            self.leavers.notify()

    def book(self, pod: Pod, member: Member, row: int, devices: tuple[Share, ...]) -> Booking:
        """Books a pod for which somebody else found a node; what waits of its gang is read anew."""
        booking = Booking(member, row, devices, self._gangs.name_of(pod))
        self.cluster.snapshot.book(booking)
        self._assumed[pod.key] = booking
        self._binding.add(pod.key)
        self._gangs.touch_pod(pod.key)
        return booking

    def begin_binding(self, bookings: Iterable[Booking]) -> None:
        """Bindings are written from now on: whatever changes, their room is taken until they have
        come to an end."""
        self._binding.update(booking.pod for booking in bookings)

    def end_binding(self, placement: Placement, failed: Iterable[Booking]) -> None:
        """All bindings of a gang were written, but for some, which are given back."""
        failed = list(failed)
        lost = {booking.pod for booking in failed}
        bound = {booking.pod for booking in placement.bookings} - lost
        for booking in placement.bookings:
            if booking.pod in bound:
                self._forget_assumed(booking)
        self._gangs.bound(placement.gang, bound)
        self.give_back(failed)

    def give_back(self, bookings: Iterable[Booking]) -> None:
        """Bindings that came to nothing: their room is free again, their gangs wait."""
        for booking in bookings:
            pod = self.find(booking.pod)
            if self._is_assumed(booking):
                if pod is not None and pod.spec.node_name and not pod.ended:
                    self._book(pod)  # somebody else chose the same node
                else:
                    self._release(booking.pod)
            self._forget_assumed(booking)
            if pod is not None and volume_claim_keys(pod):
                self._gangs.forget_member(booking.pod)
            self._gangs.touch_pod(booking.pod)

    def revoke(self, placement: Placement) -> None:
        """A decision that failed before anything of it was carried out: its bookings are given
        back, and its victims stay."""
        name = placement.gang.name
        if is_reservation(name):
            self.reservations.revoke(name)
        else:
            self._assumed.update((booking.pod, booking) for booking in placement.bookings)
            self.give_back(placement.bookings)
        self.keep(pod for unit in placement.evicted for pod in unit.pods)

    def keep_untold(self, placement: Placement) -> None:
        """Victims of a placement that came to nothing stay, unless they terminate already."""
        self.keep(
            pod
            for unit in placement.evicted
            for pod in unit.pods
            if pod in self.leavers
            and ((found := self.find(pod)) is None or not found.metadata.deletion_timestamp)
        )

    def recount(self) -> None:
        """Has standing gangs agree with bookings again, after a decision that failed midway."""
        bookings = self.cluster.snapshot.bookings
        for name, standing in list(self.cluster.standing.items()):
            gone = [pod for pod in standing.pods if pod not in bookings]
            if gone:
                self.cluster.leave(name, gone)
        for booking in bookings.values():
            standing = self.cluster.standing.get(booking.gang)
            if self._gangs.knows(booking.gang) and (
                standing is None or booking.pod not in standing.pods
            ):
                self._gangs.touch(booking.gang)

    def exclude_node(self, name: str, pod: str | None = None) -> None:
        """Gives nothing more on a node of which it is not known what is used there, until something
        happens to it. `pod` is who could not be counted: it has to be before the node is used."""
        if name and pod is not None:
            self._homeless.setdefault(name, set()).add(pod)
        if name in self.cluster.snapshot:
            self._node_gone(name)

    def let_go(self, pods: Iterable[str]) -> None:
        """Pods on their way out make room for those to whom it was promised."""
        for pod in pods:
            found = self.find(pod)
            if found is not None and pod in self.cluster.snapshot.bookings:
                self._release(pod)
                self.leavers.add(pod, found.spec.node_name)

    def keep(self, pods: Iterable[str]) -> None:
        """Pods that were told to go and stay after all."""
        for pod in pods:
            self.leavers.discard(pod)
            found = self.find(pod)
            if found is not None and found.spec.node_name and not found.ended:
                self._book(found)
                self._gangs.touch_pod(pod)

    def relocate(
        self,
        placement: Placement,
        place: Callable[[Gang], list[Booking] | None],
    ) -> Placement | None:
        """Books a gang that waits for others to leave where nobody has to, if it fits; its victims
        count as using what they have again, but for those that terminate where others wait for
        them, too. None, and nothing changes, if not."""
        snapshot, pods = self.cluster.snapshot, {booking.pod for booking in placement.bookings}
        if placement.gang.room or any(
            booking.claims or self._has_volumes(booking) for booking in placement.bookings
        ):
            return None
        mark = snapshot.mark()
        try:
            rows = [booking.row for booking in snapshot.release_all(sorted(pods))]
            staying = self._no_longer_wanted(placement)
            for victim in staying:
                self._count_in(victim)
            bookings = place(placement.gang.only(pods))
        except BaseException:
            snapshot.undo(mark)
            raise
        names = snapshot.names
        busy = self.leavers.nodes()
        if bookings is None or any(names[booking.row] in busy for booking in bookings):
            snapshot.undo(mark)
            return None
        snapshot.keep(mark)
        for victim in staying:
            self.leavers.discard(victim.key)
            self._gangs.touch_pod(victim.key)
        for row in rows:
            self.reservations.left(row)
        self._assumed.update((booking.pod, booking) for booking in bookings)
        self._gangs.touch(placement.gang.name)
        self._gain()
        return Placement(placement.gang, tuple(bookings))

    def _no_longer_wanted(self, placement: Placement) -> list[Pod]:
        """Victims of a placement for which nobody else waits. One that terminates where another
        gang has a claim goes on leaving: else that gang would lose its claim, and evict others."""
        pods = {booking.pod for booking in placement.bookings}
        victims = (self.find(pod) for unit in placement.evicted for pod in unit.pods)
        return [
            victim
            for victim in victims
            if victim is not None
            and not victim.ended
            and victim.key not in self.cluster.snapshot.bookings
            and not (
                victim.metadata.deletion_timestamp
                and self._is_claimed(victim.spec.node_name, besides=pods)
            )
        ]

    def _is_claimed(self, node: str, besides: Collection[str]) -> bool:
        """Whether capacity of a node is booked for pods that are not there yet."""
        snapshot = self.cluster.snapshot
        return node in snapshot and any(
            pod not in besides and not ((found := self.find(pod)) and found.spec.node_name)
            for pod in snapshot.pods_on[snapshot.row(node)]
        )

    def take_in(self, pod: Pod) -> bool:
        """Counts a pod that the API shows on a node, though the cache may not yet; False if the
        cache does not know it at all."""
        found = self.find(pod.key)
        if found is None or found.metadata.uid != pod.metadata.uid:
            return False
        if is_placeable(found) and not self._is_booked_there(pod):
            self._book(pod)
            self._gangs.touch_pod(pod.key)
        return True

    def unbound(self, booking: Booking) -> Pod | None:
        """The pod of a booking, while it waits for its binding."""
        pod = self.find(booking.pod)
        if pod is None or not is_placeable(pod):
            return None
        return pod if self._is_assumed(booking) else None

    def is_superseded(self, booking: Booking) -> bool:
        """Whether a later decision gave the pod of a booking another claim."""
        return self._assumed.get(booking.pod, booking) is not booking

    def is_bound(self, booking: Booking) -> bool:
        """Whether the cache shows a booking's pod where it is booked."""
        pod = self.find(booking.pod)
        return pod is not None and self._is_booked_there(pod)

    def fits(self, booking: Booking) -> bool:
        """Whether a node can still bear all that is booked there, as far as it concerns a booking:
        somebody else may have taken room since."""
        snapshot, row = self.cluster.snapshot, booking.row
        columns, _ = snapshot.request(booking.shape)
        lacking = (snapshot.free[columns, row] < 0).tolist()
        requests = zip(booking.shape.requests, lacking, strict=True)
        return (
            # Volumes that are free no more may be the pod's own by now.
            not any(lacks and not is_pool(name) for (name, _), lacks in requests)
            and all(snapshot.gpu_free[row, share.index] >= 0 for share in booking.devices)
            and not snapshot.claims.overdrawn([booking.claims])
        )

    # What the caches tell.

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        snapshot = self.cluster.snapshot
        if new is not None:
            self.node_events += 1
            node, _ = node_of(new)
            snapshot.put_node(node if self._volumes is None else self._volumes.added_to(node))
            # Forgotten only when all are counted: one that cannot be has the node excluded again.
            for pod in sorted(self._homeless.get(node.name, ())):
                found = self.find(pod)
                if found is not None and found.spec.node_name == node.name:
                    self._pod_changed(None, found)
            self._homeless.pop(node.name, None)
        elif old is not None and old.metadata.name in snapshot:
            self._node_gone(old.metadata.name)
        node = new or old
        if self._volumes is not None and node is not None and (old is None or new is None):
            self._volumes.node_came_or_went(node.metadata.name)
        self._gain()

    def _node_gone(self, name: str) -> None:
        snapshot = self.cluster.snapshot
        self.reservations.node_goes(name)
        for pod in list(snapshot.pods_on[snapshot.row(name)]):
            self._release(pod)
            self._gangs.touch_pod(pod)
            if (found := self.find(pod)) is not None and found.spec.node_name == name:
                self._homeless.setdefault(name, set()).add(pod)
        snapshot.remove_node(name)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        pod = new or old
        assert pod is not None
        key = pod.key
        if old is not None and new is not None and old.metadata.uid != new.metadata.uid:
            self._pod_changed(old, None)
            old = None
        if old is None or new is None or reads_otherwise(old, new):
            self._gangs.forget_member(key)
        if new is None or new.ended:
            self.leavers.discard(key)
            self._homeless.get(pod.spec.node_name, set()).discard(key)
            if key in self.cluster.snapshot.bookings:
                self._release(key)
            self._gangs.touch_pod(key)
        elif new.spec.node_name:
            if key not in self.leavers and not self._is_booked_there(new):
                self._book(new)
                self._gangs.touch_pod(key)
                self._gain_for_peers()
            elif old is not None and not old.spec.node_name and volume_claim_keys(new):
                self._read_again([key], False)
            elif key not in self.leavers:
                self._recount(old, new)
            if new.metadata.deletion_timestamp:
                self._gangs.touch_pod(key)
        elif old is None or is_placeable(old) != is_placeable(new) or not self._gangs.has_read(key):
            self._gangs.touch_pod(key)

    def _recount(self, old: Pod | None, pod: Pod) -> None:
        """Counts a pod on its node as it is now: it may have been resized, relabelled, or given
        other devices than those that were booked."""
        booking = self.cluster.snapshot.bookings[pod.key]
        others = was_given_others(old, pod, booking)
        if others or not self._gangs.has_read(pod.key):
            if others or counts_otherwise(booking.member, self._gangs.used_by(pod)):
                self._book(pod)
            self._gangs.touch_pod(pod.key)
        elif booking.member.labels != pod.metadata.labels:
            self._relabel(booking, pod)

    def _relabel(self, booking: Booking, pod: Pod) -> None:
        """A pod says something else to its neighbours, and uses the same."""
        member = dataclasses.replace(booking.member, labels=pod.metadata.labels)
        relabelled = dataclasses.replace(booking, member=member)
        if self.cluster.snapshot.neighbours.awake:
            self.cluster.snapshot.release(pod.key)
            self.cluster.snapshot.book(relabelled)
            self._gain_for_peers()
        else:
            self.cluster.snapshot.amend(relabelled)

    def _read_again(self, pods: Iterable[str], gained: bool) -> None:
        """Something changed that these pods refer to, and with it what they ask for or have."""
        for key in pods:
            self._gangs.forget_member(key)
            pod, booking = self.find(key), self.cluster.snapshot.bookings.get(key)
            if pod is not None and booking is not None and self._is_booked_there(pod):
                known = tuple(claim_keys(pod)) == booking.member.claims
                now = self._gangs.used_by(pod)
                if not known or None in booking.claims or counts_otherwise(booking.member, now):
                    self._book(pod)
            self._gangs.touch_pod(key)
        if gained:
            self._gain()

    def _gang_changed(self, old: PodGang | None, new: PodGang | None) -> None:
        for pod in self._gangs.take(old, new):
            self._count_for_gang(pod)

    def _queue_changed(self, old: Queue | None, new: Queue | None) -> None:
        if old is None or new is None or old.spec != new.spec:
            self._queues_changed = True
            self._wake()

    # Bookings.

    def _is_assumed(self, booking: Booking) -> bool:
        """Whether a decision about a pod is the last one, and what it booked is still booked."""
        known = self._assumed.get(booking.pod)
        return known is booking and booking.pod in self.cluster.snapshot.bookings

    def _forget_assumed(self, booking: Booking) -> None:
        if self._assumed.get(booking.pod) is booking:
            del self._assumed[booking.pod]
            self._binding.discard(booking.pod)

    def _is_booked_there(self, pod: Pod) -> bool:
        booking = self.cluster.snapshot.bookings.get(pod.key)
        return (
            booking is not None and self.cluster.snapshot.names[booking.row] == pod.spec.node_name
        )

    def _book(self, pod: Pod) -> None:
        """Counts a pod where it is, wherever it was thought to be."""
        snapshot = self.cluster.snapshot
        before = snapshot.bookings.get(pod.key)
        if before is not None:
            self._release(pod.key, again=True)
        if pod.spec.node_name not in snapshot:
            self._homeless.setdefault(pod.spec.node_name, set()).add(pod.key)
            return
        self._count_in(pod, before)
        self.reservations.crowded(snapshot.row(pod.spec.node_name))

    def _count_in(self, pod: Pod, before: Booking | None = None) -> None:
        """Books a pod on its node."""
        snapshot, book = self.cluster.snapshot, self._gangs
        if pod.spec.node_name not in snapshot:
            return
        row = snapshot.row(pod.spec.node_name)
        member = book.used_by(pod)
        if before is not None and before.member.budgets:
            member = dataclasses.replace(member, budgets=before.member.budgets)
        snapshot.book(booking_of(snapshot, row, pod, member, book.name_of(pod)))

    def _has_volumes(self, booking: Booking) -> bool:
        pod = self.find(booking.pod)
        return pod is not None and bool(volume_claim_keys(pod))

    def _count_for_gang(self, pod: str) -> None:
        """Has a booking count for the gang that its pod belongs to now. A pod whose binding is not
        being written yet was decided about as part of another gang: that decision is void."""
        booking, found = self.cluster.snapshot.bookings.get(pod), self.find(pod)
        if booking is None or found is None or booking.gang == self._gangs.name_of(found):
            return
        if found.spec.node_name or pod in self._binding:
            self._release(pod, again=True)
            self.cluster.snapshot.book(
                dataclasses.replace(booking, gang=self._gangs.name_of(found))
            )
        else:
            self._release(pod)

    def _release(self, pod: str, *, again: bool = False) -> None:
        """Frees the room of a pod, unless it is kept for others; `again` is it booked at once."""
        booking = self.cluster.snapshot.release(pod)
        standing = self.cluster.standing.get(booking.gang)
        if standing is not None and pod in standing.pods:
            self.cluster.leave(booking.gang, [pod])
        if not again:
            self.reservations.left(booking.row)
            self.leavers.notify()
        self._gain()

    def _gain_for_peers(self) -> None:
        """Who stands somewhere may open a place for those who want to stand near."""
        if self._gangs.wants_peers():
            self._gain()

    def _gain(self) -> None:
        self.gains += 1
        self._wake()


def _members_of(gang: Gang) -> Iterable[Member]:
    return (member for group in gang.groups for member in group.members)
