"""Which capacity is reserved, and for which gangs.

A reservation is a gang whose pods never exist: it is scheduled as any other, and its capacity stays
in use. The cache keeps the **reserved nodes** of each reservation; the capacity counted for it is
its reserved nodes less the pods of its consumers, computed again whenever one of those is bound or
deleted. So capacity returns to its reservation at once, before the next decision.

The reserved nodes are those in the status, except for decisions that are not written yet.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime

from kilonova.api.podgang import NamespacedName
from kilonova.api.scheduling import Reservation
from kilonova.scheduler.cache.capacity_events import CapacityEvents
from kilonova.scheduler.cache.gang_adjusters import GangAdjusters
from kilonova.scheduler.cache.gangs import GangCache
from kilonova.scheduler.cache.reservations.capacity import (
    ReservedCapacity,
    ReservedCapacityAccountant,
    from_status,
)
from kilonova.scheduler.cache.reservations.consumers import ReservationConsumers
from kilonova.scheduler.cache.reservations.state import ReservationState
from kilonova.scheduler.cache.sources import ClusterStores
from kilonova.scheduler.convert.gangs.podgangs import GangNotReady, gang_object_key
from kilonova.scheduler.convert.pods.members import InvalidRequest
from kilonova.scheduler.convert.reservations.reserved_gangs import (
    convert_reserved_gang,
    convert_reserved_pods,
    reservation_end,
    reservation_gang_name,
    reservation_key,
    reservation_start,
)
from kilonova.scheduler.convert.reservations.reserved_nodes import (
    ReservedNodes,
    adopt_running_pods,
    encode_reserved_nodes,
    matches_reserved_nodes,
    without_reserved_members,
)
from kilonova.scheduler.core.decisions import GangPlacement
from kilonova.scheduler.core.model.cluster import Cluster
from kilonova.scheduler.core.model.gangs import Gang
from kilonova.scheduler.objects.keys import split_key


class ReservationCache:
    """Reservations by gang name. Fills the same tables of pending gangs as `GangCache`."""

    def __init__(
        self,
        cluster: Cluster,
        stores: ClusterStores,
        now: Callable[[], datetime],
        wake: Callable[[], None],
        gangs: GangCache,
        capacity_events: CapacityEvents,
    ) -> None:
        self.on_changed: Callable[[str], None] = lambda _: None
        """Called with a reservation whose status may have changed."""
        self.gang_adjusters = GangAdjusters()
        """Adjust pending reservations, which may have to suspend preemption."""
        self._cluster = cluster
        self._reservations = stores.reservations
        self._gangs = stores.gangs
        self._pods = stores.pods
        self._consumers = ReservationConsumers(cluster, stores)
        self._now = now
        self._wake = wake
        self._accountant = ReservedCapacityAccountant(cluster, now, capacity_events.record)
        self._waiting = gangs.waiting
        self._not_ready = gangs.not_ready
        self._mark_gang_dirty = gangs.mark_dirty
        self._reserved: dict[str, ReservedCapacity] = {}
        self._states: dict[str, ReservationState] = {}
        self._dirty: dict[str, None] = {}
        stores.reservations.add_event_handler(self._reservation_changed)

    # Gangs that consume reservations.

    def apply_reservation(self, gang: Gang) -> Gang:
        """A gang with the reservation that it may consume, and the nodes of its predecessor."""
        reservation, predecessor_nodes = (
            self._consumers.reservation_of(gang.name),
            self._consumers.predecessor_nodes(gang.name),
        )
        if reservation:
            self._accountant.consumers.setdefault(reservation, {})[gang.name] = None
            self.mark_dirty(reservation)
        return (
            replace(gang, reservation=reservation, previous_nodes=predecessor_nodes)
            if reservation or predecessor_nodes
            else gang
        )

    def account_capacity(self, name: str, *, check_overcommit: bool = False) -> None:
        """Count a reservation's capacity less its consumers; `check_overcommit` as in
        `ReservedCapacityAccountant.account`."""
        reserved = self._reserved.get(name)
        if reserved is None:
            return
        lost_nodes = self._accountant.account(name, reserved, check_overcommit=check_overcommit)
        if lost_nodes:
            reserved.nodes = tuple(
                each for n, each in enumerate(reserved.nodes) if n not in lost_nodes
            )
            reserved.has_unwritten_changes = True
            self._accountant.account(name, reserved)
            self.mark_dirty(name)
        self._accountant.protect_consumers(name, reserved)
        self._update_state(name)

    def row_freed(self, row: int) -> None:
        """A pod left a row: reserved capacity there is counted again before the next decision."""
        for name in self._reservations_on(self._cluster.snapshot.names[row]):
            self.account_capacity(name)

    def row_filled(self, row: int) -> None:
        """A pod was bound to a row, where it may use reserved capacity."""
        node = self._cluster.snapshot.names[row]
        for name in self._reservations_on(node):
            self.mark_dirty(name)

    def node_removed(self, node: str) -> None:
        """The capacity reserved on a deleted node is lost."""
        for name in self._reservations_on(node):
            reserved = self._reserved[name]
            reserved.nodes = tuple(each for each in reserved.nodes if each.name != node)
            reserved.has_unwritten_changes = True
            self.account_capacity(name)
            self.mark_dirty(name)

    # Scheduling decisions.

    def refresh(self) -> None:
        """Read all dirty reservations."""
        dirty, self._dirty = self._dirty, {}
        for name in dirty:
            self._read_dirty(name)

    def restore_reserved_nodes(self) -> None:
        """Take all reserved nodes from the statuses that a previous leader wrote."""
        for reservation in self._reservations.objects():
            meta = reservation.metadata
            name = reservation_gang_name(meta.namespace, meta.name)
            self._reserved[name] = from_status(reservation)
            self.mark_dirty(name)

    def assume(self, placement: GangPlacement) -> None:
        """Count a decision about a reservation; its status is written when its victims have
        terminated."""
        name = placement.gang.name
        self._waiting.pop(name, None)
        reserved = self._reserved.get(name)
        new = encode_reserved_nodes(placement.pods, self._cluster.snapshot.names)
        if reserved is None:
            return
        reserved.previous_nodes = reserved.nodes
        reserved.nodes, reserved.has_unwritten_changes = (*reserved.nodes, *new), True
        self.account_capacity(name)

    def victims_cleared(self, name: str, terminated: bool) -> None:
        """The victims of a reservation have terminated; if not (`terminated` is False), it is
        pending again."""
        reserved = self._reserved.get(name)
        if reserved is not None and reserved.previous_nodes is not None:
            if not terminated:
                reserved.nodes = reserved.previous_nodes
            reserved.previous_nodes = None
            self.account_capacity(name)
            self.mark_dirty(name)

    def revoke(self, name: str) -> None:
        """Undo a failed decision: the reservation has its previous nodes."""
        self.victims_cleared(name, terminated=False)
        self.account_capacity(name)
        self.mark_dirty(name)

    def state(self, name: str) -> ReservationState | None:
        """The state of a reservation for its status; None if it was not read yet."""
        return self._states.get(name)

    def mark_dirty(self, name: str) -> None:
        """Have a reservation read again at the next refresh."""
        self._dirty[name] = None
        self._wake()

    def _read_dirty(self, name: str) -> None:
        self._waiting.pop(name, None)
        self._not_ready.pop(name, None)
        reservation = self._reservations.get(reservation_key(name))
        if reservation is None or reservation.metadata.deletion_timestamp:
            self._forget_reservation(name)
            return
        reserved = self._reserved.get(name)
        if reserved is None or reserved.uid != reservation.metadata.uid:
            reserved = self._reserved[name] = from_status(reservation)
        if reserved.previous_nodes is not None:
            self._update_state(name)
            return
        now, generation = self._now().timestamp(), reservation.metadata.generation
        try:
            starts_at, reserved.ends_at = (
                reservation_start(reservation.spec),
                reservation_end(reservation.spec, reserved.since),
            )
        except InvalidRequest as error:
            self._not_ready[name] = GangNotReady(error.reason, str(error))
            self._drop_capacity(name, reserved)
            return
        reserved.starts_at = starts_at if now < starts_at else None
        if reserved.expired_generation == generation or (
            reserved.ends_at is not None and now >= reserved.ends_at
        ):
            reserved.expired_generation = generation
            self._drop_capacity(name, reserved)
        elif reserved.starts_at is not None:
            self._drop_capacity(name, reserved)
        else:
            self._request_missing(name, reservation, reserved, now)

    def _request_missing(
        self, name: str, reservation: Reservation, reserved: ReservedCapacity, now: float
    ) -> None:
        """Make a reservation pending for the capacity that it lacks."""
        wanted = self._wanted_capacity(reservation)
        reserved.queue = wanted.queue if isinstance(wanted, Gang) else reserved.queue
        if isinstance(wanted, GangNotReady):
            if not reserved.nodes:
                self._not_ready[name] = wanted
            self.account_capacity(name, check_overcommit=True)
            return
        if reserved.generation != reservation.metadata.generation:
            if not matches_reserved_nodes(wanted, reserved.nodes, self._cluster.snapshot):
                reserved.nodes, reserved.since, reserved.has_unwritten_changes = (), None, True
            reserved.generation = reservation.metadata.generation
        if not reserved.nodes:
            reserved.nodes = self._adopt_running_pods(name, wanted)
        self.account_capacity(name, check_overcommit=True)
        missing = without_reserved_members(wanted, reserved.nodes)
        if any(group.members for group in missing.groups):
            self._waiting[name] = self.gang_adjusters.adjust(missing)
        elif reserved.since is None:
            reserved.since, reserved.has_unwritten_changes = now, True
            reserved.ends_at = reservation_end(reservation.spec, now)
            self.account_capacity(name)
        self._update_state(name)

    def _wanted_capacity(self, reservation: Reservation) -> Gang | GangNotReady:
        if reservation.spec.pod_gang is None:
            return convert_reserved_pods(reservation)
        gang = self._gangs.get((reservation.metadata.namespace, reservation.spec.pod_gang))
        base = gang.spec.base_ref if gang is not None else None
        nodes = (
            None if base is None else self._cluster.nodes_of_gang(f"{base.namespace}/{base.name}")
        )
        return convert_reserved_gang(
            reservation, gang, lambda pod: self._pods.get(split_key(pod)), nodes
        )

    def _adopt_running_pods(self, name: str, wanted: Gang) -> ReservedNodes:
        """Places of running pods: of the gang that the reservation names, or of gangs that name
        it."""
        return adopt_running_pods(
            wanted, self._accountant.consumers_of(name), self._cluster.snapshot.names
        )

    # Reserved capacity.

    def _drop_capacity(self, name: str, reserved: ReservedCapacity) -> None:
        """Release the capacity of a reservation; its consumers become ordinary gangs."""
        if reserved.nodes:
            reserved.nodes, reserved.has_unwritten_changes = (), True
            for consumer in self._accountant.consumers.get(name, ()):
                self._mark_gang_dirty(consumer)
        reserved.since = None
        self.account_capacity(name)

    def _forget_reservation(self, name: str) -> None:
        reserved = self._reserved.get(name)
        if reserved is not None:
            self._drop_capacity(name, reserved)
            del self._reserved[name]
        self._accountant.consumers.pop(name, None)
        self._states.pop(name, None)

    def _update_state(self, name: str) -> None:
        reserved, reservation = self._reserved[name], self._reservations.get(reservation_key(name))
        if reservation is None:
            return
        nodes = {each.name for each in reserved.nodes}
        names = self._cluster.snapshot.names
        consumers = sorted(
            {
                each.gang
                for each in self._accountant.consumers_of(name, reserved.nodes)
                if names[each.row] in nodes
            }
        )
        new = ReservationState(
            reserved.nodes if reserved.previous_nodes is None else reserved.previous_nodes,
            reserved.since,
            reserved.starts_at,
            reserved.ends_at,
            expired=reserved.expired_generation == reservation.metadata.generation,
            is_complete=reserved.since is not None and name not in self._waiting,
            used_by=NamespacedName(*gang_object_key(consumers[0]).split("/"))
            if consumers
            else None,
            not_ready=self._not_ready.get(name),
        )
        if self._states.get(name) != new:
            self._states[name] = new
            self.on_changed(name)

    # Event handlers.

    def _reservation_changed(self, old: Reservation | None, new: Reservation | None) -> None:
        reservation = new or old
        assert reservation is not None
        meta = reservation.metadata
        name = reservation_gang_name(meta.namespace, meta.name)
        for gang in self._consumers.update_reservation(old, new):
            self._mark_gang_dirty(gang)
        if old is None or new is None:
            for gang in list(self._gangs_naming(name)):
                self._mark_gang_dirty(gang)
        reserved = self._reserved.get(name)
        if new is not None and reserved is not None:
            written = from_status(new)
            if written.uid == reserved.uid and written.nodes == reserved.nodes:
                reserved.has_unwritten_changes = False
            if (
                not reserved.has_unwritten_changes
                and reserved.previous_nodes is None
                and written.nodes != reserved.nodes
            ):
                self._reserved[name] = written
        self.mark_dirty(name)

    def _gangs_naming(self, name: str) -> Iterable[str]:
        """Gangs that existed before the reservation that they name."""
        for gang in [*self._cluster.running_gangs, *self._waiting]:
            if self._consumers.reservation_of(gang) == name:
                yield gang

    def _reservations_on(self, node: str) -> list[str]:
        return [
            name
            for name, reserved in self._reserved.items()
            if any(each.name == node for each in reserved.nodes)
        ]
