"""Devices of one node for the claims of one pod after the other."""

from collections.abc import Iterable, Sequence

from kilonova.scheduler.core.dra.allocator import AllocationNode, allocate_claims
from kilonova.scheduler.core.dra.claims import ALL_DEVICES, ClaimAllocation, ClaimRequest
from kilonova.scheduler.core.dra.device_usage import DeviceUsage
from kilonova.scheduler.core.dra.gpu_devices import GpuDevices, GpuMasks, GpuTaker
from kilonova.scheduler.core.dra.inventory import DeviceInventory
from kilonova.scheduler.core.search_budget import SearchBudget

_NONE_TAKEN: GpuMasks = {}


class NodeAllocator:
    """Allocates devices of an inventory, some of which are GPUs."""

    def __init__(self, inventory: DeviceInventory, gpus: GpuDevices) -> None:
        self._inventory = inventory
        self._gpus = gpus

    def allocate(
        self,
        claims: Sequence[ClaimRequest],
        row: int,
        usage: DeviceUsage,
        budget: SearchBudget,
        taken: GpuMasks | None = _NONE_TAKEN,
    ) -> list[ClaimAllocation] | None:
        """Devices for the claims of one pod beside those in use. `taken` are GPUs already
        assigned to pods; with None, whatever pods use."""
        inventory = self._inventory
        if _requests_all_devices(claims) and not inventory.are_pools_complete(row):
            return None
        node = AllocationNode(inventory.node_name(row))
        if inventory.has_gpus:
            node = AllocationNode(
                inventory.node_name(row),
                lambda device: self._gpus.is_blocked(row, device.id, usage, taken),
                lambda device: self._gpus.has_overlap(row, device.id),
            )
        return allocate_claims(
            claims, lambda option: inventory.candidates(option, row), usage, node, budget
        )

    def allocate_repeatedly(
        self,
        claims: Sequence[ClaimRequest],
        row: int,
        most: int,
        usage: DeviceUsage,
        budget: SearchBudget,
        taker: GpuTaker | None = None,
    ) -> list[list[ClaimAllocation]]:
        """Allocations for the claims of one pod after the other, as long as there are devices, and
        with `taker` GPUs of the node beside them. Named claims are allocated once. `usage` is
        unchanged afterwards."""
        served: list[list[ClaimAllocation]] = []
        held: list[tuple[str, ClaimAllocation]] = []
        own = [claim for claim in claims if not claim.name]
        wanted = claims
        while len(served) < most and (wanted or taker is not None):
            taken = _NONE_TAKEN if taker is None else taker.taken
            found = self.allocate(wanted, row, usage, budget, taken) if wanted else []
            if found is None:
                break
            for number, allocation in enumerate(found):
                held.append((f"{len(served)}.{number}", allocation))
                usage.hold(*held[-1])
            if taker is not None and not taker.take(self._gpus.held_masks(row, usage)):
                break
            served.append(found)
            wanted = own
        for claim, allocation in held:
            usage.release(claim, allocation)
        return served


def _requests_all_devices(claims: Iterable[ClaimRequest]) -> bool:
    return any(
        option.count == ALL_DEVICES
        for claim in claims
        for request in claim.requests
        for option in request
    )
