"""Which gangs wait, worked out from PodGangs and pods, and anew only where something happened.

A gang is **touched** when something happened to it, and read again at the next refresh. Pods count
as what they will be: one that is assumed has its node already.
"""

from collections.abc import Callable, Collection, Iterable
from datetime import datetime

from msgspec.structs import replace

from kilonova.api.grove import names
from kilonova.api.podgang import PodGang
from kilonova.api.times import parse_time
from kilonova.kube import Store
from kilonova.scheduler.core.asks import Shape
from kilonova.scheduler.core.cluster import Cluster
from kilonova.scheduler.core.gangs import Gang, Member
from kilonova.scheduler.core.snapshot import Booking
from kilonova.scheduler.devices import Devices
from kilonova.scheduler.foreigngroups import ForeignGroups
from kilonova.scheduler.namespaces import NamespaceLabels
from kilonova.scheduler.objects import Pod
from kilonova.scheduler.reading.bookings import any_member_of
from kilonova.scheduler.reading.gangs import (
    MISREAD,
    NO_GROUP,
    NotYet,
    is_lone,
    is_placeable,
    lone_name,
    pod_of_lone,
    pods_of_gang,
    read_gang,
    read_lone_pod,
    read_standing,
    stands,
)
from kilonova.scheduler.reading.pods import member_of
from kilonova.scheduler.reading.volumes import REASONS
from kilonova.scheduler.volumes import Volumes


class GangBook:
    """Gangs and lone pods, by name, and what is known of each."""

    def __init__(
        self,
        cluster: Cluster,
        pods: Store[Pod],
        gangs: Store[PodGang],
        now: Callable[[], datetime],
        wake: Callable[[], None],
        serves: frozenset[str],
        *,
        others_gangs: bool,
        devices: Devices | None,
        volumes: Volumes | None,
        namespaces: NamespaceLabels | None,
        groups: ForeignGroups | None,
        arrived: Callable[[Shape], None],
        mindful: Callable[[Gang], Gang],
        failed: Callable[[str, Exception], NotYet] | None,
    ) -> None:
        self.waiting: dict[str, Gang] = {}
        self.not_yet: dict[str, NotYet] = {}
        self.misread: dict[str, NotYet] = {}
        self.halves: dict[str, float] = {}
        self.lead: Callable[[Gang], Gang] = lambda gang: gang
        """Says of a gang that was read which room is kept for it."""
        self._cluster = cluster
        self._pods = pods
        self._gangs = gangs
        self._now = now
        self._wake = wake
        self._serves = serves
        self._others_gangs = others_gangs
        self._devices = devices
        self._volumes = volumes
        self._namespaces = {} if namespaces is None else namespaces.labels
        self._groups = groups
        self._arrived = arrived
        self._mindful = mindful
        self._failed = failed
        self._members: dict[str, Member] = {}
        self._gang_of: dict[str, str] = {}
        self._whole: set[str] = set()
        """Gangs that had all they need, as far as we have seen."""
        self._dependents: dict[str, dict[str, None]] = {}
        """Gangs that wait for another to be placed, by the other."""
        self._wanting_peers: set[str] = set()
        """Gangs that wait, or did, for which others may open a place by standing somewhere."""
        self._touched: dict[str, None] = {}

    def refresh(self) -> None:
        """Reads all gangs that something happened to."""
        if self._groups is not None:
            self._groups.refresh()
        touched, self._touched = self._touched, {}
        for name in touched:
            try:
                self._read(name)
            except Exception as error:
                if self._failed is None:
                    raise
                self.waiting.pop(name, None)
                self.not_yet[name] = self.misread[name] = self._failed(name, error)

    def find(self, pod: str) -> Pod | None:
        """A pod as the cache shows it."""
        return self._pods.get(_key(pod))

    def bound_pods(self, gang: PodGang) -> list[Pod]:
        """The pods of a gang that have a node and will go on using it."""
        pods = filter(None, map(self.find, _referred(gang)))
        return [pod for pod in pods if pod.spec.scheduler_name in self._serves and stands(pod)]

    def knows(self, name: str) -> bool:
        """Whether a gang is read here; reservations, and capacity held for pods that move, are
        not."""
        return is_lone(name) or self._gangs.get(_key(name)) is not None

    def gang_of(self, pod: str) -> str | None:
        """The gang that lists a pod."""
        return self._gang_of.get(pod)

    def name_of(self, pod: Pod) -> str:
        """The gang that a pod belongs to; none if it is placed by somebody else."""
        gang = self._gang_of.get(pod.key)
        if gang is not None:
            return gang
        return lone_name(pod.key) if pod.spec.scheduler_name in self._serves else ""

    def used_by(self, pod: Pod) -> Member:
        """What a pod on a node uses, even where nobody can say what it asks for."""
        member = self._members.get(pod.key)
        if member is None:
            member = any_member_of(pod, self._namespaces)
            if self._devices is not None:
                member = self._devices.used(pod, member)
            if self._volumes is not None:
                member = self._volumes.used(pod, member)
            self._members[pod.key] = member
        return member

    def forget_member(self, pod: str) -> None:
        """A pod may ask for something else now."""
        self._members.pop(pod, None)

    def wants_peers(self) -> bool:
        """Whether a gang waits that may have a place once others have theirs."""
        return any(name in self.waiting for name in self._wanting_peers)

    def has_read(self, pod: str) -> bool:
        """Whether it is known what a pod asks for."""
        return pod in self._members

    def take(self, old: PodGang | None, new: PodGang | None) -> list[str]:
        """A PodGang changed: the pods that may belong to another gang now."""
        if old is not None and new is not None and _said(old) == _said(new):
            return []
        gang = new or old
        assert gang is not None
        name = f"{gang.metadata.namespace}/{gang.metadata.name}"
        for pod in _referred(old):
            if self._gang_of.get(pod) == name:
                del self._gang_of[pod]
        for pod in _referred(new):
            self._gang_of[pod] = name
        self.touch(name)
        pods = list(dict.fromkeys((*_referred(old), *_referred(new))))
        for pod in pods:
            self.touch(lone_name(pod))
        return pods

    def bound(self, gang: Gang, pods: Collection[str]) -> None:
        """Pods of a gang were bound, as the API says: it may have all that it needs now."""
        if is_lone(gang.name) or not self.knows(gang.name):
            return
        if self._is_bound(gang, pods):
            self._whole.add(gang.name)
            self.halves.pop(gang.name, None)

    def touch_pod(self, pod: str) -> None:
        """Something happened to a pod."""
        self.touch(self._gang_of.get(pod) or lone_name(pod))

    def touch_dependents(self, name: str) -> None:
        """A gang was placed: those that waited for it may be, too."""
        for dependent in self._dependents.pop(name, {}):
            self.touch(dependent)

    def touch(self, name: str) -> None:
        """Something happened to a gang."""
        self._touched[name] = None
        self._wake()

    def _read(self, name: str) -> None:
        self.waiting.pop(name, None)
        self._wanting_peers.discard(name)
        self.not_yet.pop(name, None)
        self.misread.pop(name, None)
        lone = is_lone(name)
        read = self._read_lone(name) if lone else self._read_gang(name)
        if isinstance(read, Gang):
            read = self.lead(read)
        if not lone:
            self._note_half(name, read)
        if isinstance(read, NotYet):
            self.not_yet[name] = read
            if read.reason in _TOLD:
                self.misread[name] = read
            self._stand_in_part(name)
        elif read is not None:
            self._stand(read)
            if any(group.members for group in read.groups):
                self.waiting[name] = read = self._mindful(read)
                if _wants_peers(read):
                    self._wanting_peers.add(name)
        elif (standing := self._cluster.standing.get(name)) is not None:
            self._cluster.leave(name, list(standing.pods))

    def _note_half(self, name: str, read: Gang | NotYet | None) -> None:
        gang = self._gangs.get(_key(name))
        if gang is None:
            self._whole.discard(name)
        elif isinstance(read, Gang) and self._is_bound(read):
            self._whole.add(name)
        elif name not in self._whole and self.bound_pods(gang):
            self.halves.setdefault(name, self._now().timestamp())
            return
        self.halves.pop(name, None)

    def _is_bound(self, gang: Gang, bound: Collection[str] = ()) -> bool:
        """Whether a gang has all that it needs; a pod that is only assumed has nothing yet. Those
        in `bound` have their node, though the cache may not show it."""
        return all(
            sum(
                member.pod in bound or self._is_on_node(member)
                for member in (*group.standing, *group.members)
            )
            >= group.minimum
            for group in gang.groups
        )

    def _is_on_node(self, member: Member) -> bool:
        found = self.find(member.pod)
        return found is not None and bool(found.spec.node_name)

    def _read_lone(self, name: str) -> Gang | NotYet | None:
        pod = self._find_assumed(pod_of_lone(name))
        if pod is None or pod.spec.scheduler_name not in self._serves or pod.key in self._gang_of:
            return None
        gang = pod.metadata.labels.get(names.POD_GANG)
        if gang is not None and not pod.spec.node_name:
            return NotYet("NotListed", f"gang {gang} does not list it yet")
        awaited = self._groups.awaited(pod) if self._groups is not None else None
        if awaited is not None and not pod.spec.node_name:
            return awaited
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
        )

    def _stand_in_part(self, name: str) -> None:
        """Counts what stands of a gang that cannot be placed as it is: it uses what it uses, and
        may have to make way."""
        gang = self._gangs.get(_key(name))
        read = None if gang is None else read_standing(gang, self._find_served, self._member)
        if read is not None:
            self._stand(self.lead(read))

    def _stand(self, gang: Gang) -> None:
        """Counts the pods of a gang that have a place in its queue, and no others."""
        bookings = self._cluster.snapshot.bookings
        booked = {
            member.pod: bookings[member.pod]
            for group in gang.groups
            for member in group.standing
            if member.pod in bookings
        }
        standing = self._cluster.standing.get(gang.name)
        if standing is not None:
            if standing.gang.queue != gang.queue:
                self._cluster.leave(gang.name, list(standing.pods))
            else:
                self._cluster.leave(gang.name, [pod for pod in standing.pods if pod not in booked])
        known = self._cluster.standing.get(gang.name)
        more = [each for pod, each in booked.items() if known is None or pod not in known.pods]
        if more or known is not None:
            self._cluster.stand(gang, more, self._started(more))

    def _started(self, bookings: Iterable[Booking]) -> float:
        pods = filter(None, (self.find(booking.pod) for booking in bookings))
        times = [parse_time(known).timestamp() for pod in pods if (known := _stands_since(pod))]
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
        standing = self._cluster.standing.get(name)
        if standing is None:
            return None
        snapshot = self._cluster.snapshot
        rows = {snapshot.bookings[pod].row for pod in standing.pods}
        return tuple(sorted(snapshot.names[row] for row in rows))

    def _find_served(self, pod: str) -> Pod | None:
        """A pod of a gang, if it is ours to place."""
        found = self._find_assumed(pod)
        ours = found is not None and found.spec.scheduler_name in self._serves
        return found if ours or self._others_gangs else None

    def _find_assumed(self, pod: str) -> Pod | None:
        """A pod as it is, or as it will be when what was decided about it is written."""
        found = self.find(pod)
        booking = self._cluster.snapshot.bookings.get(pod)
        if found is None or found.spec.node_name or booking is None:
            return found
        node = self._cluster.snapshot.names[booking.row]
        return Pod(found.metadata, replace(found.spec, node_name=node), found.status)

    def _member(self, pod: Pod) -> Member:
        member = self._members.get(pod.key)
        if member is None:
            member = member_of(pod, self._namespaces)
            if self._devices is not None:
                member = self._devices.claimed(pod, member)
            if self._volumes is not None:
                read = self._volumes.used if pod.spec.node_name else self._volumes.asked
                member = read(pod, member)
            self._members[pod.key] = member
            if not pod.spec.node_name:
                self._arrived(member.shape)
        return member


_TOLD = {MISREAD, NO_GROUP, *REASONS}
"""Why gangs wait of which people are told, as they may have to do something about it."""


def _key(name: str) -> tuple[str, str]:
    namespace, _, plain = name.rpartition("/")
    return namespace, plain


def _stands_since(pod: Pod) -> str:
    """When a pod came to its node, as far as is told; empty for one that has none yet.

    A kubelet tells when it began, and may be away. Whoever binds a pod says when; one that was made
    with a node has stood there ever since.
    """
    if pod.status.start_time or not pod.spec.node_name:
        return pod.status.start_time or ""
    bound = (
        each.last_transition_time
        for each in pod.status.conditions
        if each.type == "PodScheduled" and each.status == "True" and each.last_transition_time
    )
    return next(bound, pod.metadata.creation_timestamp)


def _wants_peers(gang: Gang) -> bool:
    rules = (each.shape.peers for group in gang.groups for each in group.members)
    return any(each is not None and bool(each.near or each.spreads) for each in rules)


def _referred(gang: PodGang | None) -> Iterable[str]:
    """The pods of a gang."""
    return () if gang is None else pods_of_gang(gang)


def _said(gang: PodGang) -> tuple[object, ...]:
    return gang.spec, gang.metadata.labels, gang.metadata.annotations
