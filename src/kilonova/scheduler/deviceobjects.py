"""Devices, classes of them and claims to them, as the API has them (`resource.k8s.io/v1`): what
the scheduler decides by, and what it has to write down again."""

import msgspec

from kilonova.api.json import JsonObject
from kilonova.api.meta import Metadata
from kilonova.kube import Resource
from kilonova.scheduler.objects import NodeSelector, Taint, Toleration

Amount = str | int | float

PROTECTION = "resource.kubernetes.io/delete-protection"
"""The finalizer of a claim that has devices."""


class AttributeValue(msgspec.Struct, frozen=True, gc=False):
    """A value of one of these kinds. Lists, which newer servers know, are not read."""

    int_: int | None = msgspec.field(default=None, name="int")
    bool_: bool | None = msgspec.field(default=None, name="bool")
    string: str | None = None
    version: str | None = None


class CapacityRange(msgspec.Struct, frozen=True, gc=False):
    """Amounts that can be asked for."""

    min: Amount
    max: Amount | None = None
    step: Amount | None = None


class RequestPolicy(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """How much of a capacity can be asked for."""

    default: Amount | None = None
    valid_values: tuple[Amount, ...] = ()
    valid_range: CapacityRange | None = None


class DeviceCapacity(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """How much there is of something."""

    value: Amount
    request_policy: RequestPolicy | None = None


class CounterValue(msgspec.Struct, frozen=True, gc=False):
    """How much a counter has, or a device draws."""

    value: Amount


class CounterSet(msgspec.Struct, frozen=True, gc=False):
    """Counters that devices share."""

    name: str
    counters: dict[str, CounterValue] = {}


class CounterConsumption(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What a device draws of a set of counters."""

    counter_set: str
    counters: dict[str, CounterValue] = {}


class SliceDevice(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A device."""

    name: str
    attributes: dict[str, AttributeValue] = {}
    capacity: dict[str, DeviceCapacity] = {}
    consumes_counters: tuple[CounterConsumption, ...] = ()
    node_name: str = ""
    node_selector: NodeSelector | None = None
    all_nodes: bool = False
    taints: tuple[Taint, ...] = ()
    binds_to_node: bool = False
    binding_conditions: tuple[str, ...] = ()
    allow_multiple_allocations: bool = False


class SlicePool(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Which pool a slice is of; only slices of the newest generation count."""

    name: str
    generation: int = 0
    resource_slice_count: int = 1


class SliceSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Some devices of a pool, or counters of its devices, and where the devices can be used."""

    driver: str
    pool: SlicePool
    node_name: str = ""
    node_selector: NodeSelector | None = None
    all_nodes: bool = False
    per_device_node_selection: bool = False
    devices: tuple[SliceDevice, ...] = ()
    shared_counters: tuple[CounterSet, ...] = ()


class ResourceSlice(msgspec.Struct, gc=False):
    """A part of what a driver publishes."""

    metadata: Metadata
    spec: SliceSpec


class CelSelector(msgspec.Struct, frozen=True, gc=False):
    """A condition on a device."""

    expression: str


class DeviceSelector(msgspec.Struct, frozen=True, gc=False):
    """What devices must be like."""

    cel: CelSelector | None = None


class ClassSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What devices of a class are like, and how they are set up."""

    selectors: tuple[DeviceSelector, ...] = ()
    config: tuple[JsonObject, ...] = ()
    extended_resource_name: str = ""


class DeviceClass(msgspec.Struct, gc=False):
    """A class of devices."""

    metadata: Metadata
    spec: ClassSpec = ClassSpec()


class CapacityRequests(msgspec.Struct, frozen=True, gc=False):
    """How much of each capacity is asked for."""

    requests: dict[str, Amount] = {}


class DeviceToleration(Toleration, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """A taint of a device that is put up with."""

    toleration_seconds: int | None = None


class ExactRequest(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Devices of one class."""

    device_class_name: str = ""
    name: str = ""
    """Of one of several that would do; a single one is named by its request."""
    selectors: tuple[DeviceSelector, ...] = ()
    allocation_mode: str = "ExactCount"
    count: int = 1
    admin_access: bool = False
    tolerations: tuple[DeviceToleration, ...] = ()
    capacity: CapacityRequests | None = None


class DeviceRequest(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Devices that are asked for: exactly these, or the first of some that are available."""

    name: str
    exactly: ExactRequest | None = None
    first_available: tuple[ExactRequest, ...] = ()

    def options(self) -> list[tuple[str, ExactRequest]]:
        """What would do, and what it is called in an allocation."""
        if self.exactly is not None:
            return [(self.name, self.exactly)]
        return [(f"{self.name}/{each.name}", each) for each in self.first_available]


class DeviceConstraint(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What devices must have in common, or must not."""

    requests: tuple[str, ...] = ()
    match_attribute: str | None = None
    distinct_attribute: str | None = None


class DeviceClaim(msgspec.Struct, frozen=True, gc=False):
    """What a claim asks for."""

    requests: tuple[DeviceRequest, ...] = ()
    constraints: tuple[DeviceConstraint, ...] = ()
    config: tuple[JsonObject, ...] = ()


class ClaimSpec(msgspec.Struct, frozen=True, gc=False):
    """What a claim asks for."""

    devices: DeviceClaim = DeviceClaim()


class DeviceResult(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A device that a claim has."""

    request: str
    driver: str
    pool: str
    device: str
    admin_access: bool | None = None
    consumed_capacity: dict[str, Amount] = {}
    share_id: str | None = msgspec.field(default=None, name="shareID")


class DeviceResults(msgspec.Struct, frozen=True, gc=False):
    """The devices that a claim has."""

    results: tuple[DeviceResult, ...] = ()


class AllocationResult(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What a claim has, and where it can be used."""

    devices: DeviceResults = DeviceResults()
    node_selector: NodeSelector | None = None


class Consumer(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """Who uses a claim."""

    resource: str
    name: str
    uid: str
    api_group: str = ""


class ClaimStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What a claim has, and for whom."""

    allocation: AllocationResult | None = None
    reserved_for: tuple[Consumer, ...] = ()


class ResourceClaim(msgspec.Struct, gc=False):
    """A claim of devices."""

    metadata: Metadata
    spec: ClaimSpec = ClaimSpec()
    status: ClaimStatus = ClaimStatus()

    @property
    def key(self) -> str:
        return f"{self.metadata.namespace}/{self.metadata.name}"

    def is_reserved_for(self, uid: str) -> bool:
        return any(each.uid == uid for each in self.status.reserved_for)


_GROUP = "resource.k8s.io"
SLICES = Resource(_GROUP, "v1", "resourceslices", "ResourceSlice", False, ResourceSlice)
CLASSES = Resource(_GROUP, "v1", "deviceclasses", "DeviceClass", False, DeviceClass)
CLAIMS = Resource(_GROUP, "v1", "resourceclaims", "ResourceClaim", True, ResourceClaim)
