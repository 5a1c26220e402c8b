"""The capacity counted for a reservation: its reserved nodes less the pods of its consumers."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

from kilonova.api.scheduling import Reservation
from kilonova.api.times import parse_time
from kilonova.scheduler.convert.reservations.reserved_nodes import (
    ReservedNodes,
    convert_reserved_node,
)
from kilonova.scheduler.core.backfill.reserved_capacity import (
    is_within_reserved,
    subtract_consumers,
)
from kilonova.scheduler.core.gpu.assignment import are_free
from kilonova.scheduler.core.model.cluster import Cluster
from kilonova.scheduler.core.model.gangs import Gang
from kilonova.scheduler.core.model.pod_placement import PodPlacement
from kilonova.scheduler.core.model.snapshot import Snapshot
from kilonova.scheduler.core.queueing.queues import DEFAULT_QUEUE


@dataclass(slots=True)
class ReservedCapacity:
    """The state of one reservation beyond its spec."""

    uid: str
    nodes: ReservedNodes = ()
    since: float | None = None
    generation: int | None = None
    """Generation of the object for which the nodes were reserved."""
    starts_at: float | None = None
    """When it starts, if it has not started yet."""
    ends_at: float | None = None
    queue: str = DEFAULT_QUEUE
    expired_generation: int | None = None
    """Generation of the object that expired."""
    has_unwritten_changes: bool = False
    """A decision is not in the status yet."""
    previous_nodes: ReservedNodes | None = None
    """The nodes before a decision with victims, until these have terminated."""


class ReservedCapacityAccountant:
    """Counts reserved capacity in a cluster.

    `consumers` are the gangs that may use a reservation; `on_capacity_freed` is called when
    capacity may have become free.
    """

    def __init__(
        self, cluster: Cluster, now: Callable[[], datetime], on_capacity_freed: Callable[[], None]
    ) -> None:
        self._cluster = cluster
        self._now = now
        self._on_capacity_freed = on_capacity_freed
        self.consumers: dict[str, dict[str, None]] = {}

    def consumers_of(self, name: str, nodes: ReservedNodes = ()) -> list[PodPlacement]:
        """The placed pods of a reservation's consumers. On its nodes also terminating pods, which
        no longer count for their gang."""
        running_gangs, snapshot = self._cluster.running_gangs, self._cluster.snapshot
        gangs = sorted(gang for gang in self.consumers.get(name, ()) if gang in running_gangs)
        pod_placements = {
            pod: snapshot.placements[pod]
            for gang in gangs
            if running_gangs[gang].gang.reservation == name
            for pod in running_gangs[gang].pods
        }
        for node in dict.fromkeys(each.name for each in nodes if each.name in snapshot):
            for pod, pod_placement in snapshot.pods_on[snapshot.row(node)].items():
                if pod_placement.gang in self.consumers.get(name, ()) and not self._counts_for_gang(
                    pod
                ):
                    pod_placements[pod] = pod_placement
        return list(pod_placements.values())

    def _counts_for_gang(self, pod: str) -> bool:
        """Whether a placed pod counts for a running gang."""
        running_gang = self._cluster.running_gangs.get(self._cluster.snapshot.placements[pod].gang)
        return running_gang is not None and pod in running_gang.pods

    def account(
        self, name: str, reserved: ReservedCapacity, *, check_overcommit: bool = False
    ) -> set[int]:
        """Count exactly the reserved capacity; returns the numbers of the reserved nodes that are
        lost.

        A reserved node is lost if it was deleted or its capacity is used by other pods. Other pods
        that were placed since are looked for only with `check_overcommit`, when all pods there are
        known.
        """
        cluster, snapshot = self._cluster, self._cluster.snapshot
        reserved_placements = self._pod_placements_of(name, reserved)
        consumers = self.consumers_of(name, reserved.nodes)
        wanted = subtract_consumers(
            [each for each in reserved_placements if each is not None], consumers
        )
        running_gang, gang = cluster.running_gangs.get(name), _as_gang(name, reserved)
        counted = (
            [snapshot.placements[pod] for pod in running_gang.pods]
            if running_gang is not None
            else []
        )
        lost = {number for number, each in enumerate(reserved_placements) if each is None}
        unchanged = counted == wanted and (running_gang is None or running_gang.gang == gang)
        if unchanged and not (
            check_overcommit and any(_is_overcommitted(snapshot, each) for each in counted)
        ):
            return lost
        if counted:
            pods = [pod_placement.pod for pod_placement in counted]
            snapshot.remove_pods(pods)
            cluster.record_removed(name, pods)
            self._on_capacity_freed()
        placed = [
            pod_placement for pod_placement in wanted if _place_if_free(snapshot, pod_placement)
        ]
        if placed:
            cluster.record_placed(gang, placed, reserved.since or self._now().timestamp())
        not_placed = {each.pod for each in wanted} - {each.pod for each in placed}
        return lost | {
            n for n, each in enumerate(reserved_placements) if each and each.pod in not_placed
        }

    def _pod_placements_of(
        self, name: str, reserved: ReservedCapacity
    ) -> list[PodPlacement | None]:
        snapshot = self._cluster.snapshot
        return [
            convert_reserved_node(snapshot, name, n, each) for n, each in enumerate(reserved.nodes)
        ]

    def protect_consumers(self, name: str, reserved: ReservedCapacity) -> None:
        """Pods within reserved capacity are not preemptible: no other gang could use what they
        free."""
        running_gangs, placements = self._cluster.running_gangs, self._cluster.snapshot.placements
        reserved_placements = [
            each for each in self._pod_placements_of(name, reserved) if each is not None
        ]
        for consumer in self.consumers.get(name, ()):
            running_gang = running_gangs.get(consumer)
            if (
                running_gang is None
                or running_gang.gang.reservation != name
                or not running_gang.gang.preemptible
            ):
                continue
            if is_within_reserved(
                reserved_placements, [placements[pod] for pod in running_gang.pods]
            ):
                running_gang.gang = replace(running_gang.gang, preemptible=False)


def from_status(reservation: Reservation) -> ReservedCapacity:
    """The reserved capacity in the status of a reservation."""
    status, meta = reservation.status, reservation.metadata
    if status.phase == "Expired":
        return ReservedCapacity(meta.uid, expired_generation=status.observed_generation)
    since = parse_time(status.reserved_at).timestamp() if status.reserved_at else None
    return ReservedCapacity(meta.uid, status.nodes, since, status.observed_generation)


def _as_gang(name: str, reserved: ReservedCapacity) -> Gang:
    """A reservation as a gang, with the duration that backfill waits for."""
    duration = (
        None
        if reserved.ends_at is None or reserved.since is None
        else reserved.ends_at - reserved.since
    )
    return Gang(name, (), queue=reserved.queue, duration=duration, preemptible=False)


def _is_overcommitted(snapshot: Snapshot, pod_placement: PodPlacement) -> bool:
    """Whether a node has less capacity than its pods and reservations use."""
    columns, _ = snapshot.request_columns(pod_placement.shape)
    short = bool((snapshot.free[columns, pod_placement.row] < 0).any())
    return short or snapshot.has_device_conflict(pod_placement)


def _place_if_free(snapshot: Snapshot, pod_placement: PodPlacement) -> bool:
    """Count a reserved node, if no other pod uses its capacity."""
    columns, amounts = snapshot.request_columns(pod_placement.shape)
    free = bool((snapshot.free[columns, pod_placement.row] >= amounts).all())
    if free and are_free(snapshot, pod_placement.row, pod_placement.devices):
        snapshot.add_pod(pod_placement)
        return True
    return False
