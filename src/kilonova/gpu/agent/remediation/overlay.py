"""The inventory as pods should see it: with what the records report of health, and with the devices
that are to be partitioned. Pure."""

from collections.abc import Mapping

from msgspec.structs import replace

from kilonova.api.gpu.health import HealthRecord
from kilonova.gpu.devices.model import Device, DeviceHealth, HealthState, NodeInventory


def overlay_health(inventory: NodeInventory, records: Mapping[str, HealthRecord]) -> NodeInventory:
    """The inventory in which devices with a record are as healthy as it states."""
    if not records:
        return inventory
    return replace(
        inventory,
        devices=tuple(_overlay(each, records.get(each.uuid)) for each in inventory.devices),
    )


def overlay_measured(
    inventory: NodeInventory, measured: Mapping[str, DeviceHealth]
) -> NodeInventory:
    """The inventory in which devices that call themselves healthy are as healthy as their
    telemetry says."""
    if not measured:
        return inventory
    return replace(
        inventory,
        devices=tuple(
            replace(each, health=measured[each.uuid])
            if each.uuid in measured and each.health.state is HealthState.HEALTHY
            else each
            for each in inventory.devices
        ),
    )


def overlay_withheld(inventory: NodeInventory, withheld: Mapping[str, str]) -> NodeInventory:
    """The inventory in which devices are withheld for these reasons, by UUID."""
    if not withheld:
        return inventory
    return replace(
        inventory,
        devices=tuple(
            replace(each, withheld=withheld[each.uuid]) if each.uuid in withheld else each
            for each in inventory.devices
        ),
    )


def _overlay(device: Device, record: HealthRecord | None) -> Device:
    if record is None or device.health.state is HealthState.UNHEALTHY:
        return device
    state = HealthState.UNHEALTHY if record.is_unhealthy else HealthState.DEGRADED
    reasons = (record.reason, *device.health.reasons)
    return replace(device, health=DeviceHealth(state, reasons, not record.is_unhealthy))
