"""The snapshot that gangs are scheduled on: nodes, the pods placed on them, and claims.

Usage is the sum of the placements. A journal of placements lets a trial be rolled back. What is
known of nodes is in `node_table`, how pods are counted in `usage_table`.
"""

from collections.abc import Iterable, Sequence

from kilonova.catalog.resource_names import GPU
from kilonova.scheduler.core.dra.claim_cache import ClaimCache
from kilonova.scheduler.core.dra.claim_ledger import ClaimUses, PublishedAllocation
from kilonova.scheduler.core.dra.inventory import DevicePool, PoolId
from kilonova.scheduler.core.gpu.layout import GpuLayout
from kilonova.scheduler.core.gpu.mig import ProfileDemand
from kilonova.scheduler.core.model.change_log import ChangeLog
from kilonova.scheduler.core.model.node_table import (
    DEVICE_ARRAYS,
    MAX_AMOUNT,
    MAX_GPUS,
    RESOURCE_ARRAYS,
    ROW_ARRAYS,
    clamp,
)
from kilonova.scheduler.core.model.nodes import Node
from kilonova.scheduler.core.model.pod_placement import PodPlacement
from kilonova.scheduler.core.model.requests import implied_allocatable
from kilonova.scheduler.core.model.usage_table import UsageTable


class Snapshot(UsageTable):
    """Nodes, their allocatable amounts, and the pods placed on them."""

    def __init__(self) -> None:
        super().__init__()
        self._journal: list[tuple[bool, PodPlacement]] = []
        self._trials: list[int] = []
        """For each trial that has not ended, the length of the journal when it began."""
        self.claims = ClaimCache(self.names, self._rows, self.labels, self)
        """Devices that pods claim, and their allocations."""
        self.mig_demand: ProfileDemand = ()
        """The expected demand for MIG profiles, by which instances are placed."""

    # Nodes

    def put_node(self, node: Node) -> int:
        """Adds or updates a node. Its placements stay."""
        row = self._rows.get(node.name)
        if row is None:
            row = self._new_row(node.name)
        layout = node.layout or GpuLayout.of_unknown(clamp(node.allocatable.get(GPU, 0), MAX_GPUS))
        relaid = self._nodes[row] is None or self.layout(row) != layout
        self.node_generation += self._nodes[row] != node
        self._nodes[row] = node
        self.labels.set_row(row, node.name, node.labels)
        self.claims.invalidate_row(row)
        self.allocatable[:, row] = 0
        for name, amount in node.allocatable.items():
            column = self.column(name)
            self.allocatable[column, row] = clamp(amount, MAX_AMOUNT)
        for name, column in self.resources.items():
            if name not in node.allocatable and (amount := implied_allocatable(name)):
                self.allocatable[column, row] = amount
        self.taints[row] = self._intern_taints(node.taints)
        if relaid:
            self._set_layout(row, layout)
        offered = sum(gpu.is_offered for gpu in layout.gpus)
        self.gpu_missing[row] = max(0, offered - node.allocatable.get(GPU, 0))
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
        for name in DEVICE_ARRAYS:
            getattr(self, name)[row] = 0
        self.changes.record(row)
        self.spec_changes.record(row)
        self._vacant.append(row)
        self.node_generation += 1
        self._invalidate_ranks()

    def copy(self) -> "Snapshot":
        """An independent copy of the nodes and placements."""
        other = Snapshot()
        other.__dict__.update(self.__dict__)
        for name in (*RESOURCE_ARRAYS, *ROW_ARRAYS, *_COPIED_FIELDS):
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


def _claim_uses(placements: Iterable[PodPlacement]) -> ClaimUses:
    """The claims of pods and their allocations."""
    return ((each.pod, each.member.claims, each.claims) for each in placements if each.claims)


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
