"""The ResourceSlices of a node, from its inventory. Pure.

What the API server cannot express is not published: without counters only what exists now, so that
nothing is given away twice; without taints no unhealthy device, and no whole GPU that is withheld.
"""

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from kilonova.api.gpu import slices as gpu_slices
from kilonova.api.gpu.annotations import DeviceAssignment
from kilonova.api.gpu.health import UNHEALTHY_TAINT
from kilonova.api.json import JsonObject
from kilonova.catalog.mig import MEMORY_SLICES, MigProfile
from kilonova.gpu.devices.model import Device, HealthState, NodeInventory
from kilonova.gpu.dra.attributes import (
    device_attributes,
    device_capacity,
    instance_attributes,
    instance_capacity,
)

WITHHELD_TAINT = "gpu.kilonova.dev/withheld"
"""Of a whole GPU that is to be partitioned."""


class SliceFeatures(msgspec.Struct, frozen=True):
    """What the API server accepts in ResourceSlices, and what is to be published."""

    counters: bool = True
    """Partitionable devices: MIG instances that do not exist yet."""
    taints: bool = True


class PoolDevice(msgspec.Struct, frozen=True):
    """A device of the pool, and what it is of the node's GPUs."""

    name: str
    device: Device
    assignment: DeviceAssignment
    profile: MigProfile | None = None
    uuid: str = ""
    """Of an instance that exists."""

    @property
    def is_withheld(self) -> bool:
        """Whether it is a whole GPU that is given as MIG instances only."""
        return self.profile is None and bool(self.device.withheld)


def list_pool_devices(
    inventory: NodeInventory, features: SliceFeatures | None = None
) -> Mapping[str, PoolDevice]:
    """The devices of the node's pool by name, unhealthy ones included."""
    found: dict[str, PoolDevice] = {}
    for device in inventory.devices:
        for each in _list_devices(device, features or SliceFeatures()):
            found[each.name] = each
    return found


def build_resource_slices(
    node: str,
    node_uid: str,
    driver: str,
    inventory: NodeInventory,
    *,
    features: SliceFeatures | None = None,
    pcie_roots: Mapping[str, str] | None = None,
    generation: int = 1,
) -> list[JsonObject]:
    """The slices of the node's pool: the counters, then the devices. `pcie_roots` are by PCI
    address."""
    chosen = features or SliceFeatures()
    roots = pcie_roots or {}
    devices = [
        _encode(inventory, each, chosen, roots)
        for each in list_pool_devices(inventory, chosen).values()
        if chosen.taints or not (_is_unhealthy(each.device) or each.is_withheld)
    ]
    counters = _build_counter_sets(inventory.devices) if chosen.counters else []
    return gpu_slices.build_pool(driver, node, node_uid, devices, counters, generation=generation)


def build_device_classes(driver: str) -> list[JsonObject]:
    """The classes of whole GPUs and of MIG instances."""
    return [
        gpu_slices.build_device_class(driver, driver, "gpu"),
        gpu_slices.build_device_class(f"mig.{driver.partition('.')[2]}", driver, "mig"),
    ]


def _list_devices(device: Device, features: SliceFeatures) -> Iterator[PoolDevice]:
    if features.counters or not device.mig_enabled:
        name = gpu_slices.gpu_device_name(device.index)
        yield PoolDevice(name, device, DeviceAssignment(device.index))
    existing = {(each.profile, each.start): each.uuid for each in device.instances}
    for profile in device.geometry.profiles if device.geometry is not None else ():
        for start in profile.starts:
            uuid = existing.get((profile.name, start), "")
            if features.counters or uuid:
                name = gpu_slices.mig_device_name(
                    device.index,
                    profile.name,
                    start,
                    compute=profile.compute,
                    slices=profile.slices,
                    extended=profile.extended,
                )
                assignment = DeviceAssignment(device.index, 0, profile.name, start)
                yield PoolDevice(name, device, assignment, profile, uuid)


def _encode(
    inventory: NodeInventory,
    each: PoolDevice,
    features: SliceFeatures,
    pcie_roots: Mapping[str, str],
) -> JsonObject:
    device, profile = each.device, each.profile
    counters: JsonObject = {}
    if profile is None:
        attributes = device_attributes(inventory, device, pcie_roots)
        capacity = device_capacity(device)
        if features.counters and device.geometry is not None:
            counters = _all_counters(device)
    else:
        start = each.assignment.start
        # The UUID is not published with counters: an instance comes and goes with its claims, and
        # each change would be a new generation of the pool.
        uuid = "" if features.counters else each.uuid
        attributes = instance_attributes(inventory, device, profile, start, pcie_roots, uuid)
        capacity = instance_capacity(device, profile)
        if features.counters:
            slices = range(start, start + profile.slices)
            counters = gpu_slices.slice_counters(slices, profile.extended)
    taints = _build_taints(each) if features.taints else []
    return gpu_slices.build_device(each.name, attributes, capacity, device.index, counters, taints)


def _build_counter_sets(devices: Sequence[Device]) -> list[JsonObject]:
    return [
        {"name": gpu_slices.counter_set_name(each.index), "counters": _all_counters(each)}
        for each in devices
        if each.geometry is not None
    ]


def _all_counters(device: Device) -> JsonObject:
    """What a whole GPU with MIG has: the slices that its profiles can reach."""
    profiles = device.geometry.profiles if device.geometry is not None else ()
    last = max((max(p.starts) + p.slices for p in profiles), default=MEMORY_SLICES)
    return gpu_slices.slice_counters(range(last), any(each.extended for each in profiles))


def _build_taints(each: PoolDevice) -> list[JsonObject]:
    """No pod starts on an unhealthy device, or on all of one that is to be partitioned; those on it
    are the agent's concern."""
    taints: list[JsonObject] = []
    if _is_unhealthy(each.device):
        value = "transient" if each.device.health.is_transient else "permanent"
        taints.append({"key": UNHEALTHY_TAINT, "value": value, "effect": "NoSchedule"})
    if each.is_withheld:
        taints.append({"key": WITHHELD_TAINT, "effect": "NoSchedule"})
    return taints


def _is_unhealthy(device: Device) -> bool:
    return device.health.state is HealthState.UNHEALTHY
