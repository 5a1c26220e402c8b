"""The allocations of claims: which devices are in use, by which pods.

A claim has devices because a pod that uses it is placed (**assumed**), or because its allocation is
**published** in the API. A published allocation all of whose consumers were removed since counts as
free, although it is not yet deallocated in the API; the next allocation of such a device can be
published only afterwards (`can_publish`).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from kilonova.scheduler.core.dra.claims import (
    ClaimAllocation,
)
from kilonova.scheduler.core.dra.device_usage import DeviceUsage
from kilonova.scheduler.core.dra.gpu_devices import GpuDevices, GpuMasks
from kilonova.scheduler.core.dra.inventory import (
    DeviceInventory,
    DevicePool,
    PoolId,
    SelectorMatcher,
)
from kilonova.scheduler.core.gpu.identity import GpuOccupancy
from kilonova.scheduler.core.model.label_columns import LabelColumns

ClaimAllocations = tuple[ClaimAllocation | None, ...]
"""The allocation of each claim of a pod; None for a claim without one."""
ClaimUses = Iterable[tuple[str, Sequence[str], ClaimAllocations]]
"""Pods, the names of their claims, and the allocations."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PublishedAllocation:
    """The allocation of a claim in the API, and the pods for which it is reserved."""

    allocation: ClaimAllocation
    consumers: frozenset[str] = frozenset()


class ClaimLedger:
    """Devices and claims of a snapshot, whose names, rows, labels and GPUs it reads. Changes return
    the rows that they affect; `take_changed_gpu_rows` those whose GPUs claims hold otherwise."""

    def __init__(
        self, names: list[str], rows: dict[str, int], labels: LabelColumns, gpus: GpuOccupancy
    ) -> None:
        self.is_active = False
        """Whether anything has to be counted."""
        self._occupancy = gpus
        self._reset(DeviceInventory(names, rows, labels))

    def _reset(self, inventory: DeviceInventory) -> None:
        self._inventory = inventory
        self._gpus = GpuDevices(inventory, self._occupancy)
        self._changed_gpu_rows: set[int] = set()
        self._usage = DeviceUsage(inventory.devices, inventory.counters)
        self._published_usage = DeviceUsage(inventory.devices, inventory.counters)
        """Devices of published allocations, whether their consumers were removed or not."""
        self._assumed: dict[str, dict[ClaimAllocation, int]] = {}
        self._users: dict[str, dict[str, int]] = {}
        self._published: dict[str, PublishedAllocation] = {}
        self._released_pods: dict[str, int] = {}
        """Pods that were removed, and how often."""
        self._held: dict[str, set[ClaimAllocation]] = {}
        self._requested_claims: set[str] = set()
        """Claims that some shape names: their allocation affects all nodes."""

    # Devices and claims

    def set_selector_matcher(self, matcher: SelectorMatcher) -> None:
        """Sets the function that reports whether a device matches a selector."""
        self._inventory.selector_matcher = matcher

    def put_pool(self, id: PoolId, pool: DevicePool | None) -> Iterable[int]:
        """Adds or updates a pool, or removes it (None)."""
        self.is_active = True
        devices = self._inventory.device_ids(id)
        if pool is not None:
            devices.update(each.id for each in pool.devices)
        held = self._usage.holders(devices)
        published = self._published_usage.holders(devices)
        for claim in held:
            for allocation in self._held.pop(claim):
                self._usage.release(claim, allocation)
        for claim in published:
            self._published_usage.release(claim, self._published[claim].allocation)
        known = {each: self._inventory.devices.get(each) for each in devices}
        rows = self._inventory.put_pool(id, pool)
        for claim in published:
            self._published_usage.hold(claim, self._published[claim].allocation)
        for claim in held:
            self._update_held(claim)
        for device_id, device in known.items():
            published_again = device_id in self._inventory.devices
            if published_again or device is None or device.gpu is None:
                self._gpus.withdrawn.pop(device_id, None)
            elif self._usage.is_held(device_id):
                self._gpus.withdrawn[device_id] = device
        self._gpus.invalidate_all()
        self._changed_gpu_rows.update(rows)
        return rows

    def put_claim(self, name: str, published: PublishedAllocation | None) -> Iterable[int]:
        """Sets what the API shows of a claim, None if it has no allocation."""
        self.is_active = True
        old = self._published.pop(name, None)
        if old is not None:
            self._published_usage.release(name, old.allocation)
            for pod in old.consumers - (
                published.consumers if published is not None else frozenset()
            ):
                self._released_pods.pop(pod, None)
        if published is not None:
            self._published[name] = published
            self._published_usage.hold(name, published.allocation)
        return self._update_held(name)

    def invalidate_row(self, row: int) -> None:
        """Called when a node or its labels changed."""
        self._inventory.invalidate_row(row)
        self._gpus.invalidate_row(row)

    @property
    def has_gpus(self) -> bool:
        """Whether any device for claims is a GPU of a node."""
        return self._inventory.has_gpus

    def take_changed_gpu_rows(self) -> set[int]:
        """The rows of which claims hold other GPUs since the last call."""
        rows, self._changed_gpu_rows = self._changed_gpu_rows, set()
        return rows

    def held_gpus(self, row: int) -> GpuMasks:
        """The slices that claims hold of the GPUs of a node."""
        return self._gpus.held_masks(row, self._usage)

    def count_gpus_of_pods(self, row: int) -> int:
        """How many GPUs of a node that are published for claims pods use without a claim."""
        return self._gpus.count_used_by_pods(row)

    def allocation_of(self, claim: str) -> ClaimAllocation | None:
        """The allocation of a claim, assumed or published."""
        for allocation, count in self._assumed.get(claim, {}).items():
            if count > 0:
                return allocation
        published = self._published.get(claim)
        return published.allocation if published is not None else None

    def can_publish(self, claim: str, allocation: ClaimAllocation) -> bool:
        """Whether no device of an allocation is published for other claims, unless it can be
        shared."""
        return self._published_usage.can_hold(claim, allocation)

    def pods_using(self, claim: str) -> set[str]:
        """The placed pods that use a claim."""
        return {pod for pod, count in self._users.get(claim, {}).items() if count > 0}

    # Uses of claims

    def add_uses(self, uses: ClaimUses) -> set[int]:
        """Counts the claims of placed pods."""
        return self._count_uses(uses, 1)

    def remove_uses(self, uses: ClaimUses, times: int = 1) -> set[int]:
        """Counts pods as removed and their devices as free; with a negative number, undoes that."""
        uses = list(uses)
        for pod, _, _ in uses:
            _add_count(self._released_pods, pod, times)
        return self._count_uses(uses, -times)

    def discard_uses(self, uses: ClaimUses) -> set[int]:
        """Undoes `add_uses`."""
        return self._count_uses(uses, -1)

    def is_overallocated(self, row: int, allocations: ClaimAllocations) -> bool:
        """Whether devices of one of the allocations of a pod on a node are allocated beyond their
        capacity, or are GPUs in use otherwise."""
        known = [each for each in allocations if each is not None]
        return self._usage.is_overallocated(known) or any(
            self._is_gpu_blocked(each, row) for each in known
        )

    def _is_gpu_blocked(self, allocation: ClaimAllocation, row: int) -> bool:
        return any(
            self._gpus.is_blocked(row, each.device, self._usage, {})
            for each in allocation.devices
            if not each.admin
        )

    def _count_uses(self, uses: ClaimUses, sign: int) -> set[int]:
        rows: set[int] = set()
        for pod, claims, allocations in uses:
            for claim, allocation in zip(claims, allocations, strict=True):
                users = self._users.setdefault(claim, {})
                _add_count(users, pod, sign)
                if not users:
                    del self._users[claim]
                if allocation is not None:
                    assumed = self._assumed.setdefault(claim, {})
                    _add_count(assumed, allocation, sign)
                    if not assumed:
                        del self._assumed[claim]
                rows.update(self._update_held(claim))
        return rows

    def _update_held(self, claim: str) -> Iterable[int]:
        """Makes the devices in use by a claim equal to its assumed and published allocations."""
        wanted = {each for each, count in self._assumed.get(claim, {}).items() if count > 0}
        published = self._published.get(claim)
        if published is not None and not self._is_released(published):
            wanted.add(published.allocation)
        held = self._held.get(claim, set())
        counts_gpus = self._inventory.has_gpus or bool(self._gpus.withdrawn)
        for allocation in held - wanted:
            self._usage.release(claim, allocation)
            self._gpus.forget_withdrawn(allocation, self._usage)
        for allocation in wanted - held:
            self._usage.hold(claim, allocation)
        if wanted:
            self._held[claim] = wanted
        else:
            self._held.pop(claim, None)
        changed = wanted ^ held
        if changed and counts_gpus:
            self._changed_gpu_rows.update(self._rows_using(changed))
            self._changed_gpu_rows.update(
                self._inventory.rows_of({each.node for each in changed if each.node})
            )
        if claim in self._requested_claims:
            return self._inventory.cached_rows()
        return self._rows_using(changed)

    def _rows_using(self, allocations: Iterable[ClaimAllocation]) -> list[int]:
        return self._inventory.affected_rows(
            allocated.device for each in allocations for allocated in each.devices
        )

    def _is_released(self, published: PublishedAllocation) -> bool:
        consumers = published.consumers
        return bool(consumers) and all(self._released_pods.get(pod, 0) > 0 for pod in consumers)

    def _count_consumers(self, claim: str) -> int:
        """How many pods use a claim."""
        published = self._published.get(claim)
        consumers: frozenset[str] = published.consumers if published is not None else frozenset()
        return len(self.pods_using(claim) | consumers)

    def _is_reachable(self, allocation: ClaimAllocation, row: int) -> bool:
        return self._inventory.is_reachable(allocation.node, allocation.terms, row)


def _add_count(counts: dict[T, int], key: T, by: int) -> None:
    """Counts may be negative in between: a rollback does not follow the order of the changes."""
    count = counts.get(key, 0) + by
    if count:
        counts[key] = count
    else:
        counts.pop(key, None)
