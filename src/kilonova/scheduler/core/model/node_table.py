"""The nodes of the cluster as arrays: a row for each node, a column for each resource.

Rows are stable: a node keeps its row as long as it exists, and the row of a removed node is reused.
Every change of a row is recorded in a log, so that a vector over all rows is updated only where
rows changed.

`nvidia.com/gpu` of `free` is always the number of offered devices without any pod (healthy, and not
withheld for MIG instances); so whole GPUs are a column like any other, while fractions and MIG
instances look at the devices.

A GPU may also be published as a device for claims (`core/gpu/identity.py`). `gpu_mask` therefore
includes what claims hold: the slices of a MIG instance, all of them for a whole GPU.
"""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from kilonova.catalog.resource_names import GPU
from kilonova.scheduler.core.gpu.identity import UNKNOWN_GPU, GpuId
from kilonova.scheduler.core.gpu.layout import MILLI_PER_GPU, GpuLayout
from kilonova.scheduler.core.model.change_log import ChangeLog
from kilonova.scheduler.core.model.label_columns import LabelColumns, Rows
from kilonova.scheduler.core.model.nodes import Node, Taint
from kilonova.scheduler.core.model.pod_placement import PodPlacement
from kilonova.scheduler.core.model.requests import implied_allocatable

PODS = "pods"

AmountArray = NDArray[np.int64]

MAX_AMOUNT = 1 << 50
"""Upper bound of an amount of a node: sums over thousands of nodes or pods do not overflow."""
MAX_GPUS = 1024
"""Upper bound of the GPUs of a node: arrays are as wide as the largest node."""

RESOURCE_ARRAYS = ("allocatable", "used", "free")
DEVICE_ARRAYS = (
    "gpu_free",
    "gpu_excess",
    "gpu_mask",
    "gpu_claimed",
    "gpu_withheld",
    "_gpu_pod_mask",
)
ROW_ARRAYS = (
    *DEVICE_ARRAYS,
    "alive",
    "gpu_memory",
    "gpu_missing",
    "layouts",
    "taints",
)


class NodeTable:
    """Nodes, their allocatable amounts, and the usage of each."""

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
        self.gpu_withheld: NDArray[np.bool_] = np.zeros((16, 8), np.bool_)
        """Devices of which only MIG instances are assigned."""
        self._gpu_pod_mask: NDArray[np.uint16] = np.zeros((16, 8), np.uint16)
        self.gpu_memory: NDArray[np.int64] = np.zeros(16, np.int64)
        self.gpu_missing: NDArray[np.int16] = np.zeros(16, np.int16)
        """Offered devices of the layout that the node does not list as allocatable."""
        self.layouts: NDArray[np.int32] = np.zeros(16, np.int32)
        self.taints: NDArray[np.int32] = np.zeros(16, np.int32)
        self.layout_of: list[GpuLayout] = [GpuLayout.of_unknown(0)]
        self.taint_sets: list[tuple[Taint, ...]] = [()]
        self.pods_on: list[dict[str, PodPlacement]] = []
        self.changes = ChangeLog()
        """Rows on which a pod was added or removed, or anything else changed."""
        self.spec_changes = ChangeLog()
        """Rows whose labels, taints, devices or allocatable amounts changed."""
        self._nodes: list[Node | None] = []
        self._rows: dict[str, int] = {}
        self._vacant: list[int] = []
        self._layout_ids: dict[GpuLayout, int] = {self.layout_of[0]: 0}
        self._taint_ids: dict[tuple[Taint, ...], int] = {(): 0}
        self._ranks: NDArray[np.int64] | None = None
        self.rank_generation = 0
        """Incremented when the order of node names changes."""
        self.node_generation: int = 0
        """Incremented when a node is added, removed, or changed."""

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

    def column(self, resource: str) -> int:
        """Column of a resource, created if no node has the resource yet."""
        column = self.resources.get(resource)
        if column is None:
            column = self.resources[resource] = len(self.resources)
            for name in RESOURCE_ARRAYS:
                array: AmountArray = getattr(self, name)
                setattr(self, name, np.pad(array, ((0, 1), (0, 0))))
            if amount := implied_allocatable(resource):
                self.allocatable[column, self.alive] = self.free[column, self.alive] = amount
        return column

    def usable_gpu_milli(self, rows: Rows) -> NDArray[np.int16]:
        """The milli of each device of which both compute capacity and memory are free."""
        return self.gpu_free[rows] - np.maximum(self.gpu_excess[rows], 0)

    def has_idle_device(self, rows: Rows | int) -> NDArray[np.bool_]:
        """Whether each device may be assigned as a whole: no pod has any of it, and it is not
        withheld."""
        free, masks = self.gpu_free[rows], self.gpu_mask[rows]
        return (free == MILLI_PER_GPU) & (masks == 0) & ~self.gpu_withheld[rows]

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
        idle = self.has_idle_device(changed)
        column = self.resources[GPU]
        self.free[column, changed] = np.minimum(
            self.free[column, changed], idle.sum(axis=1) - self.gpu_missing[changed]
        )
        self.changes.record_all(changed.tolist())

    def _recompute_free_row(self, row: int) -> None:
        self.free[:, row] = self.allocatable[:, row] - self.used[:, row]
        gpus = self.layout(row).gpus
        masks = self.gpu_mask[row, : len(gpus)].tolist()
        free = self.gpu_free[row, : len(gpus)].tolist()
        idle = sum(
            milli == MILLI_PER_GPU and not mask and not gpu.withheld
            for milli, mask, gpu in zip(free, masks, gpus, strict=True)
        )
        column = self.resources[GPU]
        idle -= int(self.gpu_missing[row])
        self.free[column, row] = min(int(self.free[column, row]), idle)

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
        for name in ROW_ARRAYS:
            array: NDArray[np.generic] = getattr(self, name)
            width = [(0, more)] + [(0, 0)] * (array.ndim - 1)
            setattr(self, name, np.pad(array, width))
        for name in RESOURCE_ARRAYS:
            setattr(self, name, np.pad(getattr(self, name), ((0, 0), (0, more))))

    def _intern_taints(self, taints: tuple[Taint, ...]) -> int:
        found = self._taint_ids.get(taints)
        if found is None:
            found = self._taint_ids[taints] = len(self.taint_sets)
            self.taint_sets.append(taints)
        return found

    def _clear_devices(self, row: int, layout: GpuLayout) -> None:
        """Sets the GPUs of a node, all of them without pods."""
        found = self._layout_ids.get(layout)
        if found is None:
            found = self._layout_ids[layout] = len(self.layout_of)
            self.layout_of.append(layout)
        self.layouts[row] = found
        width = self.gpu_free.shape[1]
        if len(layout.gpus) > width:
            wider = ((0, 0), (0, len(layout.gpus) - width))
            for name in DEVICE_ARRAYS:
                setattr(self, name, np.pad(getattr(self, name), wider))
        for name in DEVICE_ARRAYS:
            getattr(self, name)[row] = 0
        for position, gpu in enumerate(layout.gpus):
            self.gpu_free[row, position] = MILLI_PER_GPU if gpu.healthy else 0
            self.gpu_withheld[row, position] = gpu.withheld
        self.gpu_memory[row] = min((gpu.memory for gpu in layout.gpus), default=0)


def free_amounts(nodes: NodeTable, row: int) -> Mapping[str, int]:
    """The free amounts of a node, by resource."""
    return {name: int(nodes.free[column, row]) for name, column in nodes.resources.items()}


def clamp(amount: int, most: int) -> int:
    """An amount within 0 and a maximum."""
    return max(0, min(amount, most))
