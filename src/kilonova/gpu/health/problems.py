"""What is wrong with a device at one moment. Pure."""

from collections.abc import Iterator

import msgspec

from kilonova.catalog import GpuModel
from kilonova.catalog.xids import XidAction, find_xid
from kilonova.gpu.devices.model import Device, DeviceTelemetry, HealthState

_THERMAL = {
    "HwThermalSlowdown": "clocks are lowered: too hot",
    "SwThermalSlowdown": "clocks are lowered: close to the temperature limit",
    "HwPowerBrakeSlowdown": "clocks are lowered: the power supply requests it",
    "HwSlowdown": "clocks are lowered by the hardware",
}
"""Throttle reasons that are a problem: a device at its power limit is just busy."""


class Problem(msgspec.Struct, frozen=True):
    """Something that is wrong. `key` identifies it while its text changes."""

    key: str
    text: str
    state: HealthState
    action: XidAction = XidAction.NONE
    """What makes it pass."""
    fluctuates: bool = False
    """Whether it comes and goes: it counts only if it lasts."""


def find_problems(
    device: Device, reading: DeviceTelemetry | None, model: GpuModel | None = None
) -> tuple[Problem, ...]:
    """What is wrong, worst first. Without a reading the device could not be measured; the model
    specifies how many NVLinks it should have."""
    found = [*_reported(device), *_links(device, model)]
    if reading is not None:
        found += [*_xid(reading), *_memory(reading), *_clocks(reading)]
    elif not found:
        found.append(Problem("unmeasured", "it cannot be measured", HealthState.UNKNOWN))
    return tuple(sorted(found, key=lambda problem: -severity(problem.state)))


def severity(state: HealthState) -> int:
    """The higher, the worse. An unknown state is worse than a degraded one."""
    return _SEVERITIES.index(state)


_SEVERITIES = (
    HealthState.HEALTHY,
    HealthState.DEGRADED,
    HealthState.UNKNOWN,
    HealthState.UNHEALTHY,
)


def _reported(device: Device) -> Iterator[Problem]:
    """What the backend reports itself: a lost device, an incomplete NVLink fabric."""
    for reason in device.health.reasons:
        action = XidAction.NONE if device.health.is_transient else XidAction.RESTART_NODE
        yield Problem(f"reported:{reason}", reason, device.health.state, action)


def _links(device: Device, model: GpuModel | None) -> Iterator[Problem]:
    active = sum(link.is_active for link in device.nvlinks)
    nvlink = None if model is None else model.nvlink
    # Bridges are optional, and a machine may have none.
    if nvlink is None or nvlink.wiring != "switch" or not active or active >= nvlink.links:
        return
    text = f"{active} of {nvlink.links} NVLinks are active"
    yield Problem("nvlinks", text, HealthState.DEGRADED, XidAction.RESET_GPU)


def _xid(reading: DeviceTelemetry) -> Iterator[Problem]:
    """The last XID, unless the device goes on by itself."""
    if not reading.last_xid:
        return
    xid = find_xid(reading.last_xid)
    if not xid.is_transient:
        yield Problem(f"xid:{xid.code}", str(xid), HealthState.UNHEALTHY, xid.action)


def _memory(reading: DeviceTelemetry) -> Iterator[Problem]:
    if reading.row_remap_failed:
        text = "a memory row could not be remapped: replace the GPU"
        yield Problem("remap-failed", text, HealthState.UNHEALTHY, XidAction.CONTACT_SUPPORT)
    elif reading.row_remap_pending:
        text = "a memory row is remapped at the next reset"
        yield Problem("remap-pending", text, HealthState.DEGRADED, XidAction.RESET_GPU)
    if reading.ecc_uncorrected:
        count = reading.ecc_uncorrected
        text = (
            f"{count} uncorrected memory error{'' if count == 1 else 's'} since the driver's start"
        )
        yield Problem("ecc", text, HealthState.DEGRADED, XidAction.RESET_GPU)


def _clocks(reading: DeviceTelemetry) -> Iterator[Problem]:
    for reason in reading.throttle_reasons:
        text = _THERMAL.get(reason)
        if text is not None:
            where = (
                f" ({reading.temperature_celsius:.0f} °C)"
                if reading.temperature_celsius is not None and "Thermal" in reason
                else ""
            )
            yield Problem(
                f"throttled:{reason}", f"{text}{where}", HealthState.DEGRADED, fluctuates=True
            )
