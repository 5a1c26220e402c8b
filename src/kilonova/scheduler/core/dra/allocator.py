"""Finds devices for all claims of a pod on one node.

The search is complete: options in the order in which they are listed, for each the devices one by
one, with backtracking. Equivalent devices are tried once. Beyond a number of free steps, each
device tried without success costs a step of a budget; once that is exceeded, the search fails.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kilonova.scheduler.core.dra.claims import (
    ALL_DEVICES,
    MAX_DEVICES_PER_CLAIM,
    AllocatedDevice,
    AttributeConstraint,
    ClaimAllocation,
    ClaimRequest,
    Device,
    DeviceId,
    DeviceRequestOption,
)
from kilonova.scheduler.core.dra.device_usage import CapacityAmounts, DeviceUsage
from kilonova.scheduler.core.model.requirements import NodeSelectorTerm, Requirement
from kilonova.scheduler.core.search_budget import SearchBudget

_FREE_STEPS = 128
"""Number of devices tried at no cost: some are always in use, or do not match."""
_MAX_DEPTH = 400
"""Maximum of devices and requests of one pod: each is a level of recursion."""


@dataclass(frozen=True, slots=True)
class CandidateDevice:
    """A device that matches an option, and what of a shared one would be consumed."""

    device: Device
    amounts: CapacityAmounts = ()


@dataclass(frozen=True, slots=True)
class AllocationNode:
    """The node of a search: its name, and which devices of it are GPUs in use otherwise."""

    name: str
    is_blocked: Callable[[Device], bool] = lambda _device: False
    """Whether the GPU of a device is in use otherwise, given the devices held so far."""
    has_overlap: Callable[[Device], bool] = lambda _device: False
    """Whether other devices are parts of the same GPU."""


CandidateLookup = Callable[[DeviceRequestOption], Sequence[CandidateDevice]]
"""The devices of a node that match an option, whether free or not."""


def allocate_claims(
    claims: Sequence[ClaimRequest],
    candidates: CandidateLookup,
    usage: DeviceUsage,
    node: AllocationNode,
    budget: SearchBudget,
) -> list[ClaimAllocation] | None:
    """Devices for each of some claims on a node; None if not all claims can be allocated. `usage`
    is unchanged afterwards."""
    return _AllocationSearch(claims, candidates, usage, node, budget).find_allocations()


EquivalenceKey = tuple[object, ...]


class _AllocationSearch:
    """One search. `_chosen` are the devices of each claim so far."""

    def __init__(
        self,
        claims: Sequence[ClaimRequest],
        candidates: CandidateLookup,
        usage: DeviceUsage,
        node: AllocationNode,
        budget: SearchBudget,
    ) -> None:
        self._claims = claims
        self._usage = usage
        self._node = node
        self._budget = budget
        self._free_steps = _FREE_STEPS
        self._chosen: list[list[tuple[AllocatedDevice, Device]]] = [[] for _ in claims]
        self._candidates = {
            option: _sort_used_first(candidates(option), usage)
            for claim in claims
            for request in claim.requests
            for option in request
        }
        self._options_by_device: dict[DeviceId, EquivalenceKey] | None = None

    def find_allocations(self) -> list[ClaimAllocation] | None:
        if self._depth() > _MAX_DEPTH:
            self._budget.exceeded = True
            return None
        if not self._satisfy_request(0, 0):
            return None
        found: list[ClaimAllocation] = []
        for claim, chosen in enumerate(self._chosen):
            for allocated, _ in reversed(chosen):
                self._usage.remove_device(_holder_key(claim), allocated)
            found.append(_build_allocation(chosen, self._node.name))
        return found

    def _depth(self) -> int:
        """Maximum depth of recursion."""
        requests = [request for claim in self._claims for request in claim.requests]
        devices = sum(max(self._device_count(option) for option in request) for request in requests)
        return devices + len(requests) + len(self._claims)

    def _device_count(self, option: DeviceRequestOption) -> int:
        return option.count if option.count != ALL_DEVICES else len(self._candidates[option])

    def _satisfy_request(self, claim: int, request: int) -> bool:
        """Allocates all requests from this one on."""
        if claim == len(self._claims):
            return True
        claim_request = self._claims[claim]
        if request == len(claim_request.requests):
            return self._satisfy_request(claim + 1, 0)
        for option in claim_request.requests[request]:
            count = self._device_count(option)
            if count and self._choose_devices(claim, request, option, 0, count):
                return True
        return False

    def _choose_devices(
        self, claim: int, request: int, option: DeviceRequestOption, start: int, missing: int
    ) -> bool:
        """Allocates `missing` more devices for an option, and all requests after it."""
        if not missing:
            return self._satisfy_request(claim, request + 1)
        if len(self._chosen[claim]) + missing > MAX_DEVICES_PER_CLAIM:
            return False
        candidates = self._candidates[option]
        failed: set[EquivalenceKey] = set()
        for index in range(start, len(candidates) - missing + 1):
            candidate = candidates[index]
            if failed and self._equivalence_key(candidate.device) in failed:
                continue
            if not self._try_take(claim, option, candidate):
                if not self._spend():
                    return False
                continue
            if self._choose_devices(claim, request, option, index + 1, missing - 1):
                return True
            allocated, device = self._chosen[claim].pop()
            self._usage.remove_device(_holder_key(claim), allocated)
            if not self._spend():
                return False
            failed.add(self._equivalence_key(device))
        return False

    def _spend(self) -> bool:
        if self._free_steps:
            self._free_steps -= 1
            return True
        return self._budget.spend()

    def _try_take(
        self, claim: int, option: DeviceRequestOption, candidate: CandidateDevice
    ) -> bool:
        device, chosen = candidate.device, self._chosen[claim]
        if not device.shared and any(allocated.device == device.id for allocated, _ in chosen):
            return False
        if not option.admin and (
            not self._usage.has_capacity(device, candidate.amounts) or self._node.is_blocked(device)
        ):
            return False
        for constraint in self._claims[claim].constraints:
            if not _satisfies_constraint(constraint, option, device, chosen):
                return False
        allocated = AllocatedDevice(option.name, device.id, option.admin, candidate.amounts)
        self._usage.add_device(_holder_key(claim), allocated)
        chosen.append((allocated, device))
        return True

    def _equivalence_key(self, device: Device) -> EquivalenceKey:
        """Equal for devices that are interchangeable in this search."""
        if device.consumes or device.shared or self._node.has_overlap(device):
            return device.id
        if self._options_by_device is None:
            self._options_by_device = self._find_options_by_device()
        names = {each.attribute for claim in self._claims for each in claim.constraints}
        attributes = tuple(device.attribute(name) for name in sorted(names))
        return self._options_by_device[device.id], self._usage.is_in_use(device), attributes

    def _find_options_by_device(self) -> dict[DeviceId, EquivalenceKey]:
        """By device, the options that it matches."""
        options: dict[DeviceId, EquivalenceKey] = {}
        for number, candidates in enumerate(self._candidates.values()):
            for candidate in candidates:
                known = options.get(candidate.device.id, ())
                options[candidate.device.id] = (*known, number)
        return options


def _holder_key(claim: int) -> str:
    """Key of a claim of this search among the holders of devices; names of real claims contain a
    slash."""
    return str(claim)


def _sort_used_first(
    candidates: Sequence[CandidateDevice], usage: DeviceUsage
) -> Sequence[CandidateDevice]:
    """Devices that are partly in use come first, so that others stay whole."""
    if not any(each.device.consumes or each.device.shared for each in candidates):
        return candidates
    return sorted(candidates, key=lambda each: not usage.is_in_use(each.device))


def _satisfies_constraint(
    constraint: AttributeConstraint,
    option: DeviceRequestOption,
    device: Device,
    chosen: Sequence[tuple[AllocatedDevice, Device]],
) -> bool:
    """Whether a device meets a constraint together with those chosen before."""
    if not constraint.applies_to(option.name):
        return True
    value = device.attribute(constraint.attribute)
    if value is None:
        return False
    others = (
        other.attribute(constraint.attribute)
        for allocated, other in chosen
        if constraint.applies_to(allocated.option)
    )
    if constraint.distinct:
        return all(value != other for other in others)
    return all(value == other for other in others)


def _build_allocation(
    chosen: Sequence[tuple[AllocatedDevice, Device]], node: str
) -> ClaimAllocation:
    """Where all the devices can be used: on their node, else where all their node selectors
    match."""
    devices = tuple(allocated for allocated, _ in chosen)
    labels: dict[Requirement, None] = {}
    names: dict[Requirement, None] = {}
    for _, device in chosen:
        if device.node or device.binds_to_node:
            return ClaimAllocation(devices, node)
        for term in device.terms:
            labels.update(dict.fromkeys(term.labels))
            names.update(dict.fromkeys(term.names))
    terms = (NodeSelectorTerm(tuple(labels), tuple(names)),) if labels or names else ()
    return ClaimAllocation(devices, terms=terms)
