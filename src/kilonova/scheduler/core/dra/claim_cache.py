"""How many pods each node has devices for, and the allocations of the claims of a pod.

Claims that several pods name couple nodes: the first pod placed decides where the others fit. Which
devices are in use is in `claim_ledger`.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kilonova.scheduler.core.dra.claim_ledger import ClaimAllocations, ClaimLedger
from kilonova.scheduler.core.dra.claims import (
    MAX_CONSUMERS,
    ClaimAllocation,
    ClaimRequest,
)
from kilonova.scheduler.core.dra.device_usage import DeviceUsage
from kilonova.scheduler.core.dra.gpu_devices import GpuTaker
from kilonova.scheduler.core.dra.inventory import (
    DeviceInventory,
)
from kilonova.scheduler.core.dra.node_allocator import NodeAllocator
from kilonova.scheduler.core.gpu.identity import GpuOccupancy
from kilonova.scheduler.core.model.label_columns import Flags, LabelColumns, Rows
from kilonova.scheduler.core.search_budget import SearchBudget

ClaimRequests = tuple[ClaimRequest, ...]

_SEARCH_STEPS = 20_000
"""Steps of the search for devices, on all nodes, for one gang."""


class ClaimCache(ClaimLedger):
    """The claims of a snapshot, and its free devices by claims that are requested."""

    def _reset(self, inventory: DeviceInventory) -> None:
        super()._reset(inventory)
        self._allocator = NodeAllocator(inventory, self._gpus)
        self.budget = SearchBudget(_SEARCH_STEPS)
        """Common budget of all searches for devices until `renew_budget`."""

    def renew_budget(self) -> None:
        """Called before the next gang."""
        self.budget = SearchBudget(_SEARCH_STEPS)

    def copy(
        self, names: list[str], rows: dict[str, int], labels: LabelColumns, gpus: GpuOccupancy
    ) -> "ClaimCache":
        """An independent copy."""
        other = ClaimCache(names, rows, labels, gpus)
        other.is_active = self.is_active
        if self.is_active:
            other._reset(self._inventory.copy(names, rows, labels))
            other._released_pods, other._requested_claims = (
                self._released_pods.copy(),
                self._requested_claims.copy(),
            )
            other._assumed = {claim: assumed.copy() for claim, assumed in self._assumed.items()}
            other._users = {claim: users.copy() for claim, users in self._users.items()}
            for claim, published in self._published.items():
                other.put_claim(claim, published)
            for claim in self._assumed:
                other._update_held(claim)
            other._gpus.withdrawn = self._gpus.withdrawn.copy()
            other._changed_gpu_rows = self._changed_gpu_rows.copy()
        return other

    def affects_other_nodes(self, claims: ClaimRequests) -> bool:
        """Whether placing a pod with such claims changes the free capacity of other nodes."""
        return bool(claims) and (
            self._inventory.has_multi_node_pools or bool(self.unallocated_shared_claims(claims))
        )

    def unallocated_shared_claims(self, claims: ClaimRequests) -> list[str]:
        """Named claims without an allocation: the first pod placed decides for the others."""
        return [
            claim.name for claim in claims if claim.name and self.allocation_of(claim.name) is None
        ]

    def free_capacity(
        self, claims: ClaimRequests, rows: Rows, most: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """How many pods with such claims each row has devices for, up to a maximum."""
        self._requested_claims.update(claim.name for claim in claims if claim.name)
        limits = zip(rows.tolist(), most.tolist(), strict=True)
        return np.array(
            [self._free_capacity_on(claims, row, limit) for row, limit in limits], np.int64
        )

    def allocate_for(self, claims: ClaimRequests, row: int, count: int) -> list[ClaimAllocations]:
        """The allocations for the claims of a number of pods on a row on which they fit."""
        # The pods fit: a new budget, because finding that out may have used up the common one.
        served = self._allocator.allocate_repeatedly(
            self._unallocated(claims), row, count, self._usage, SearchBudget(_SEARCH_STEPS)
        )
        return self._join_allocations(claims, served, count)

    def allocate_beside_gpus(
        self, claims: ClaimRequests, row: int, count: int, taker: GpuTaker
    ) -> list[ClaimAllocations]:
        """The allocations for the claims of up to a number of pods on a row, each of which also
        takes GPUs of the node."""
        budget = SearchBudget(_SEARCH_STEPS)
        served = self._allocator.allocate_repeatedly(
            self._unallocated(claims), row, count, self._usage, budget, taker
        )
        return self._join_allocations(claims, served, len(served))

    def _join_allocations(
        self, claims: ClaimRequests, served: Sequence[Sequence[ClaimAllocation]], count: int
    ) -> list[ClaimAllocations]:
        """The allocations of all claims of a number of pods, from those that were missing."""
        known = {claim.name: self.allocation_of(claim.name) for claim in claims if claim.name}
        allocated: list[ClaimAllocations] = []
        for pod in range(count):
            fresh = iter(served[pod] if pod < len(served) else ())
            allocations: list[ClaimAllocation] = []
            for claim in claims:
                allocation = known.get(claim.name) or next(fresh)
                if claim.name:
                    known[claim.name] = allocation
                allocations.append(allocation)
            allocated.append(tuple(allocations))
        return allocated

    def allocated_elsewhere(self, claims: ClaimRequests, rows: Rows) -> Flags:
        """Where the devices published for one of the claims cannot be used."""
        self._requested_claims.update(claim.name for claim in claims if claim.name)
        allocations = [
            self._published[claim.name].allocation
            for claim in claims
            if claim.name in self._published
        ]
        return np.array(
            [
                any(not self._is_reachable(each, row) for each in allocations)
                for row in rows.tolist()
            ],
            np.bool_,
        )

    def lacks_devices(self, claims: ClaimRequests, rows: Rows) -> Flags:
        """Where there would be no devices even if none was in use."""
        unallocated = [claim for claim in claims if claim.name not in self._published]
        unused = DeviceUsage(self._inventory.devices, self._inventory.counters)
        return np.array(
            [
                self._allocator.allocate(unallocated, row, unused, self.budget, None) is None
                for row in rows.tolist()
            ],
            np.bool_,
        )

    def _free_capacity_on(self, claims: ClaimRequests, row: int, most: int) -> int:
        self._inventory.devices_on(row)
        for claim in claims:
            if claim.name:
                most = min(most, MAX_CONSUMERS - self._count_consumers(claim.name))
                allocation = self.allocation_of(claim.name)
                if allocation is not None and not (
                    self._is_reachable(allocation, row)
                    and self._usage.can_hold(claim.name, allocation)
                    and (claim.name in self._held or not self._is_gpu_blocked(allocation, row))
                ):
                    return 0
        unallocated = self._unallocated(claims)
        if most <= 0 or not unallocated:
            return max(most, 0)
        served = self._allocator.allocate_repeatedly(
            unallocated, row, most, self._usage, self.budget
        )
        return most if served and all(claim.name for claim in unallocated) else len(served)

    def _unallocated(self, claims: ClaimRequests) -> list[ClaimRequest]:
        return [
            claim for claim in claims if not claim.name or self.allocation_of(claim.name) is None
        ]
