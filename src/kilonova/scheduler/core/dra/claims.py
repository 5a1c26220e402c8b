"""Devices that drivers publish, and claims for them.

A **device** has attributes, capacity and taints, and may consume **counters** that it shares with
other devices: a whole GPU and its slices consume the same ones. A **claim** has requests; each
request lists **options** (firstAvailable), of which the first feasible one is taken. The
**allocation** of a claim also specifies where the devices can be used. Amounts are in billionths of
a unit.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from kilonova.scheduler.core.gpu.identity import GpuReference
from kilonova.scheduler.core.model.requirements import NodeSelectorTerm
from kilonova.scheduler.core.model.taints import Taint, Toleration

MAX_DEVICES_PER_CLAIM = 32
"""Maximum number of devices in one allocation (Kubernetes' limit)."""
MAX_CONSUMERS = 256
"""Maximum number of pods that may use one claim (Kubernetes' limit)."""
ALL_DEVICES = 0
"""As a count: every device that matches."""

T = TypeVar("T")


class DeviceId(NamedTuple):
    """Identity of a device; names are unique within a pool of a driver."""

    driver: str
    pool: str
    name: str


class SharedCounter(NamedTuple):
    """One counter of a set that devices of a pool consume."""

    driver: str
    pool: str
    set: str
    name: str


class DeviceAttribute(NamedTuple):
    """Value of a device attribute: values of different types are never equal."""

    kind: str
    value: bool | int | str


@dataclass(frozen=True, slots=True)
class ConsumableCapacity:
    """A capacity of a device, and which amounts of it can be requested (consumable capacity)."""

    value: int
    default: int | None = None
    minimum: int | None = None
    maximum: int | None = None
    step: int | None = None
    values: tuple[int, ...] = ()
    """The only valid amounts, in ascending order."""

    def amount_consumed(self, requested: int | None) -> int | None:
        """The amount that a request really consumes; None if it cannot be met."""
        if requested is None:
            return self.value if self.default is None else self.default
        if requested == self.default:
            return requested
        amount = self._round_up(requested)
        if self.maximum is not None and amount > self.maximum:
            return None
        return None if self.values and amount not in self.values else amount

    def _round_up(self, requested: int) -> int:
        if self.values:
            return next((each for each in self.values if requested <= each), requested)
        if self.minimum is None:
            return requested
        if requested <= self.minimum or not self.step:
            return max(requested, self.minimum)
        return self.minimum + -(-(requested - self.minimum) // self.step) * self.step


@dataclass(frozen=True, slots=True)
class Device:
    """A device. It can be used on `node`, else where one of `terms` matches, else everywhere."""

    id: DeviceId
    node: str = ""
    terms: tuple[NodeSelectorTerm, ...] = ()
    attributes: Mapping[str, DeviceAttribute] = field(default_factory=dict[str, DeviceAttribute])
    capacity: Mapping[str, ConsumableCapacity] = field(
        default_factory=dict[str, ConsumableCapacity]
    )
    taints: tuple[Taint, ...] = ()
    consumes: tuple[tuple[SharedCounter, int], ...] = ()
    shared: bool = False
    """Several claims may each have a part of its capacity."""
    binds_to_node: bool = False
    """Once allocated it can be used only on the node of its first consumer."""
    gpu: GpuReference | None = None
    """The GPU of a node that it is, or is a part of."""

    def attribute(self, name: str) -> DeviceAttribute | None:
        return find_qualified(self.attributes, name, self.id.driver)


def find_qualified(known: Mapping[str, T], name: str, driver: str) -> T | None:
    """The value under a name; a name without domain is one of the driver's own."""
    found = known.get(name)
    if found is not None:
        return found
    domain, stroke, plain = name.partition("/")
    if not stroke:
        return known.get(f"{driver}/{name}")
    return known.get(plain) if domain == driver else None


@dataclass(frozen=True, slots=True)
class DeviceRequestOption:
    """Devices that satisfy a request: a number of them that match all selectors.

    With `admin`, devices are allocated regardless of other consumers (adminAccess).
    """

    name: str
    selectors: tuple[str, ...] = ()
    count: int = 1
    admin: bool = False
    tolerations: tuple[Toleration, ...] = ()
    capacity: tuple[tuple[str, int], ...] = ()
    resource: str = ""
    """The resource as which a device of it is charged in queues; nothing if empty."""


@dataclass(frozen=True, slots=True)
class AttributeConstraint:
    """Devices of some requests, or all, have equal values of an attribute, or all distinct ones."""

    attribute: str
    requests: tuple[str, ...] = ()
    distinct: bool = False

    def applies_to(self, option: str) -> bool:
        """Whether the constraint applies to the devices of an option."""
        request = option.partition("/")[0]
        return not self.requests or option in self.requests or request in self.requests


@dataclass(frozen=True, slots=True)
class ClaimRequest:
    """What a claim requests.

    A claim that a pod has for itself (from a template), without an allocation, has no name here:
    pods with equal requests have equal shapes. Others are known by their name, NAMESPACE/NAME.
    """

    requests: tuple[tuple[DeviceRequestOption, ...], ...] = ()
    constraints: tuple[AttributeConstraint, ...] = ()
    name: str = ""


@dataclass(frozen=True, slots=True)
class AllocatedDevice:
    """A device of an allocation or, of a shared device, the part of its capacity."""

    option: str
    device: DeviceId
    admin: bool = False
    consumed: tuple[tuple[str, int], ...] = ()
    share: str = field(default="", compare=False)
    """Id of the part of a shared device (shareID)."""


@dataclass(frozen=True, slots=True)
class ClaimAllocation:
    """The devices of a claim, and where they can be used: on `node`, else where the term matches,
    else everywhere."""

    devices: tuple[AllocatedDevice, ...] = ()
    node: str = ""
    terms: tuple[NodeSelectorTerm, ...] = ()
