"""The nodes of the cluster as arrays: a row for each node, a column for each resource.

Rows are stable: a node keeps its row as long as it exists, and the row of a removed node is reused.
Usage is the sum of the placements. Every change of a row is recorded in a log, so that a vector
over all rows is updated only where rows changed. A journal of placements lets a trial be rolled
back.

`nvidia.com/gpu` of `free` is always the number of healthy devices without any pod; so whole GPUs
are a column like any other, while fractions and MIG instances look at the devices.

A GPU may also be published as a device for claims (`core/gpu/identity.py`). `gpu_mask` therefore
includes what claims hold: the slices of a MIG instance, all of them for a whole GPU.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kilonova.scheduler.core.dra.claim_cache import (
    ClaimAllocations,
    ClaimCache,
    ClaimUses,
    PublishedAllocation,
)
from kilonova.scheduler.core.dra.inventory import DevicePool, PoolId
from kilonova.scheduler.core.gpu.identity import UNKNOWN_GPU, GpuId
from kilonova.scheduler.core.gpu.layout import MILLI_PER_GPU, GpuLayout, GpuShare
from kilonova.scheduler.core.gpu.mig import ProfileDemand
from kilonova.scheduler.core.model.change_log import ChangeLog
from kilonova.scheduler.core.model.gangs import Member
from kilonova.scheduler.core.model.label_columns import LabelColumns, Rows
from kilonova.scheduler.core.model.nodes import Node, Taint
from kilonova.scheduler.core.model.pod_counts import PodCounts
from kilonova.scheduler.core.model.requests import Shape, implied_allocatable

_SMALL_BATCH = 8

GPU = "nvidia.com/gpu"
PODS = "pods"

AmountArray = NDArray[np.int64]

MAX_AMOUNT = 1 << 50
"""Upper bound of an amount of a node: sums over thousands of nodes or pods do not overflow."""
MAX_GPUS = 1024
"""Upper bound of the GPUs of a node: arrays are as wide as the largest node."""
_MAX_SHAPES = 4096
"""Number of shapes whose columns are cached; the oldest is dropped."""


@dataclass(frozen=True, slots=True)
class PodPlacement:
    """A pod counted against a node. `devices` are its GPUs, as far as they are known; `claims` the
    allocation of each of its claims."""

    member: Member
    row: int
    devices: tuple[GpuShare, ...] = ()
    gang: str = ""
    claims: ClaimAllocations = ()

    @property
    def pod(self) -> str:
        return self.member.pod

    @property
    def shape(self) -> Shape:
        return self.member.shape


def mig_resource(profile: str) -> str:
    """The extended resource of a node whose GPUs were partitioned by NVIDIA's MIG manager."""
    return f"nvidia.com/mig-{profile.replace('+', '.')}"


class Snapshot:
    """Nodes, their allocatable amounts, and the pods placed on them."""

    def __init__(self) -> None:
        self.resources: dict[str, int] = {PODS: 0, "cpu": 1, "memory": 2, GPU: 3}
        self.names: list[str] = []
        self.labels = LabelColumns()
        self.allocatable: AmountArray = np.zeros((4, 16), np.int64)
        self.used: AmountArray = np.zeros((4, 16), np.int64)
        self.free: AmountArray = np.zeros((4, 16), np.int64)
        self.alive: NDArray[np.bool_] = np.zeros(16, np.bool_)
        self.gpu_free: NDArray[np.int16] = np.zeros((16, 8), np.int16)
        self.gpu_mask: NDArray[np.uint16] = np.zeros((16, 8), np.uint16)
        """Slices of each device that MIG instances of pods, or claims, occupy."""
        self.gpu_excess: NDArray[np.int16] = np.zeros((16, 8), np.int16)
        """Milli of memory that shares have beyond their milli of compute capacity."""
        self.gpu_claimed: NDArray[np.uint16] = np.zeros((16, 8), np.uint16)
        """The slices that claims occupy."""
        self._gpu_pod_mask: NDArray[np.uint16] = np.zeros((16, 8), np.uint16)
        self.gpu_memory: NDArray[np.int64] = np.zeros(16, np.int64)
        self.gpu_missing: NDArray[np.int16] = np.zeros(16, np.int16)
        """Healthy devices of the layout that the node does not list as allocatable."""
        self.layouts: NDArray[np.int32] = np.zeros(16, np.int32)
        self.taints: NDArray[np.int32] = np.zeros(16, np.int32)
        self.layout_of: list[GpuLayout] = [GpuLayout.of_unknown(0)]
        self.taint_sets: list[tuple[Taint, ...]] = [()]
        self.placements: dict[str, PodPlacement] = {}
        self.pods_on: list[dict[str, PodPlacement]] = []
        self.changes = ChangeLog()
        """Rows on which a pod was added or removed, or anything else changed."""
        self.spec_changes = ChangeLog()
        """Rows whose labels, taints, devices or allocatable amounts changed."""
        self.pod_counts = PodCounts()
        """Pods per selector and row, for affinity, anti-affinity and spread constraints."""
        self._nodes: list[Node | None] = []
        self._rows: dict[str, int] = {}
        self._vacant: list[int] = []
        self._layout_ids: dict[GpuLayout, int] = {self.layout_of[0]: 0}
        self._taint_ids: dict[tuple[Taint, ...], int] = {(): 0}
        self._columns: dict[Shape, tuple[Rows, AmountArray]] = {}
        self._journal: list[tuple[bool, PodPlacement]] = []
        self._trials: list[int] = []
        """For each trial that has not ended, the length of the journal when it began."""
        self.claims = ClaimCache(self.names, self._rows, self.labels, self)
        """Devices that pods claim, and their allocations."""
        self.mig_demand: ProfileDemand = ()
        """The expected demand for MIG profiles, by which instances are placed."""
        self._ranks: NDArray[np.int64] | None = None
        self.rank_generation = 0
        """Incremented when the order of node names changes."""
        self.node_generation = 0
        """Incremented when a node is added, removed, or changed."""

    # Nodes

    @property
    def size(self) -> int:
        """Number of rows, including vacant ones."""
        return len(self.names)

    def __contains__(self, node: str) -> bool:
        return node in self._rows

    def row(self, node: str) -> int:
        return self._rows[node]

    def node(self, row: int) -> Node:
        node = self._nodes[row]
        assert node is not None, f"row {row} is vacant"
        return node

    def nodes(self) -> list[Node]:
        """All nodes by name."""
        return [self.node(self._rows[name]) for name in sorted(self._rows)]

    def layout(self, row: int) -> GpuLayout:
        """The GPUs of a node."""
        return self.layout_of[int(self.layouts[row])]

    @property
    def ranks(self) -> NDArray[np.int64]:
        """Position of each row's node in the sorted node names: the tie-breaker between equal
        nodes."""
        if self._ranks is None or len(self._ranks) != self.size:
            self._ranks = np.full(self.size, self.size, np.int64)
            for rank, name in enumerate(sorted(self._rows)):
                self._ranks[self._rows[name]] = rank
        return self._ranks

    def state_key(self, row: int) -> bytes:
        """Equal for rows with the same allocatable amounts and usage, whatever their nodes are
        called."""
        facts = (int(self.layouts[row]), int(self.taints[row]), int(self.gpu_missing[row]))
        amounts = (self.allocatable[:, row], self.used[:, row], self.free[:, row])
        devices = (self.gpu_free[row], self.gpu_mask[row], self.gpu_excess[row])
        return b"".join((repr(facts).encode(), *(each.tobytes() for each in (*amounts, *devices))))

    def put_node(self, node: Node) -> int:
        """Adds or updates a node. Its placements stay."""
        row = self._rows.get(node.name)
        if row is None:
            row = self._new_row(node.name)
        layout = node.layout or GpuLayout.of_unknown(_clamp(node.allocatable.get(GPU, 0), MAX_GPUS))
        relaid = self._nodes[row] is None or self.layout(row) != layout
        self.node_generation += self._nodes[row] != node
        self._nodes[row] = node
        self.labels.set_row(row, node.name, node.labels)
        self.claims.invalidate_row(row)
        self.allocatable[:, row] = 0
        for name, amount in node.allocatable.items():
            column = self.column(name)
            self.allocatable[column, row] = _clamp(amount, MAX_AMOUNT)
        for name, column in self.resources.items():
            if name not in node.allocatable and (amount := implied_allocatable(name)):
                self.allocatable[column, row] = amount
        self.taints[row] = self._intern_taints(node.taints)
        if relaid:
            self._set_layout(row, layout)
        healthy = sum(gpu.healthy for gpu in layout.gpus)
        self.gpu_missing[row] = max(0, healthy - node.allocatable.get(GPU, 0))
        self._count_claimed_gpus([row])
        self.recompute_free([row])
        self.spec_changes.record(row)
        return row

    def remove_node(self, name: str) -> None:
        """Removes a node and the pods placed on it."""
        row = self._rows.pop(name)
        for pod in list(self.pods_on[row]):
            self.remove_pod(pod)
        self._nodes[row] = None
        self.labels.clear_row(row)
        self.claims.invalidate_row(row)
        self.alive[row] = False
        self.allocatable[:, row] = self.used[:, row] = self.free[:, row] = 0
        for name in _DEVICE_ARRAYS:
            getattr(self, name)[row] = 0
        self.changes.record(row)
        self.spec_changes.record(row)
        self._vacant.append(row)
        self.node_generation += 1
        self._invalidate_ranks()

    def column(self, resource: str) -> int:
        """Column of a resource, created if no node has the resource yet."""
        column = self.resources.get(resource)
        if column is None:
            column = self.resources[resource] = len(self.resources)
            for name in _RESOURCE_ARRAYS:
                array: AmountArray = getattr(self, name)
                setattr(self, name, np.pad(array, ((0, 1), (0, 0))))
            if amount := implied_allocatable(resource):
                self.allocatable[column, self.alive] = self.free[column, self.alive] = amount
        return column

    def request_columns(self, shape: Shape) -> tuple[Rows, AmountArray]:
        """Columns of the resources that a shape requests, and the amounts."""
        found = self._columns.get(shape)
        if found is None:
            columns = np.array([self.column(name) for name, _ in shape.requests], np.intp)
            # An amount above the maximum fits nowhere; clamped, its sums cannot overflow.
            amounts = np.array(
                [_clamp(amount, MAX_AMOUNT + 1) for _, amount in shape.requests], np.int64
            )
            found = self._columns[shape] = columns, amounts
            if len(self._columns) > _MAX_SHAPES:
                del self._columns[next(iter(self._columns))]
            if shape.pod_rules is not None:
                self.pod_counts.is_active = True
        return found

    def copy(self) -> "Snapshot":
        """An independent copy of the nodes and placements."""
        other = Snapshot()
        other.__dict__.update(self.__dict__)
        for name in (*_RESOURCE_ARRAYS, *_ROW_ARRAYS, *_COPIED_FIELDS):
            setattr(other, name, getattr(self, name).copy())
        other.pods_on = [pods.copy() for pods in self.pods_on]
        other.labels = self.labels.copy()
        other.pod_counts = self.pod_counts.copy()
        other.claims = self.claims.copy(other.names, other._rows, other.labels, other)
        other.changes, other.spec_changes = ChangeLog(), ChangeLog()
        other._journal, other._trials = [], []
        return other

    # Placements

    def add_pod(self, placement: PodPlacement) -> None:
        """Counts a pod against its node."""
        self.add_pods([placement])

    def add_pods(self, placements: Sequence[PodPlacement]) -> None:
        """Counts many pods; each row is recomputed once."""
        for placement in placements:
            assert placement.pod not in self.placements, f"{placement.pod} is placed already"
            self.placements[placement.pod] = placement
            self.pods_on[placement.row][placement.pod] = placement
        self._count_pods(placements, 1)
        if self._trials:
            self._journal.extend((True, placement) for placement in placements)
        if self.claims.is_active:
            self._record_claim_changes(self.claims.add_uses(_claim_uses(placements)))
        self.recompute_free([placement.row for placement in placements])

    def update_pod(self, placement: PodPlacement) -> None:
        """Replaces the placement of a pod by one with the same usage."""
        self.placements[placement.pod] = self.pods_on[placement.row][placement.pod] = placement

    def remove_pod(self, pod: str) -> PodPlacement:
        """Removes a pod from its node."""
        return self.remove_pods([pod])[0]

    def remove_pods(self, pods: Iterable[str]) -> list[PodPlacement]:
        """Removes many pods; each row is recomputed once."""
        released: list[PodPlacement] = []
        for pod in pods:
            placement = self.placements.pop(pod)
            del self.pods_on[placement.row][pod]
            released.append(placement)
        self._count_pods(released, -1)
        if self._trials:
            self._journal.extend((False, placement) for placement in released)
        if self.claims.is_active:
            self._record_claim_changes(self.claims.remove_uses(_claim_uses(released)))
        self.recompute_free([placement.row for placement in released])
        return released

    def begin_trial(self) -> int:
        """Begins a trial, which `rollback`, `commit` or `end_trial` ends. Trials may be nested."""
        self._trials.append(len(self._journal))
        return len(self._trials) - 1

    def rollback(self, trial: int) -> None:
        """Undoes all changes since the trial began, and ends it."""
        undone = self._journal[self._trials[trial] :]
        for was_added, placement in reversed(undone):
            if was_added:
                del self.placements[placement.pod]
                del self.pods_on[placement.row][placement.pod]
            else:
                self.placements[placement.pod] = placement
                self.pods_on[placement.row][placement.pod] = placement
        added = [placement for was_added, placement in undone if was_added]
        removed = [placement for was_added, placement in undone if not was_added]
        self._count_pods(added, -1)
        self._count_pods(removed, 1)
        if self.claims.is_active:
            self._record_claim_changes(self.claims.discard_uses(_claim_uses(added)))
            self._record_claim_changes(self.claims.remove_uses(_claim_uses(removed), -1))
        if undone:
            self.recompute_free([placement.row for _, placement in undone])
        del self._journal[self._trials[trial] :]
        self.end_trial(trial)

    def commit(self, trial: int) -> list[PodPlacement]:
        """Ends a trial and keeps its changes; returns the placements added in it that still
        exist."""
        added = [
            placement
            for was_added, placement in self._journal[self._trials[trial] :]
            if was_added and self.placements.get(placement.pod) is placement
        ]
        self.end_trial(trial)
        return added

    def end_trial(self, trial: int) -> None:
        """Ends a trial and those nested in it, which an error may have left open; changes are
        kept."""
        del self._trials[trial:]
        if not self._trials:
            self._journal.clear()

    # Devices and claims

    def put_pool(self, id: PoolId, pool: DevicePool | None) -> None:
        """Adds or updates a pool of devices for claims, or removes it (None)."""
        self._record_device_changes(self.claims.put_pool(id, pool))

    def put_claim(self, name: str, published: PublishedAllocation | None) -> None:
        """Sets what the API shows of a claim, None if it has no allocation."""
        self._record_device_changes(self.claims.put_claim(name, published))

    def usable_gpu_milli(self, rows: Rows) -> NDArray[np.int16]:
        """The milli of each device of which both compute capacity and memory are free."""
        return self.gpu_free[rows] - np.maximum(self.gpu_excess[rows], 0)

    def free_gpu_memory(self, row: int) -> list[int]:
        """The free milli of memory of each device of a node."""
        size = len(self.layout(row).gpus)
        free: list[int] = (self.gpu_free[row, :size] - self.gpu_excess[row, :size]).tolist()
        return free

    def gpu_ids(self, row: int) -> Sequence[GpuId]:
        """What identifies each GPU of a node."""
        node, size = self._nodes[row], len(self.layout(row).gpus)
        known = node.gpu_ids[:size] if node is not None else ()
        return (*known, *(UNKNOWN_GPU,) * (size - len(known)))

    def is_used_by_pods(self, row: int, index: int, mask: int) -> bool:
        """Whether pods use one of these slices of a GPU without a claim, or it is unhealthy."""
        shared = self.gpu_free[row, index] < MILLI_PER_GPU
        return bool(shared or int(self._gpu_pod_mask[row, index]) & mask)

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

    def _record_device_changes(self, rows: Iterable[int]) -> None:
        rows = list(rows)
        self._record_claim_changes(rows)
        self.spec_changes.record_all(rows)

    def _record_claim_changes(self, rows: Iterable[int]) -> None:
        """Records rows whose claimed devices changed."""
        changed = [row for row in self.claims.take_changed_gpu_rows() if self.alive[row]]
        if changed:
            self._count_claimed_gpus(changed)
            self.recompute_free(changed)
        self.changes.record_all(rows)

    def _count_claimed_gpus(self, rows: Iterable[int]) -> None:
        for row in rows:
            masks = self.claims.held_gpus(row)
            if masks or self.gpu_claimed[row].any():
                self.gpu_claimed[row] = 0
                for index, mask in masks.items():
                    self.gpu_claimed[row, index] = mask
                self.gpu_mask[row] = self._gpu_pod_mask[row] | self.gpu_claimed[row]

    def record_spec_changes(self, rows: Iterable[int]) -> None:
        """Records rows whose features changed other than through `put_node`."""
        rows = list(rows)
        self.changes.record_all(rows)
        self.spec_changes.record_all(rows)

    def recompute_free(self, rows: Sequence[int]) -> None:
        """Recomputes what is free on rows, and records the rows as changed."""
        if not rows:
            return
        if len(rows) == 1:
            self._recompute_free_row(rows[0])
            self.changes.record(rows[0])
            return
        changed = np.unique(np.array(rows, np.intp))
        self.free[:, changed] = self.allocatable[:, changed] - self.used[:, changed]
        idle = (self.gpu_free[changed] == MILLI_PER_GPU) & (self.gpu_mask[changed] == 0)
        column = self.resources[GPU]
        self.free[column, changed] = np.minimum(
            self.free[column, changed], idle.sum(axis=1) - self.gpu_missing[changed]
        )
        self.changes.record_all(changed.tolist())

    def _recompute_free_row(self, row: int) -> None:
        self.free[:, row] = self.allocatable[:, row] - self.used[:, row]
        count = len(self.layout(row).gpus)
        masks = self.gpu_mask[row, :count].tolist()
        free = self.gpu_free[row, :count].tolist()
        idle = sum(
            milli == MILLI_PER_GPU and not mask for milli, mask in zip(free, masks, strict=True)
        )
        column = self.resources[GPU]
        idle -= int(self.gpu_missing[row])
        self.free[column, row] = min(int(self.free[column, row]), idle)

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

    def _new_row(self, name: str) -> int:
        if self._vacant:
            row = self._vacant.pop()
            self.names[row] = name
        else:
            row = len(self.names)
            self.names.append(name)
            self._nodes.append(None)
            self.pods_on.append({})
            if row == len(self.alive):
                self._grow()
        self._rows[name] = row
        self.alive[row] = True
        self._invalidate_ranks()
        return row

    def _invalidate_ranks(self) -> None:
        self._ranks = None
        self.rank_generation += 1

    def _grow(self) -> None:
        more = len(self.alive)
        for name in _ROW_ARRAYS:
            array: NDArray[np.generic] = getattr(self, name)
            width = [(0, more)] + [(0, 0)] * (array.ndim - 1)
            setattr(self, name, np.pad(array, width))
        for name in _RESOURCE_ARRAYS:
            setattr(self, name, np.pad(getattr(self, name), ((0, 0), (0, more))))

    def _intern_taints(self, taints: tuple[Taint, ...]) -> int:
        found = self._taint_ids.get(taints)
        if found is None:
            found = self._taint_ids[taints] = len(self.taint_sets)
            self.taint_sets.append(taints)
        return found

    def _set_layout(self, row: int, layout: GpuLayout) -> None:
        found = self._layout_ids.get(layout)
        if found is None:
            found = self._layout_ids[layout] = len(self.layout_of)
            self.layout_of.append(layout)
        self.layouts[row] = found
        width = self.gpu_free.shape[1]
        if len(layout.gpus) > width:
            wider = ((0, 0), (0, len(layout.gpus) - width))
            for name in _DEVICE_ARRAYS:
                setattr(self, name, np.pad(getattr(self, name), wider))
        for name in _DEVICE_ARRAYS:
            getattr(self, name)[row] = 0
        for position, gpu in enumerate(layout.gpus):
            self.gpu_free[row, position] = MILLI_PER_GPU if gpu.healthy else 0
        self.gpu_memory[row] = min((gpu.memory for gpu in layout.gpus), default=0)
        for placement in self.pods_on[row].values():
            for share in placement.devices:
                if not share.mask and share.index < len(layout.gpus):
                    self.gpu_free[row, share.index] -= share.milli
                    self._count_excess(row, share, 1)
        self._recompute_mig_masks(row)


def _claim_uses(placements: Iterable[PodPlacement]) -> ClaimUses:
    """The claims of pods and their allocations."""
    return ((each.pod, each.member.claims, each.claims) for each in placements if each.claims)


def free_amounts(snapshot: Snapshot, row: int) -> Mapping[str, int]:
    """The free amounts of a node, by resource."""
    return {name: int(snapshot.free[column, row]) for name, column in snapshot.resources.items()}


def _clamp(amount: int, most: int) -> int:
    return max(0, min(amount, most))


_RESOURCE_ARRAYS = ("allocatable", "used", "free")
_DEVICE_ARRAYS = ("gpu_free", "gpu_excess", "gpu_mask", "gpu_claimed", "_gpu_pod_mask")
_ROW_ARRAYS = (
    *_DEVICE_ARRAYS,
    "alive",
    "gpu_memory",
    "gpu_missing",
    "layouts",
    "taints",
)
_COPIED_FIELDS = (
    "resources",
    "names",
    "placements",
    "layout_of",
    "taint_sets",
    "_nodes",
    "_rows",
    "_vacant",
    "_layout_ids",
    "_taint_ids",
    "_columns",
)
