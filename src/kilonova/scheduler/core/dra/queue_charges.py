"""What claimed devices are charged in queues.

A device is charged as one of the resource of its device class, and not at all with adminAccess.
Without an allocation, a request is charged the maximum over its options; a request for all devices
of a node is charged one, as their number is unknown. With an allocation, every device is charged.

A claim that several pods use is charged once, to the first of them that is still placed.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kilonova.catalog.resource_names import GPU
from kilonova.scheduler.core.dra.claims import (
    ALL_DEVICES,
    ClaimAllocation,
    ClaimRequest,
    DeviceRequestOption,
)
from kilonova.scheduler.core.gpu.layout import MILLI_PER_GPU
from kilonova.scheduler.core.model.pod_placement import PodPlacement
from kilonova.scheduler.core.queueing.queues import ResourceAmounts


def requested_charges(claim: ClaimRequest) -> ResourceAmounts:
    """What a claim without an allocation is charged in a queue."""
    total: dict[str, int] = {}
    for request in claim.requests:
        most: dict[str, int] = {}
        for option in request:
            if option.resource and not option.admin:
                count = 1 if option.count == ALL_DEVICES else option.count
                most[option.resource] = max(
                    most.get(option.resource, 0), count * _charge_unit(option)
                )
        _add_amounts(total, most)
    return total


def allocated_charges(claim: ClaimRequest, allocation: ClaimAllocation | None) -> ResourceAmounts:
    """What a claim is charged in a queue for its allocated devices."""
    if allocation is None:
        return requested_charges(claim)
    options = {option.name: option for request in claim.requests for option in request}
    total: dict[str, int] = {}
    for allocated in allocation.devices:
        option = options.get(allocated.option)
        if option is not None and option.resource and not allocated.admin:
            _add_amounts(total, {option.resource: _charge_unit(option)})
    return total


def charges_by_claim(placement: PodPlacement) -> Iterator[tuple[str, ResourceAmounts]]:
    """What each claim of a pod is charged, and its name, if other pods may use it too."""
    requests = placement.shape.claims
    allocations = placement.claims or (None,) * len(requests)
    for claim, allocation in zip(requests, allocations, strict=True):
        yield claim.name, allocated_charges(claim, allocation)


@dataclass(frozen=True, slots=True)
class ChargedPod:
    """A pod to which a shared claim is charged."""

    gang: str
    pod: str
    amounts: ResourceAmounts


class ClaimSharers:
    """The users of named claims, in the order in which they were placed."""

    def __init__(self) -> None:
        self._users: dict[str, dict[str, ChargedPod]] = {}
        self._claims: dict[str, list[str]] = {}

    def copy(self) -> "ClaimSharers":
        """An independent copy."""
        other = ClaimSharers()
        other._users = {claim: dict(users) for claim, users in self._users.items()}
        other._claims = {pod: list(claims) for pod, claims in self._claims.items()}
        return other

    def uses_shared_claim(self, pod: str) -> bool:
        """Whether a pod uses a named claim."""
        return pod in self._claims

    def is_charged(self, claim: str) -> bool:
        """Whether a claim is charged to some pod."""
        return claim in self._users

    def add_user(self, claim: str, gang: str, pod: str, amounts: ResourceAmounts) -> None:
        """Adds a user of a claim."""
        self._users.setdefault(claim, {})[pod] = ChargedPod(gang, pod, amounts)
        self._claims.setdefault(pod, []).append(claim)

    def remove_user(self, pod: str) -> list[ChargedPod]:
        """Removes a user; returns the pods to which its claims are charged instead."""
        found: list[ChargedPod] = []
        for claim in self._claims.pop(pod, ()):
            users = self._users[claim]
            counted = next(iter(users)) == pod
            del users[pod]
            if not users:
                del self._users[claim]
            elif counted:
                found.append(next(iter(users.values())))
        return found


def _charge_unit(option: DeviceRequestOption) -> int:
    return MILLI_PER_GPU if option.resource == GPU else 1


def _add_amounts(total: dict[str, int], more: Mapping[str, int]) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount
