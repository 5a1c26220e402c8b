"""Assigns the devices of a node to its new pods."""

from collections.abc import Iterable, Sequence
from functools import lru_cache

import numpy as np

from kilonova.scheduler.core.dra.claim_ledger import ClaimAllocations
from kilonova.scheduler.core.dra.gpu_devices import GpuMasks
from kilonova.scheduler.core.gpu.identity import WHOLE_GPU
from kilonova.scheduler.core.gpu.layout import MILLI_PER_GPU, GpuLayout, GpuShare
from kilonova.scheduler.core.gpu.selection import select_devices, select_whole_devices
from kilonova.scheduler.core.model.gangs import Member
from kilonova.scheduler.core.model.pod_placement import PodPlacement
from kilonova.scheduler.core.model.requests import GpuRequest, Shape
from kilonova.scheduler.core.model.snapshot import Snapshot


def are_free(snapshot: Snapshot, row: int, devices: Iterable[GpuShare]) -> bool:
    """Whether shares of a node's devices are not in use, nor withheld."""
    size = len(snapshot.layout(row).gpus)
    for share in devices:
        if share.index >= size:
            continue
        milli = int(snapshot.gpu_free[row, share.index])
        mask = int(snapshot.gpu_mask[row, share.index])
        memory = milli - int(snapshot.gpu_excess[row, share.index])
        if share.mask:
            if mask & share.mask or milli != MILLI_PER_GPU:
                return False
        elif (
            mask
            or milli < share.milli
            or memory < share.memory_milli
            or snapshot.gpu_withheld[row, share.index]
        ):
            return False
    return True


def make_placements(
    snapshot: Snapshot, row: int, members: Sequence[Member], gang: str
) -> list[PodPlacement]:
    """Placements of some pods of one shape on a node on which they fit."""
    shape, count = members[0].shape, len(members)
    if needs_joint_assignment(snapshot, shape):
        devices, claims = _assign_jointly(snapshot, row, shape, count)
        assert len(claims) == count, f"{snapshot.names[row]} has free capacity but no devices"
    else:
        devices = assign_devices(snapshot, row, shape, count)
        if not shape.claims:
            return [
                PodPlacement(each, row, some, gang)
                for each, some in zip(members, devices, strict=True)
            ]
        claims = snapshot.claims.allocate_for(shape.claims, row, count)
    return [
        PodPlacement(each, row, some, gang, given)
        for each, some, given in zip(members, devices, claims, strict=True)
    ]


def needs_joint_assignment(snapshot: Snapshot, shape: Shape) -> bool:
    """Whether a pod needs GPUs of its node, and devices of claims that may be the same GPUs."""
    return bool(shape.claims) and shape.gpu is not None and snapshot.claims.has_gpus


def count_joint_assignments(snapshot: Snapshot, row: int, shape: Shape, most: int) -> int:
    """For how many pods that need a joint assignment a node has both, up to a maximum."""
    return len(_assign_jointly(snapshot, row, shape, most)[1])


def _assign_jointly(
    snapshot: Snapshot, row: int, shape: Shape, count: int
) -> tuple[list[tuple[GpuShare, ...]], list[ClaimAllocations]]:
    """GPUs and claims for up to a number of pods: for one pod after the other its claims, then GPUs
    beside them."""
    taker = _PodGpuTaker(snapshot, row, shape)
    claims = snapshot.claims.allocate_beside_gpus(shape.claims, row, count, taker)
    return taker.given, claims


class _PodGpuTaker:
    """Selects GPUs for pods on a node."""

    def __init__(self, snapshot: Snapshot, row: int, shape: Shape) -> None:
        assert shape.gpu is not None
        self._request, self._layout = shape.gpu, snapshot.layout(row)
        self._demand = snapshot.mig_demand
        self._has_devices = not shape.gpu.profile or self._layout.has_profile(shape.gpu.profile)
        size = len(self._layout.gpus)
        self._free: list[int] = snapshot.gpu_free[row, :size].tolist()
        self._memory = snapshot.free_gpu_memory(row)
        self._masks: list[int] = snapshot.gpu_mask[row, :size].tolist()
        self.taken: dict[int, int] = {}
        self.given: list[tuple[GpuShare, ...]] = []

    def take(self, claimed: GpuMasks) -> bool:
        if not self._has_devices:
            self.given.append(())
            return True
        masks = [mask | claimed.get(index, 0) for index, mask in enumerate(self._masks)]
        choice = select_devices(
            self._layout,
            self._free,
            masks,
            self._request,
            demand=self._demand,
            free_memory=self._memory,
        )
        if choice is None:
            return False
        for share in choice.shares:
            _count_share((self._free, self._memory), self._masks, share)
            mask = share.mask or WHOLE_GPU
            self.taken[share.index] = self.taken.get(share.index, 0) | mask
        self.given.append(choice.shares)
        return True


def _count_share(free: tuple[list[int], list[int]], masks: list[int], share: GpuShare) -> None:
    if share.mask:
        masks[share.index] |= share.mask
    else:
        compute, memory = free
        compute[share.index] -= share.milli
        memory[share.index] -= share.memory_milli


def assign_devices(
    snapshot: Snapshot, row: int, shape: Shape, count: int
) -> list[tuple[GpuShare, ...]]:
    """Devices for a number of pods of a shape on a node on which they fit. Empty where a device
    plugin assigns the MIG instances."""
    request = shape.gpu
    if request is None:
        return [()] * count
    layout = snapshot.layout(row)
    if request.profile and not layout.has_profile(request.profile):
        return [()] * count
    size = len(layout.gpus)
    free = snapshot.gpu_free[row, :size].tolist()
    masks = snapshot.gpu_mask[row, :size].tolist()
    if request.is_whole:
        return list(_assign_whole_devices(layout, _idle_mask(free, masks), request, count))
    memory = snapshot.free_gpu_memory(row)
    given: list[tuple[GpuShare, ...]] = []
    for further in reversed(range(count)):
        choice = select_devices(
            layout,
            free,
            masks,
            request,
            demand=snapshot.mig_demand,
            further_pods=further,
            free_memory=memory,
        )
        assert choice is not None, f"{snapshot.names[row]} has free capacity but no devices"
        for share in choice.shares:
            _count_share((free, memory), masks, share)
        given.append(choice.shares)
    return given


def assign_shares(
    snapshot: Snapshot, row: int, shape: Shape, free: Sequence[int]
) -> tuple[GpuShare, ...] | None:
    """Fractions of devices of which exactly the listed milli are free; None if nothing is
    listed."""
    request, chosen = shape.gpu, list[int]()
    if request is None or not free:
        return None
    usable = snapshot.usable_gpu_milli(np.array([row]))[0].tolist()
    for milli in free:
        chosen.append(
            next(
                gpu.index
                for gpu in snapshot.layout(row).gpus
                if usable[gpu.index] == milli
                and not snapshot.gpu_mask[row, gpu.index]
                and gpu.is_offered
                and gpu.index not in chosen
            )
        )
    return tuple(GpuShare(index, request.milli) for index in sorted(chosen))


@lru_cache(maxsize=4096)
def _assign_whole_devices(
    layout: GpuLayout, idle: int, request: GpuRequest, count: int
) -> tuple[tuple[GpuShare, ...], ...]:
    """Idle devices for a number of pods. Cached: equal nodes are often in the same state."""
    given: list[tuple[GpuShare, ...]] = []
    for further in reversed(range(count)):
        choice = select_whole_devices(layout, idle, request, further)
        assert choice is not None, "free capacity but no devices"
        for share in choice.shares:
            idle &= ~(1 << share.index)
        given.append(choice.shares)
    return tuple(given)


def _idle_mask(free: Sequence[int], masks: Sequence[int]) -> int:
    """The set of idle devices."""
    return sum(
        1 << index
        for index, milli in enumerate(free)
        if milli == MILLI_PER_GPU and not masks[index]
    )
