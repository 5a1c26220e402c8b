"""Which devices of ResourceSlices are GPUs of nodes, or parts of them.

A GPU that is in use, by a pod or by a claim for another device, cannot be allocated; and a GPU that
a claim holds is occupied for pods that request GPUs from the node.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from kilonova.scheduler.core.dra.claims import ClaimAllocation, Device, DeviceId
from kilonova.scheduler.core.dra.device_usage import DeviceUsage
from kilonova.scheduler.core.dra.inventory import DeviceInventory
from kilonova.scheduler.core.gpu.identity import WHOLE_GPU, GpuOccupancy

GpuMasks = Mapping[int, int]
"""Occupied slices by the index of a GPU."""


@dataclass(frozen=True, slots=True)
class GpuPartition:
    """What a device occupies of a GPU, and the other devices that occupy some of the same."""

    index: int
    mask: int
    overlapping: tuple[DeviceId, ...]


class GpuTaker(Protocol):
    """Gives a pod GPUs of the node in addition to its claims."""

    @property
    def taken(self) -> GpuMasks:
        """The slices given so far."""
        ...

    def take(self, claimed: GpuMasks) -> bool:
        """Gives GPUs to one more pod beside those that claims have; False if there are too few."""
        ...


_NONE: Mapping[DeviceId, GpuPartition] = {}


class GpuDevices:
    """The GPUs among the devices of an inventory."""

    def __init__(self, inventory: DeviceInventory, occupancy: GpuOccupancy) -> None:
        self._inventory = inventory
        self._occupancy = occupancy
        self._parts: dict[int, Mapping[DeviceId, GpuPartition]] = {}
        self.withdrawn: dict[DeviceId, Device] = {}
        """Devices that are in use although their driver does not publish them at present."""

    def parts_on(self, row: int) -> Mapping[DeviceId, GpuPartition]:
        """The devices that are GPUs of a node."""
        if not self._inventory.has_gpus and not self.withdrawn:
            return _NONE
        found = self._parts.get(row)
        if found is None:
            found = self._parts[row] = self._find_parts(row)
        return found

    def invalidate_row(self, row: int) -> None:
        """Called when a node or its devices changed."""
        self._parts.pop(row, None)

    def invalidate_all(self) -> None:
        """Called when devices were withdrawn, or are published again."""
        self._parts.clear()

    def forget_withdrawn(self, allocation: ClaimAllocation, usage: DeviceUsage) -> None:
        """Called when an allocation was released."""
        for allocated in allocation.devices:
            if allocated.device in self.withdrawn and not usage.is_held(allocated.device):
                del self.withdrawn[allocated.device]
                self.invalidate_all()

    def held_masks(self, row: int, usage: DeviceUsage) -> GpuMasks:
        """The slices that claims hold of the GPUs of a node."""
        masks: dict[int, int] = {}
        for id, part in self.parts_on(row).items():
            if usage.is_held(id):
                masks[part.index] = masks.get(part.index, 0) | part.mask
        return masks

    def is_blocked(
        self, row: int, device: DeviceId, usage: DeviceUsage, taken: GpuMasks | None
    ) -> bool:
        """Whether the GPU of a device is in use otherwise: by another device of it, and unless
        `taken` is None by a pod; `taken` are slices already assigned to pods."""
        part = self.parts_on(row).get(device)
        if part is None:
            return False
        if taken is not None and (
            taken.get(part.index, 0) & part.mask
            or self._occupancy.is_used_by_pods(row, part.index, part.mask)
        ):
            return True
        return any(usage.is_held(each) for each in part.overlapping)

    def count_used_by_pods(self, row: int) -> int:
        """How many GPUs with devices pods use, wholly or in part."""
        used = self._occupancy.is_used_by_pods
        parts = self.parts_on(row).values()
        return len({each.index for each in parts if used(row, each.index, WHOLE_GPU)})

    def has_overlap(self, row: int, device: DeviceId) -> bool:
        """Whether other devices occupy some of the same GPU."""
        part = self.parts_on(row).get(device)
        return part is not None and bool(part.overlapping)

    def _find_parts(self, row: int) -> Mapping[DeviceId, GpuPartition]:
        found: dict[DeviceId, tuple[int, int]] = {}
        by_gpu: dict[int, list[tuple[DeviceId, int]]] = {}
        gpus, node = self._occupancy.gpu_ids(row), self._inventory.node_name(row)
        for device in self._gpu_candidates(row):
            reference = device.gpu
            if reference is None:
                continue
            index = reference.find_index(gpus, is_local=device.node == node)
            if index is not None:
                found[device.id] = index, reference.mask
                by_gpu.setdefault(index, []).append((device.id, reference.mask))
        return {
            id: GpuPartition(
                index,
                mask,
                tuple(other for other, its in by_gpu[index] if its & mask and other != id),
            )
            for id, (index, mask) in found.items()
        }

    def _gpu_candidates(self, row: int) -> Iterable[Device]:
        yield from self._inventory.devices_on(row)
        for device in self.withdrawn.values():
            if self._inventory.is_reachable(device.node, device.terms, row):
                yield device
