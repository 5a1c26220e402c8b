"""The topology annotation of a node, from its inventory. Pure."""

from collections.abc import Mapping

from msgspec.structs import replace

from kilonova.api.gpu.annotations import Gpu, MigInstance, ReportedMigProfile, Topology
from kilonova.api.gpu.health import HealthRecord
from kilonova.catalog.mig import MigGeometry, geometry_named
from kilonova.gpu.devices.model import Device, HealthState, NodeInventory, PathKind
from kilonova.gpu.devices.paths import port_bandwidth

MAX_DESCRIBED_DEVICES = 64
_USABLE = frozenset({HealthState.HEALTHY, HealthState.DEGRADED})


def build_topology(
    inventory: NodeInventory,
    health: Mapping[str, HealthRecord],
    withheld: Mapping[str, str] | None = None,
) -> Topology:
    """The content of the annotation. What is the same in all devices is stated once. `withheld` are
    the reasons why pods get only MIG instances of devices, by UUID."""
    devices = inventory.devices[:MAX_DESCRIBED_DEVICES]
    reasons = withheld or {}
    gpus = tuple(
        _describe(device, unhealthy_reason(device, health), reasons.get(device.uuid, ""))
        for device in devices
    )
    geometries = {
        each.geometry.name: _list_profiles(each.geometry)
        for each in devices
        if each.geometry is not None and geometry_named(each.geometry.name) != each.geometry
    }
    first = gpus[0] if gpus else Gpu()
    return Topology(
        tuple(_without_defaults(gpu, first) for gpu in gpus),
        _list_links(inventory, len(devices)),
        first.product or "",
        first.memory or 0,
        first.architecture or "",
        first.port or 0,
        first.mig or "",
        geometries,
        first.sms or 0,
    )


def unhealthy_reason(device: Device, health: Mapping[str, HealthRecord]) -> str:
    """Why no pod may get a device; empty if one may."""
    record = health.get(device.uuid)
    if record is not None and record.is_unhealthy:
        return record.reason
    if device.health.state in _USABLE:
        return ""
    return device.health.reasons[0] if device.health.reasons else "its health cannot be read"


def product_label(product: str) -> str:
    """A product name as GPU feature discovery writes it: `NVIDIA-H200`."""
    return product.replace(" ", "-")


def _describe(device: Device, problem: str, withheld: str) -> Gpu:
    return Gpu(
        device.uuid,
        product_label(device.product),
        device.memory_mib,
        device.architecture,
        port_bandwidth(device) if any(each.is_switch for each in device.nvlinks) else 0,
        "" if device.geometry is None else device.geometry.name,
        device.numa,
        device.pcie_switch,
        not problem,
        device.pci,
        device.sms or 0,
        device.mig_enabled,
        tuple(
            MigInstance(each.uuid, each.profile, each.start)
            for each in device.instances
            if not each.is_partial
        ),
        problem,
        withheld,
    )


def _without_defaults(gpu: Gpu, first: Gpu) -> Gpu:
    return replace(
        gpu,
        product=None if gpu.product == first.product else gpu.product,
        memory=None if gpu.memory == first.memory else gpu.memory,
        architecture=None if gpu.architecture == first.architecture else gpu.architecture,
        port=None if gpu.port == first.port else gpu.port,
        mig=None if gpu.mig == first.mig else gpu.mig,
        sms=None if gpu.sms == first.sms else gpu.sms,
    )


def _list_links(inventory: NodeInventory, count: int) -> tuple[tuple[int, int, int], ...]:
    """Direct NVLinks. They exist also while a device is in MIG mode and does not use them."""
    return tuple(
        (path.first, path.second, path.bandwidth)
        for path in inventory.paths
        if path.kind is PathKind.NVLINK and not path.is_switched and path.second < count
    )


def _list_profiles(geometry: MigGeometry) -> tuple[ReportedMigProfile, ...]:
    return tuple(
        ReportedMigProfile(
            each.name, each.slices, each.starts, each.limit, each.compute, each.extended
        )
        for each in geometry.profiles
    )
