"""The capacity of Reservation objects, and how gangs consume it.

Reserved capacity is the placements of a gang whose pods never exist. For a gang that names the
reservation (`Gang.reservation`) the capacity is opened while it is scheduled: it is placed inside
first, then anywhere. What it does not consume stays reserved.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from kilonova.catalog.mig import MASK_COUNT
from kilonova.catalog.resource_names import GPU
from kilonova.scheduler.core.gpu.layout import MILLI_PER_GPU, GpuShare, build_share
from kilonova.scheduler.core.model.cluster import Cluster, UsageRecorder
from kilonova.scheduler.core.model.gangs import Gang, Member
from kilonova.scheduler.core.model.node_table import PODS
from kilonova.scheduler.core.model.pod_placement import PodPlacement
from kilonova.scheduler.core.model.requests import GpuRequest, Shape, is_queue_resource
from kilonova.scheduler.core.model.snapshot import Snapshot
from kilonova.scheduler.core.placement.placer import Placer

_PLACEHOLDER_PREFIX = "beside/"


class OpenReservation:
    """The capacity of a reservation while one gang is scheduled. `close` must follow."""

    def __init__(self, cluster: Cluster, name: str, charges: UsageRecorder) -> None:
        self._cluster = cluster
        self._charges = charges
        self._running_gang = running_gang = cluster.running_gangs[name]
        self._gang, pods = running_gang.gang, list(running_gang.pods)
        self.reserved = [cluster.snapshot.placements[pod] for pod in pods]
        rows = sorted({placement.row for placement in self.reserved})
        self._placeholders = [
            _build_placeholder(cluster.snapshot, row, self.reserved) for row in rows
        ]
        self._rows = np.array(rows, np.intp)
        cluster.snapshot.remove_pods(pods)
        cluster.record_removed(name, pods, charges)

    def place(self, placer: Placer, gang: Gang) -> list[PodPlacement] | None:
        """Places a gang inside the reserved capacity only: of reserved resources it gets only what
        was reserved, down to the device; of others, whatever is free on the nodes."""
        snapshot = self._cluster.snapshot
        snapshot.add_pods(self._placeholders)
        placed = placer.place(gang, self._rows)
        snapshot.remove_pods([placement.pod for placement in self._placeholders])
        return placed

    def close(self, consumers: Iterable[PodPlacement]) -> None:
        """Reserves again what the consumers did not use."""
        left = subtract_consumers(self.reserved, consumers)
        self._cluster.snapshot.add_pods(left)
        if left:
            self._cluster.record_placed(self._gang, left, self._running_gang.since, self._charges)


def place_on_previous_nodes(
    placer: Placer, snapshot: Snapshot, gang: Gang
) -> list[PodPlacement] | None:
    """Places a gang on the nodes of the gang that it replaces, and nowhere else."""
    rows = sorted(snapshot.row(node) for node in set(gang.previous_nodes) if node in snapshot)
    return placer.place(gang, np.array(rows, np.intp)) if rows else None


def subtract_consumers(
    reserved: Sequence[PodPlacement], consumers: Iterable[PodPlacement]
) -> list[PodPlacement]:
    """What remains reserved beside the consumers. GPUs are matched by device, other resources by
    node."""
    by_row: dict[int, list[PodPlacement]] = {}
    for user in consumers:
        by_row.setdefault(user.row, []).append(user)
    wants = {row: _sum_requests(some) for row, some in by_row.items()}
    left = (
        _subtract_from(placement, wants, by_row.get(placement.row, ())) for placement in reserved
    )
    return [placement for placement in left if placement is not None]


def is_within_reserved(reserved: Sequence[PodPlacement], consumers: Sequence[PodPlacement]) -> bool:
    """Whether consumers use nothing on their nodes beyond what is reserved there, of the reserved
    resources."""
    rows = {placement.row for placement in reserved}
    if not all(user.row in rows for user in consumers):
        return False
    for row in {user.row for user in consumers}:
        here = [placement for placement in reserved if placement.row == row]
        devices = {share.index for placement in here for share in placement.devices}
        total = _sum_requests(here)
        some = [user for user in consumers if user.row == row]
        if devices and any(each.index not in devices for user in some for each in user.devices):
            return False
        wants = {name: amount for name, amount in _sum_requests(some).items() if name != PODS}
        if any(amount > total[name] for name, amount in wants.items() if name in total):
            return False
    return True


def _sum_requests(placements: Iterable[PodPlacement]) -> dict[str, int]:
    """The requests of pods, without devices that are known by index."""
    total: dict[str, int] = {}
    for placement in placements:
        for name, amount in placement.shape.requests:
            if name != GPU:
                total[name] = total.get(name, 0) + amount
        request = placement.shape.gpu
        if request is not None and not placement.devices:
            name = request.profile or GPU
            total[name] = total.get(name, 0) + request.count
    return total


def _subtract_from(
    reserved: PodPlacement,
    consumed_by_row: dict[int, dict[str, int]],
    consumers: Sequence[PodPlacement],
) -> PodPlacement | None:
    """A reserved placement without what consumers use of it; None if nothing remains."""
    if not consumers:
        return reserved
    want = consumed_by_row[reserved.row]
    amounts = {
        name: amount - _consume(want, name, amount)
        for name, amount in reserved.shape.requests
        if name != GPU
    }
    devices = _unused_devices(
        reserved.devices, [share for user in consumers for share in user.devices]
    )
    request = reserved.shape.gpu
    if request is not None:
        request = _reduce_gpu_request(request, reserved.devices, devices, want)
        if request is not None and any(name == GPU for name, _ in reserved.shape.requests):
            amounts[GPU] = request.count
    requests = tuple(sorted((name, amount) for name, amount in amounts.items() if amount))
    if not requests and not devices:
        return None
    shape = replace(reserved.shape, requests=requests, gpu=request)
    return replace(reserved, member=replace(reserved.member, shape=shape), devices=devices)


def _reduce_gpu_request(
    request: GpuRequest,
    reserved_devices: Sequence[GpuShare],
    left_devices: Sequence[GpuShare],
    consumed: dict[str, int],
) -> GpuRequest | None:
    if not reserved_devices:
        count = request.count - _consume(consumed, request.profile or GPU, request.count)
        return replace(request, count=count) if count else None
    if not left_devices:
        return None
    if request.is_whole or request.profile:
        return replace(request, count=len(left_devices))
    return replace(request, count=1, milli=sum(share.milli for share in left_devices))


def _consume(consumed: dict[str, int], name: str, amount: int) -> int:
    taken = min(amount, consumed.get(name, 0))
    if taken:
        consumed[name] -= taken
    return taken


def _unused_devices(
    reserved: Iterable[GpuShare], consumed: Sequence[GpuShare]
) -> tuple[GpuShare, ...]:
    """The remaining reserved shares. A consumer of a part of a whole device uses it wholly; of
    fractions and MIG instances, a rest may remain."""
    left: list[GpuShare] = []
    for share in reserved:
        on = [user for user in consumed if user.index == share.index]
        if share.mask:
            if not any(user.milli or user.mask & share.mask for user in on):
                left.append(share)
        elif not on:
            left.append(share)
        elif share.milli < MILLI_PER_GPU:
            milli = share.milli - sum(user.milli for user in on)
            memory = share.memory_milli - sum(user.memory_milli for user in on)
            if milli > 0 and memory > 0 and not any(user.mask for user in on):
                left.append(build_share(share.index, milli, memory))
    return tuple(left)


def _build_placeholder(
    snapshot: Snapshot, row: int, reserved: Sequence[PodPlacement]
) -> PodPlacement:
    """Everything that is free on a row, of the resources reserved there, as one placement."""
    here = [placement for placement in reserved if placement.row == row]
    names = {
        name
        for placement in here
        for name, _ in placement.shape.requests
        if is_queue_resource(name)
    }
    names.discard(PODS)  # a large slot may hold several small pods
    gpus = any(placement.shape.gpu is not None for placement in here)
    if gpus:
        names.add(GPU)
    free = {name: int(snapshot.free[snapshot.column(name), row]) for name in names}
    requests = tuple(sorted((name, amount) for name, amount in free.items() if amount > 0))
    devices = tuple(_iter_free_devices(snapshot, row)) if gpus else ()
    request = GpuRequest(1) if devices else None
    member = Member(f"{_PLACEHOLDER_PREFIX}{snapshot.names[row]}", Shape(requests, request))
    return PodPlacement(member, row, devices)


def _iter_free_devices(snapshot: Snapshot, row: int) -> Iterable[GpuShare]:
    for gpu in snapshot.layout(row).gpus:
        milli, mask = int(snapshot.gpu_free[row, gpu.index]), int(snapshot.gpu_mask[row, gpu.index])
        if mask:
            yield GpuShare(gpu.index, 0, mask=(MASK_COUNT - 1) & ~mask)
        elif milli > 0:
            memory = milli - int(snapshot.gpu_excess[row, gpu.index])
            yield build_share(gpu.index, milli, max(0, memory))
