"""The cluster as the caches tell it, together with what was decided and is not told yet.

Handlers of the caches keep it true, each at the cost of its event. A pod that was decided about is
**assumed**: booked before its binding is written, and until the cache shows it. A pod that was told
to go is **leaving**: its room belongs to somebody else already.

Which gangs wait is worked out anew only for gangs that something happened to.
"""

import dataclasses
from collections.abc import Callable, Iterable
from datetime import datetime

from msgspec.structs import replace

from kilonova.api.grove import names
from kilonova.api.podgang import PodGang
from kilonova.api.scheduling import Queue
from kilonova.api.schedulingnames import SCHEDULER
from kilonova.api.times import parse_time
from kilonova.kube import Store
from kilonova.scheduler.core.cluster import Cluster
from kilonova.scheduler.core.devices import Share
from kilonova.scheduler.core.gangs import Gang, Member
from kilonova.scheduler.core.plan import Placement
from kilonova.scheduler.core.snapshot import Booking
from kilonova.scheduler.devices import Devices
from kilonova.scheduler.leaving import Leavers
from kilonova.scheduler.objects import Node, Pod
from kilonova.scheduler.reading.bookings import any_member_of, booking_of
from kilonova.scheduler.reading.claims import claim_keys
from kilonova.scheduler.reading.gangs import (
    NotYet,
    is_placeable,
    lone_name,
    read_gang,
    read_lone_pod,
    read_standing,
    stands,
)
from kilonova.scheduler.reading.nodes import node_of
from kilonova.scheduler.reading.pods import member_of
from kilonova.scheduler.reading.queues import forest_from


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
    ) -> None:
        """`serves` are the names of schedulers whose pods are placed; `others_gangs` says that
        gangs of pods which others place are of interest, too. Without `devices`, claims of pods
        are not looked at."""
        self.cluster = Cluster()
        self.waiting: dict[str, Gang] = {}
        """Gangs that have pods to place."""
        self.not_yet: dict[str, NotYet] = {}
        """Gangs that cannot be placed as they are."""
        self.halves: dict[str, float] = {}
        """Gangs of which only some pods have a node, and since when."""
        self.leavers = Leavers()
        self.gains = 0
        """Counts what may have made room: nothing is tried again before."""
        self._pods = pods
        self._gangs = gangs
        self._queues = queues
        self._now = now
        self._wake = wake
        self._serves = serves
        self._others_gangs = others_gangs
        self._devices = devices
        self._members: dict[str, Member] = {}
        self._gang_of: dict[str, str] = {}
        self._whole: set[str] = set()
        """Gangs that had all they need, as far as we have seen."""
        self._homeless: dict[str, set[str]] = {}
        """Pods on nodes that are not known, by node."""
        self._dependents: dict[str, dict[str, None]] = {}
        """Gangs that wait for another to be placed, by the other."""
        self._apart: dict[tuple[str, str, str], dict[str, None]] = {}
        """Gangs that stand apart from each other, by namespace, label and value."""
        self._touched: dict[str, None] = {}
        self._queues_changed = False
        nodes.subscribe(self._node_changed)
        gangs.subscribe(self._gang_changed)
        pods.subscribe(self._pod_changed)
        queues.subscribe(self._queue_changed)
        if devices is not None:
            devices.attach(self.cluster.snapshot, self._read_again)

    # What is decided from.

    def refresh(self) -> None:
        """Brings queues and gangs that something happened to up to date."""
        if self._queues_changed:
            self._queues_changed = False
            self.cluster.replace_queues(forest_from(self._queues.objects()))
            self.gains += 1
        touched, self._touched = self._touched, {}
        for name in touched:
            self._read(name)

    def assume(self, placement: Placement) -> None:
        """Pods of a gang were booked, those of others released for it; what of it still waits is
        read anew."""
        gang = placement.gang
        for unit in placement.evicted:
            for pod in unit.pods:
                found = self.find(pod)
                if found is not None and not found.ended:
                    self.leavers.add(pod, found.spec.node_name)
        self.waiting.pop(gang.name, None)
        if any(member.pod not in self.cluster.snapshot.bookings for member in _members_of(gang)):
            self._touch(gang.name)
        self._touch_dependents(gang.name)

    def book(self, pod: Pod, member: Member, row: int, devices: tuple[Share, ...]) -> Booking:
        """Books a pod for which somebody else found a node; what waits of its gang is read anew."""
        booking = Booking(member, row, devices, self._name_of(pod))
        self.cluster.snapshot.book(booking)
        self._touch_pod(pod.key)
        return booking

    def give_back(self, bookings: Iterable[Booking]) -> None:
        """Bindings that came to nothing: their room is free again, their gangs wait."""
        for booking in bookings:
            if self.cluster.snapshot.bookings.get(booking.pod) is booking:
                self._release(booking.pod)
            self._touch_pod(booking.pod)

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
                self._touch_pod(pod)

    def take_in(self, pod: Pod) -> bool:
        """Counts a pod that the API shows on a node, though the cache may not yet; False if the
        cache does not know it at all."""
        found = self.find(pod.key)
        if found is None or found.metadata.uid != pod.metadata.uid:
            return False
        if is_placeable(found) and not self._is_booked_there(pod):
            self._book(pod)
            self._touch_pod(pod.key)
        return True

    def unbound(self, booking: Booking) -> Pod | None:
        """The pod of a booking, while it waits for its binding."""
        pod = self.find(booking.pod)
        if pod is None or not is_placeable(pod):
            return None
        return pod if self.cluster.snapshot.bookings.get(booking.pod) is booking else None

    def is_bound(self, booking: Booking) -> bool:
        """Whether the cache shows a booking's pod where it is booked."""
        pod = self.find(booking.pod)
        return pod is not None and self._is_booked_there(pod)

    def fits(self, booking: Booking) -> bool:
        """Whether a node can still bear all that is booked there, as far as it concerns a booking:
        somebody else may have taken room since."""
        snapshot, row = self.cluster.snapshot, booking.row
        columns, _ = snapshot.request(booking.shape)
        return (
            bool((snapshot.free[columns, row] >= 0).all())
            and all(snapshot.gpu_free[row, share.index] >= 0 for share in booking.devices)
            and not snapshot.claims.overdrawn([booking.claims])
        )

    def bound_pods(self, gang: PodGang) -> list[Pod]:
        """The pods of a gang that have a node and will go on using it."""
        pods = filter(None, map(self.find, _referred(gang)))
        return [pod for pod in pods if pod.spec.scheduler_name in self._serves and stands(pod)]

    # What the caches tell.

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        snapshot = self.cluster.snapshot
        if new is not None:
            node, _ = node_of(new)
            snapshot.put_node(node)
            for pod in sorted(self._homeless.pop(node.name, ())):
                found = self.find(pod)
                if found is not None:
                    self._pod_changed(None, found)
        elif old is not None and old.metadata.name in snapshot:
            name = old.metadata.name
            lost = list(snapshot.pods_on[snapshot.row(name)])
            for pod in lost:
                self._release(pod)
                self._touch_pod(pod)
                if (found := self.find(pod)) is not None and found.spec.node_name == name:
                    self._homeless.setdefault(name, set()).add(pod)
            snapshot.remove_node(name)
        self._gain()

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        pod = new or old
        assert pod is not None
        key = pod.key
        if old is not None and new is not None and old.metadata.uid != new.metadata.uid:
            self._pod_changed(old, None)
            old = None
        if old is None or new is None or _reads_otherwise(old, new):
            self._members.pop(key, None)
        if new is None or new.ended:
            self.leavers.discard(key)
            self._homeless.get(pod.spec.node_name, set()).discard(key)
            if key in self.cluster.snapshot.bookings:
                self._release(key)
            self._touch_pod(key)
        elif new.spec.node_name:
            if key not in self.leavers and not self._is_booked_there(new):
                self._book(new)
                self._touch_pod(key)
            elif new.metadata.deletion_timestamp:
                self._touch_pod(key)
        elif old is None or is_placeable(old) != is_placeable(new) or key not in self._members:
            self._touch_pod(key)

    def _read_again(self, pods: Iterable[str], gained: bool) -> None:
        """Devices changed, and with them what these pods ask for or have."""
        for key in pods:
            self._members.pop(key, None)
            pod, booking = self.find(key), self.cluster.snapshot.bookings.get(key)
            if pod is not None and booking is not None and self._is_booked_there(pod):
                known = tuple(claim_keys(pod)) == booking.member.claims
                if not known or None in booking.claims:
                    self._book(pod)
            self._touch_pod(key)
        if gained:
            self._gain()

    def _gang_changed(self, old: PodGang | None, new: PodGang | None) -> None:
        if old is not None and new is not None and _said(old) == _said(new):
            return
        gang = new or old
        assert gang is not None
        name = f"{gang.metadata.namespace}/{gang.metadata.name}"
        for pod in _referred(old):
            if self._gang_of.get(pod) == name:
                del self._gang_of[pod]
        for pod in _referred(new):
            self._gang_of[pod] = name
        for pod in dict.fromkeys((*_referred(old), *_referred(new))):
            self._count_for_gang(pod)
            self._touch(lone_name(pod))
        self._index(name, old, new)
        self._touch(name)

    def _queue_changed(self, old: Queue | None, new: Queue | None) -> None:
        if old is None or new is None or old.spec != new.spec:
            self._queues_changed = True
            self._wake()

    # Bookings.

    def _is_booked_there(self, pod: Pod) -> bool:
        booking = self.cluster.snapshot.bookings.get(pod.key)
        return (
            booking is not None and self.cluster.snapshot.names[booking.row] == pod.spec.node_name
        )

    def _book(self, pod: Pod) -> None:
        """Counts a pod where it is, wherever it was thought to be."""
        snapshot = self.cluster.snapshot
        if pod.key in snapshot.bookings:
            self._release(pod.key)
        if pod.spec.node_name not in snapshot:
            self._homeless.setdefault(pod.spec.node_name, set()).add(pod.key)
            return
        row = snapshot.row(pod.spec.node_name)
        gang = self._name_of(pod)
        member = self._members.get(pod.key)
        if member is None:
            member = any_member_of(pod)
            if self._devices is not None:
                member = self._devices.used(pod, member)
            self._members[pod.key] = member
        booking = booking_of(snapshot, row, pod, member, gang)
        snapshot.book(booking)

    def _count_for_gang(self, pod: str) -> None:
        """Has a booking count for the gang that its pod belongs to now."""
        booking, found = self.cluster.snapshot.bookings.get(pod), self.find(pod)
        if booking is not None and found is not None and booking.gang != self._name_of(found):
            self._release(pod)
            self.cluster.snapshot.book(dataclasses.replace(booking, gang=self._name_of(found)))

    def _release(self, pod: str) -> None:
        booking = self.cluster.snapshot.release(pod)
        standing = self.cluster.standing.get(booking.gang)
        if standing is not None and pod in standing.pods:
            self.cluster.leave(booking.gang, [pod])
        self._gain()

    def _gain(self) -> None:
        self.gains += 1
        self._wake()

    # Gangs.

    def _read(self, name: str) -> None:
        self.waiting.pop(name, None)
        self.not_yet.pop(name, None)
        lone = name.startswith(_LONE)
        read = self._read_lone(name) if lone else self._read_gang(name)
        if not lone:
            self._note_half(name, read)
        if isinstance(read, NotYet):
            self.not_yet[name] = read
            self._stand_in_part(name)
        elif read is not None:
            self._stand(read)
            if any(group.members for group in read.groups):
                self.waiting[name] = read
        elif (standing := self.cluster.standing.get(name)) is not None:
            self.cluster.leave(name, list(standing.pods))

    def _note_half(self, name: str, read: Gang | NotYet | None) -> None:
        gang = self._gangs.get(_key(name))
        if gang is None:
            self._whole.discard(name)
        elif isinstance(read, Gang) and not read.needed:
            self._whole.add(name)
        elif name not in self._whole and self.bound_pods(gang):
            self.halves.setdefault(name, self._now().timestamp())
            return
        self.halves.pop(name, None)

    def _read_lone(self, name: str) -> Gang | NotYet | None:
        pod = self._find_assumed(name.removeprefix(_LONE))
        if pod is None or pod.spec.scheduler_name not in self._serves or pod.key in self._gang_of:
            return None
        gang = pod.metadata.labels.get(names.POD_GANG)
        if gang is not None and not pod.spec.node_name:
            return NotYet("NotListed", f"gang {gang} does not list it yet")
        return read_lone_pod(pod, self._member) if is_placeable(pod) or stands(pod) else None

    def _read_gang(self, name: str) -> Gang | NotYet | None:
        gang = self._gangs.get(_key(name))
        if gang is None:
            return None
        return read_gang(
            gang,
            self._find_served,
            self._member,
            base=self._nodes_of_base(gang),
            others=self._nodes_of_others(name, gang),
        )

    def _stand_in_part(self, name: str) -> None:
        """Counts what stands of a gang that cannot be placed as it is: it uses what it uses, and
        may have to make way."""
        gang = self._gangs.get(_key(name))
        read = None if gang is None else read_standing(gang, self._find_served, self._member)
        if read is not None:
            self._stand(read)

    def _stand(self, gang: Gang) -> None:
        """Counts the pods of a gang that have a place in its queue, and no others."""
        bookings = self.cluster.snapshot.bookings
        booked = {
            member.pod: bookings[member.pod]
            for group in gang.groups
            for member in group.standing
            if member.pod in bookings
        }
        standing = self.cluster.standing.get(gang.name)
        if standing is not None:
            if standing.gang.queue != gang.queue:
                self.cluster.leave(gang.name, list(standing.pods))
            else:
                self.cluster.leave(gang.name, [pod for pod in standing.pods if pod not in booked])
        known = self.cluster.standing.get(gang.name)
        more = [each for pod, each in booked.items() if known is None or pod not in known.pods]
        if more or known is not None:
            self.cluster.stand(gang, more, self._started(more))

    def _started(self, bookings: Iterable[Booking]) -> float:
        times = [
            parse_time(pod.status.start_time).timestamp()
            for booking in bookings
            if (pod := self.find(booking.pod)) is not None and pod.status.start_time
        ]
        return min(times, default=self._now().timestamp())

    def _nodes_of_base(self, gang: PodGang) -> tuple[str, ...] | None:
        """Where the gang stands that this one belongs to; None if it does not, or there is none."""
        ref = gang.spec.base_ref
        if ref is None:
            return None
        name = f"{ref.namespace}/{ref.name}"
        self._dependents.setdefault(name, {})[f"{gang.metadata.namespace}/{gang.metadata.name}"] = (
            None
        )
        waits = name in self.not_yet or (name in self.waiting and self.waiting[name].needed)
        return None if waits else self._nodes_of(name)

    def _nodes_of(self, name: str) -> tuple[str, ...] | None:
        standing = self.cluster.standing.get(name)
        if standing is None:
            return None
        snapshot = self.cluster.snapshot
        rows = {snapshot.bookings[pod].row for pod in standing.pods}
        return tuple(sorted(snapshot.names[row] for row in rows))

    def _nodes_of_others(self, name: str, gang: PodGang) -> tuple[str, ...]:
        spread = gang.spec.spread
        if spread is None:
            return ()
        value = gang.metadata.labels.get(spread.among, "")
        others = self._apart.get((gang.metadata.namespace, spread.among, value), {})
        found = (self._nodes_of(other) for other in others if other != name)
        return tuple(node for nodes in found if nodes is not None for node in nodes)

    def _index(self, name: str, old: PodGang | None, new: PodGang | None) -> None:
        """Notes who must hear when this gang is placed, and from whom it stands apart."""
        for gang, there in ((old, False), (new, True)):
            if gang is None or gang.spec.spread is None:
                continue
            among = gang.spec.spread.among
            key = gang.metadata.namespace, among, gang.metadata.labels.get(among, "")
            if there:
                self._apart.setdefault(key, {})[name] = None
            else:
                self._apart.get(key, {}).pop(name, None)

    # Small things.

    def find(self, pod: str) -> Pod | None:
        """A pod as the cache shows it."""
        return self._pods.get(_key(pod))

    def _find_served(self, pod: str) -> Pod | None:
        """A pod of a gang, if it is ours to place."""
        found = self._find_assumed(pod)
        ours = found is not None and found.spec.scheduler_name in self._serves
        return found if ours or self._others_gangs else None

    def _find_assumed(self, pod: str) -> Pod | None:
        """A pod as it is, or as it will be when what was decided about it is written."""
        found = self.find(pod)
        booking = self.cluster.snapshot.bookings.get(pod)
        if found is None or found.spec.node_name or booking is None:
            return found
        node = self.cluster.snapshot.names[booking.row]
        return Pod(found.metadata, replace(found.spec, node_name=node), found.status)

    def _member(self, pod: Pod) -> Member:
        member = self._members.get(pod.key)
        if member is None:
            member = member_of(pod)
            if self._devices is not None:
                member = self._devices.claimed(pod, member)
            self._members[pod.key] = member
        return member

    def _name_of(self, pod: Pod) -> str:
        """The gang that a pod belongs to; none if it is placed by somebody else."""
        gang = self._gang_of.get(pod.key)
        if gang is not None:
            return gang
        return lone_name(pod.key) if pod.spec.scheduler_name in self._serves else ""

    def _touch_pod(self, pod: str) -> None:
        self._touch(self._gang_of.get(pod) or lone_name(pod))

    def _touch_dependents(self, name: str) -> None:
        for dependent in self._dependents.pop(name, {}):
            self._touch(dependent)

    def _touch(self, name: str) -> None:
        self._touched[name] = None
        self._wake()


_LONE = lone_name("")


def _key(name: str) -> tuple[str, str]:
    namespace, _, plain = name.partition("/")
    return namespace, plain


def _members_of(gang: Gang) -> Iterable[Member]:
    return (member for group in gang.groups for member in group.members)


def _referred(gang: PodGang | None) -> Iterable[str]:
    """The pods of a gang."""
    if gang is None:
        return ()
    groups = gang.spec.pod_groups
    return (f"{ref.namespace}/{ref.name}" for group in groups for ref in group.pod_references)


def _said(gang: PodGang) -> tuple[object, ...]:
    return gang.spec, gang.metadata.labels, gang.metadata.annotations


def _reads_otherwise(old: Pod, new: Pod) -> bool:
    """Whether what a pod asks for may have changed: a node is chosen by its annotations, too."""
    return (
        old.metadata.annotations != new.metadata.annotations
        or old.metadata.labels != new.metadata.labels
        or old.spec.containers != new.spec.containers
        or old.status.resource_claim_statuses != new.status.resource_claim_statuses
    )
