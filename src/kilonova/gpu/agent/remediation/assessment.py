"""What errors of devices mean for their health. Pure."""

from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec
from msgspec.structs import replace

from kilonova.api.gpu.health import HealthRecord, HealthRecords, Phase, Recovery
from kilonova.api.times import format_rfc3339, parse_time
from kilonova.catalog.xids import Xid, XidAction, find_xid
from kilonova.gpu.devices.model import Device, EventKind, GpuEvent, HealthState, NodeInventory

_LINK_ERRORS = 3
"""So many errors of an interconnect within `_OBSERVED_SECONDS` make a device unhealthy."""
_OBSERVED_SECONDS = 600.0

_RECOVERIES = {
    XidAction.RESET_GPU: Recovery.RESET,
    XidAction.RESTART_NODE: Recovery.REBOOT,
    XidAction.CONTACT_SUPPORT: Recovery.REPAIR,
}


class HealthFinding(msgspec.Struct, frozen=True):
    """What happened to a device: becomes an Event of the Node."""

    reason: str
    message: str
    is_warning: bool = False
    device: str = ""


class Assessment(msgspec.Struct, frozen=True):
    """The records after what has happened, and what users should know of it."""

    records: HealthRecords
    findings: tuple[HealthFinding, ...] = ()


def assess_devices(
    records: Mapping[str, HealthRecord],
    inventory: NodeInventory,
    events: Sequence[GpuEvent],
    now: datetime,
) -> Assessment:
    """Take up events, and what the inventory reports."""
    kept = {uuid: each for uuid, each in records.items() if inventory.find(uuid) is not None}
    findings: list[HealthFinding] = []
    for event in events:
        device = inventory.find(event.uuid)
        if device is not None:
            findings += _take_up(kept, device, event, now)
    for device in inventory.devices:
        findings += _compare(kept, device, now)
    return Assessment(kept, tuple(findings))


def next_expiry(records: Mapping[str, HealthRecord], now: datetime) -> float | None:
    """Seconds until a device that was merely observed counts as healthy; None if there is none."""
    left = [
        _OBSERVED_SECONDS - (now - parse_time(each.since)).total_seconds()
        for each in records.values()
        if each.phase is Phase.OBSERVING and not each.is_unhealthy
    ]
    return max(0.0, min(left)) if left else None


def _take_up(
    records: HealthRecords, device: Device, event: GpuEvent, now: datetime
) -> list[HealthFinding]:
    match event.kind:
        case EventKind.XID:
            return _take_up_xid(records, device, find_xid(event.code), event, now)
        case EventKind.DEVICE_LOST:
            if device.uuid in records and records[device.uuid].is_unhealthy:
                return []
            reason = "the device does not answer"
            return _mark(records, device, reason, Recovery.REBOOT, 0, now)
        case EventKind.DEVICE_RECOVERED:
            if records.pop(device.uuid, None) is None:
                return []
            return [_recovered(device, "the device answers again")]
        case EventKind.ECC_UNCORRECTED:
            message = f"GPU {device.index}: uncorrected memory error; the row is remapped at reset"
            return [HealthFinding("UncorrectedMemoryError", message, True, device.uuid)]
        case _:
            return []


def _take_up_xid(
    records: HealthRecords, device: Device, xid: Xid, event: GpuEvent, now: datetime
) -> list[HealthFinding]:
    recovery = _RECOVERIES.get(xid.action)
    if recovery is not None:
        return _mark(records, device, str(xid), recovery, xid.code, now)
    where = f"GPU {device.index}: {xid}"
    if xid.action is XidAction.CHECK_LINK:
        old = records.get(device.uuid)
        if old is not None and old.is_unhealthy:
            return []
        count = old.count + 1 if old is not None and old.xid == xid.code else 1
        if count >= _LINK_ERRORS:
            reason = f"{xid}, {count} times"
            return _mark(records, device, reason, Recovery.RESET, xid.code, now)
        since = old.since if old is not None and count > 1 else format_rfc3339(now)
        records[device.uuid] = HealthRecord(
            "Degraded", str(xid), since, xid=xid.code, count=count, changed=format_rfc3339(now)
        )
        message = f"{where}; transient unless it happens {_LINK_ERRORS} times in 10 minutes"
        return [HealthFinding("XidTransient", message, True, device.uuid)]
    if xid.action is XidAction.NONE:
        return [
            HealthFinding("XidTransient", f"{where}; transient: nothing to do", False, device.uuid)
        ]
    pids = f" ({', '.join(map(str, event.pids))})" if event.pids else ""
    message = f"{where}; transient: its processes{pids} end, and the GPU goes on"
    return [HealthFinding("XidTransient", message, True, device.uuid)]


def _compare(records: HealthRecords, device: Device, now: datetime) -> list[HealthFinding]:
    """Take up what the device itself reports of its health."""
    record = records.get(device.uuid)
    if device.health.state is HealthState.UNHEALTHY:
        if record is not None and record.is_unhealthy:
            return []
        reason = device.health.reasons[0] if device.health.reasons else "the device is unhealthy"
        recovery = Recovery.NONE if device.health.is_transient else Recovery.RESET
        return _mark(records, device, reason, recovery, 0, now)
    if record is None:
        return []
    if record.recovery is Recovery.NONE and record.is_unhealthy:
        del records[device.uuid]
        return [_recovered(device, "the error has passed")]
    age = (now - parse_time(record.since)).total_seconds()
    if not record.is_unhealthy and age >= _OBSERVED_SECONDS:
        del records[device.uuid]
        return [_recovered(device, f"{record.reason} was transient")]
    return []


def _mark(
    records: HealthRecords,
    device: Device,
    reason: str,
    recovery: Recovery,
    xid: int,
    now: datetime,
) -> list[HealthFinding]:
    """A device becomes unhealthy; one that is already keeps the harder recovery."""
    old, moment = records.get(device.uuid), format_rfc3339(now)
    if old is not None and old.is_unhealthy:
        harder = list(Recovery).index(recovery) > list(Recovery).index(old.recovery)
        again = old.phase in (Phase.VERIFYING, Phase.RESETTING)
        if not harder and not again:
            return []
        records[device.uuid] = replace(
            old,
            reason=reason if harder or again else old.reason,
            recovery=recovery if harder else old.recovery,
            phase=Phase.DRAINING,
            xid=xid or old.xid,
            count=old.count + 1,
            changed=moment,
        )
    else:
        records[device.uuid] = HealthRecord(
            "Unhealthy", reason, moment, recovery, Phase.DRAINING, xid, changed=moment
        )
    helps = {
        Recovery.NONE: "it is checked again",
        Recovery.RESET: "it is drained and reset",
        Recovery.REBOOT: "the node needs a reboot",
        Recovery.REPAIR: "it needs a repair",
    }[records[device.uuid].recovery]
    message = f"GPU {device.index} is unhealthy: {reason}; {helps}"
    return [HealthFinding("GPUUnhealthy", message, True, device.uuid)]


def _recovered(device: Device, why: str) -> HealthFinding:
    return HealthFinding(
        "GPURecovered", f"GPU {device.index} is healthy again: {why}", False, device.uuid
    )
