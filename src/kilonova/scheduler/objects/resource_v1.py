"""ResourceSlices, DeviceClasses and ResourceClaims (`resource.k8s.io/v1`): the fields that the
scheduler uses or writes again."""

import msgspec

from kilonova.api.json import JsonObject
from kilonova.api.meta import Metadata
from kilonova.kube import Resource
from kilonova.scheduler.objects.core_v1 import NodeSelector, Taint, Toleration

Amount = str | int | float

DELETE_PROTECTION_FINALIZER = "resource.kubernetes.io/delete-protection"
"""The finalizer of an allocated claim."""


class AttributeValue(msgspec.Struct, frozen=True, gc=False):
    """An attribute value of one of these types. Lists, which newer servers support, are not
    decoded."""

    int_: int | None = msgspec.field(default=None, name="int")
    bool_: bool | None = msgspec.field(default=None, name="bool")
    string: str | None = None
    version: str | None = None


class CapacityRequestPolicyRange(msgspec.Struct, frozen=True, gc=False):
    """A range of valid amounts."""

    min: Amount
    max: Amount | None = None
    step: Amount | None = None


class CapacityRequestPolicy(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Which amounts of a capacity can be requested."""

    default: Amount | None = None
    valid_values: tuple[Amount, ...] = ()
    valid_range: CapacityRequestPolicyRange | None = None


class DeviceCapacity(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A capacity of a device."""

    value: Amount
    request_policy: CapacityRequestPolicy | None = None


class CounterValue(msgspec.Struct, frozen=True, gc=False):
    """The value of a counter, or the amount that a device consumes."""

    value: Amount


class CounterSet(msgspec.Struct, frozen=True, gc=False):
    """Counters shared by devices."""

    name: str
    counters: dict[str, CounterValue] = {}


class DeviceCounterConsumption(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The consumption of a device from a counter set."""

    counter_set: str
    counters: dict[str, CounterValue] = {}


class SliceDevice(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A device in a slice."""

    name: str
    attributes: dict[str, AttributeValue] = {}
    capacity: dict[str, DeviceCapacity] = {}
    consumes_counters: tuple[DeviceCounterConsumption, ...] = ()
    node_name: str = ""
    node_selector: NodeSelector | None = None
    all_nodes: bool = False
    taints: tuple[Taint, ...] = ()
    binds_to_node: bool = False
    binding_conditions: tuple[str, ...] = ()
    allow_multiple_allocations: bool = False


class ResourcePool(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The pool of a slice; only slices of the newest generation count."""

    name: str
    generation: int = 0
    resource_slice_count: int = 1


class ResourceSliceSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Devices of a pool or their shared counters, and the nodes where the devices are usable."""

    driver: str
    pool: ResourcePool
    node_name: str = ""
    node_selector: NodeSelector | None = None
    all_nodes: bool = False
    per_device_node_selection: bool = False
    devices: tuple[SliceDevice, ...] = ()
    shared_counters: tuple[CounterSet, ...] = ()


class ResourceSlice(msgspec.Struct, gc=False):
    """Devices published by a driver."""

    metadata: Metadata
    spec: ResourceSliceSpec


class CelDeviceSelector(msgspec.Struct, frozen=True, gc=False):
    """A CEL expression on a device."""

    expression: str


class DeviceSelector(msgspec.Struct, frozen=True, gc=False):
    """A device selector."""

    cel: CelDeviceSelector | None = None


class DeviceClassSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Selectors and configuration of a class."""

    selectors: tuple[DeviceSelector, ...] = ()
    config: tuple[JsonObject, ...] = ()
    extended_resource_name: str = ""


class DeviceClass(msgspec.Struct, gc=False):
    metadata: Metadata
    spec: DeviceClassSpec = DeviceClassSpec()


class CapacityRequirements(msgspec.Struct, frozen=True, gc=False):
    """Requested amounts of each capacity."""

    requests: dict[str, Amount] = {}


class DeviceToleration(Toleration, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """A toleration of device taints."""

    toleration_seconds: int | None = None


class ExactDeviceRequest(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A request for devices of one class."""

    device_class_name: str = ""
    name: str = ""
    """Name of a subrequest; empty for `exactly`, which has the name of its request."""
    selectors: tuple[DeviceSelector, ...] = ()
    allocation_mode: str = "ExactCount"
    count: int = 1
    admin_access: bool = False
    tolerations: tuple[DeviceToleration, ...] = ()
    capacity: CapacityRequirements | None = None


class DeviceRequest(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A request for devices: exactly these, or the first available of several alternatives."""

    name: str
    exactly: ExactDeviceRequest | None = None
    first_available: tuple[ExactDeviceRequest, ...] = ()

    def options(self) -> list[tuple[str, ExactDeviceRequest]]:
        """The alternatives, with their names in an allocation."""
        if self.exactly is not None:
            return [(self.name, self.exactly)]
        return [(f"{self.name}/{each.name}", each) for each in self.first_available]


class DeviceConstraint(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """An attribute that devices must share, or must not."""

    requests: tuple[str, ...] = ()
    match_attribute: str | None = None
    distinct_attribute: str | None = None


class DeviceClaim(msgspec.Struct, frozen=True, gc=False):
    """The devices that a claim requests."""

    requests: tuple[DeviceRequest, ...] = ()
    constraints: tuple[DeviceConstraint, ...] = ()
    config: tuple[JsonObject, ...] = ()


class ResourceClaimSpec(msgspec.Struct, frozen=True, gc=False):
    """The spec of a claim."""

    devices: DeviceClaim = DeviceClaim()


class DeviceRequestAllocationResult(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A device allocated to a claim."""

    request: str
    driver: str
    pool: str
    device: str
    admin_access: bool | None = None
    consumed_capacity: dict[str, Amount] = {}
    share_id: str | None = msgspec.field(default=None, name="shareID")


class DeviceAllocationResult(msgspec.Struct, frozen=True, gc=False):
    """The devices allocated to a claim."""

    results: tuple[DeviceRequestAllocationResult, ...] = ()


class AllocationResult(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """An allocation, and the nodes where it is usable."""

    devices: DeviceAllocationResult = DeviceAllocationResult()
    node_selector: NodeSelector | None = None


class ResourceClaimConsumer(
    msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True
):
    """A consumer of a claim."""

    resource: str
    name: str
    uid: str
    api_group: str = ""


class ResourceClaimStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The allocation of a claim, and its consumers."""

    allocation: AllocationResult | None = None
    reserved_for: tuple[ResourceClaimConsumer, ...] = ()


class ResourceClaim(msgspec.Struct, gc=False):
    metadata: Metadata
    spec: ResourceClaimSpec = ResourceClaimSpec()
    status: ResourceClaimStatus = ResourceClaimStatus()

    @property
    def key(self) -> str:
        return f"{self.metadata.namespace}/{self.metadata.name}"

    def is_reserved_for(self, uid: str) -> bool:
        return any(each.uid == uid for each in self.status.reserved_for)


_GROUP = "resource.k8s.io"
RESOURCE_SLICES = Resource(_GROUP, "v1", "resourceslices", "ResourceSlice", False, ResourceSlice)
DEVICE_CLASSES = Resource(_GROUP, "v1", "deviceclasses", "DeviceClass", False, DeviceClass)
RESOURCE_CLAIMS = Resource(_GROUP, "v1", "resourceclaims", "ResourceClaim", True, ResourceClaim)
