"""Readings of GPUs as the console and `kilonova gpu list` show them. Pure."""

from collections.abc import Sequence

from kilonova.api.gpu.metrics import GpuReading, InstanceReading
from kilonova.gpu.devices.model import Activity, Device, DeviceTelemetry, NodeInventory

_MEBIBYTE = 1 << 20


def build_readings(
    inventory: NodeInventory, telemetry: Sequence[DeviceTelemetry]
) -> tuple[GpuReading, ...]:
    """The readings of the devices that were measured, by index."""
    by_uuid = {each.uuid: each for each in telemetry}
    return tuple(
        _read_device(device, by_uuid[device.uuid])
        for device in inventory.devices
        if device.uuid in by_uuid
    )


def _read_device(device: Device, measured: DeviceTelemetry) -> GpuReading:
    instances = _read_instances(device, measured)
    utilisation = find_utilisation(measured.activity)
    if utilisation is None and device.mig_enabled:
        utilisation = _combine(device, instances)
    return GpuReading(
        device.index,
        utilisation,
        _mebibytes(measured.memory_used_bytes),
        measured.power_watts,
        measured.temperature_celsius,
        instances,
    )


def find_utilisation(activity: Activity) -> float | None:
    """How busy something is: by the SMs that were active where that is measured, else by the time
    in which a kernel ran."""
    found = activity.sm_active if activity.sm_active is not None else activity.gpu
    return None if found is None else round(min(1.0, max(0.0, found)), 3)


def _read_instances(device: Device, measured: DeviceTelemetry) -> tuple[InstanceReading, ...]:
    by_uuid = {each.uuid: each for each in measured.instances}
    return tuple(
        InstanceReading(
            each.profile,
            each.start,
            find_utilisation(found.activity),
            _mebibytes(found.memory_used_bytes),
        )
        for each in device.instances
        if (found := by_uuid.get(each.uuid)) is not None
    )


def _combine(device: Device, instances: Sequence[InstanceReading]) -> float | None:
    """The utilisation of a device in MIG mode: instances count with their part of it, and what is
    not in an instance is idle."""
    if device.geometry is None or all(each.utilisation is None for each in instances):
        return None
    shares = (
        (each.utilisation or 0.0) * (device.geometry.device_share(each.profile) or 0.0)
        for each in instances
    )
    return round(min(1.0, sum(shares)), 3)


def _mebibytes(amount: int | None) -> int | None:
    return None if amount is None else amount // _MEBIBYTE
