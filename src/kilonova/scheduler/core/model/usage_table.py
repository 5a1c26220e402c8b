"""The usage of nodes by the pods placed on them: amounts, GPUs, MIG slices."""

from collections.abc import Sequence

import numpy as np

from kilonova.catalog.resource_names import mig_resource
from kilonova.scheduler.core.gpu.identity import WHOLE_GPU
from kilonova.scheduler.core.gpu.layout import MILLI_PER_GPU, GpuLayout, GpuShare
from kilonova.scheduler.core.model.label_columns import Rows
from kilonova.scheduler.core.model.node_table import MAX_AMOUNT, AmountArray, NodeTable, clamp
from kilonova.scheduler.core.model.pod_counts import PodCounts
from kilonova.scheduler.core.model.pod_placement import PodPlacement
from kilonova.scheduler.core.model.requests import Shape

_SMALL_BATCH = 8

_MAX_SHAPES = 4096
"""Number of shapes whose columns are cached; the oldest is dropped."""


class UsageTable(NodeTable):
    """Nodes and the pods on them; the usage is the sum of the placements."""

    def __init__(self) -> None:
        super().__init__()
        self.placements: dict[str, PodPlacement] = {}
        self.pod_counts = PodCounts()
        """Pods per selector and row, for affinity, anti-affinity and spread constraints."""
        self._columns: dict[Shape, tuple[Rows, AmountArray]] = {}

    def request_columns(self, shape: Shape) -> tuple[Rows, AmountArray]:
        """Columns of the resources that a shape requests, and the amounts."""
        found = self._columns.get(shape)
        if found is None:
            columns = np.array([self.column(name) for name, _ in shape.requests], np.intp)
            # An amount above the maximum fits nowhere; clamped, its sums cannot overflow.
            amounts = np.array(
                [clamp(amount, MAX_AMOUNT + 1) for _, amount in shape.requests], np.int64
            )
            found = self._columns[shape] = columns, amounts
            if len(self._columns) > _MAX_SHAPES:
                del self._columns[next(iter(self._columns))]
            if shape.pod_rules is not None:
                self.pod_counts.is_active = True
        return found

    def is_used_by_pods(self, row: int, index: int, mask: int) -> bool:
        """Whether pods use one of these slices of a GPU without a claim, or it is unhealthy, or
        withheld from claims of all of it."""
        shared = self.gpu_free[row, index] < MILLI_PER_GPU
        withheld = mask == WHOLE_GPU and self.gpu_withheld[row, index]
        return bool(shared or withheld or int(self._gpu_pod_mask[row, index]) & mask)

    def has_device_conflict(self, placement: PodPlacement) -> bool:
        """Whether a placed pod has devices that other pods or claims use as well."""
        row, size = placement.row, len(self.layout(placement.row).gpus)
        shares = [share for share in placement.devices if share.index < size]
        if any(self._is_share_overcommitted(row, share) for share in shares):
            return True
        others = (
            share
            for pod, other in self.pods_on[row].items()
            if pod != placement.pod
            for share in other.devices
        )
        instances = [share for share in shares if share.mask]
        return bool(instances) and any(
            own.index == other.index and own.mask & other.mask
            for other in others
            for own in instances
        )

    def _is_share_overcommitted(self, row: int, share: GpuShare) -> bool:
        free = int(self.gpu_free[row, share.index])
        if share.mask:
            claimed = int(self.gpu_claimed[row, share.index])
            return free < MILLI_PER_GPU or bool(claimed & share.mask)
        memory = free - int(self.gpu_excess[row, share.index])
        return free < 0 or memory < 0 or bool(self.gpu_mask[row, share.index])

    def _set_layout(self, row: int, layout: GpuLayout) -> None:
        """Sets the GPUs of a node, and counts the pods on it again."""
        self._clear_devices(row, layout)
        for placement in self.pods_on[row].values():
            for share in placement.devices:
                if not share.mask and share.index < len(layout.gpus):
                    self.gpu_free[row, share.index] -= share.milli
                    self._count_excess(row, share, 1)
        self._recompute_mig_masks(row)

    def _count_pods(self, placements: Sequence[PodPlacement], sign: int) -> None:
        self._count_amounts(placements, sign)
        if self.pod_counts.is_active:
            self.pod_counts.update(
                ((placement.member, placement.row) for placement in placements), sign
            )

    def _count_amounts(self, placements: Sequence[PodPlacement], sign: int) -> None:
        """Counts pods by shape: a gang of a thousand equal pods costs a few array operations."""
        if len(placements) < _SMALL_BATCH:
            for placement in placements:
                self._count_pod(placement, sign)
            return
        by_shape: dict[Shape, list[int]] = {}
        devices: list[tuple[int, int, int, int]] = []
        for placement in placements:
            by_shape.setdefault(placement.shape, []).append(placement.row)
            for share in placement.devices:
                devices.append((placement.row, share.index, share.milli, share.mask))
                if share.memory is not None:
                    self._count_excess(placement.row, share, sign)
            if not placement.devices and placement.shape.gpu is not None:
                self._count_instances(placement, sign)
        for shape, rows in by_shape.items():
            columns, amounts = self.request_columns(shape)
            unique, counts = np.unique(np.array(rows, np.intp), return_counts=True)
            self.used[np.ix_(columns, unique)] += sign * amounts[:, None] * counts[None, :]
        if devices:
            row, index, milli, mask = np.array(devices, np.int64).T
            sizes = np.array([len(layout.gpus) for layout in self.layout_of])
            whole = (mask == 0) & (index < sizes[self.layouts[row]])
            np.subtract.at(self.gpu_free, (row[whole], index[whole]), sign * milli[whole])
            for split in np.unique(row[mask != 0]).tolist():
                self._recompute_mig_masks(split)

    def _count_excess(self, row: int, share: GpuShare, sign: int) -> None:
        if share.index < len(self.layout(row).gpus):
            self.gpu_excess[row, share.index] += sign * share.excess

    def _count_instances(self, placement: PodPlacement, sign: int) -> None:
        gpu = placement.shape.gpu
        if gpu is not None and gpu.profile:
            column = self.column(mig_resource(gpu.profile))
            self.used[column, placement.row] += sign * gpu.count

    def _count_pod(self, placement: PodPlacement, sign: int) -> None:
        columns, amounts = self.request_columns(placement.shape)
        row = placement.row
        self.used[columns, row] += sign * amounts
        if not placement.devices:
            self._count_instances(placement, sign)
        size = len(self.layout(row).gpus)
        for share in placement.devices:
            if not share.mask and share.index < size:
                self.gpu_free[row, share.index] -= sign * share.milli
                if share.memory is not None:
                    self._count_excess(row, share, sign)
        if any(share.mask for share in placement.devices):
            self._recompute_mig_masks(row)

    def _recompute_mig_masks(self, row: int) -> None:
        """Recomputes which MIG slices of a node's devices are occupied from all placements: a slice
        may be in use twice where something else assigned devices, so masks cannot be subtracted."""
        masks = self._gpu_pod_mask[row]
        masks[:] = 0
        size = len(self.layout(row).gpus)
        for placement in self.pods_on[row].values():
            for share in placement.devices:
                if share.mask and share.index < size:
                    masks[share.index] |= share.mask
        self.gpu_mask[row] = masks | self.gpu_claimed[row]
