"""What to do next for devices that are unhealthy. Pure."""

from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec
from msgspec.structs import replace

from kilonova.api.gpu.health import HealthRecord, HealthRecords, Phase, Recovery
from kilonova.api.times import format_rfc3339, parse_time
from kilonova.gpu.agent.holders import Holder
from kilonova.gpu.agent.remediation.assessment import HealthFinding
from kilonova.gpu.devices.errors import GpuError, GpuErrorKind
from kilonova.gpu.devices.model import Device, HealthState, NodeInventory

MAX_RESETS = 3
_RETRY_SECONDS = 30.0
"""Between a failed reset and the next one."""


class RecoverySettings(msgspec.Struct, frozen=True):
    """What an agent may do to recover devices."""

    evicts: bool = True
    resets: bool = True
    drain_delay: float = 10.0
    """Seconds between an error and the eviction of pods: time for a checkpoint."""
    verify_seconds: float = 30.0
    """How long a device must be without errors after a reset."""


class RecoveryPlan(msgspec.Struct, frozen=True):
    """The next steps, and when to look again."""

    records: HealthRecords
    evictions: tuple[Holder, ...] = ()
    resets: tuple[str, ...] = ()
    """The UUIDs of devices to reset now; `record_reset` takes up what came of it."""
    findings: tuple[HealthFinding, ...] = ()
    next_check: float | None = None
    """In seconds; None if only an event can change anything."""


def plan_recovery(
    records: Mapping[str, HealthRecord],
    inventory: NodeInventory,
    holders: Sequence[Holder],
    now: datetime,
    settings: RecoverySettings,
) -> RecoveryPlan:
    """The next steps for all devices that are unhealthy."""
    kept, resets = dict(records), list[str]()
    evictions: dict[str, Holder] = {}
    findings: list[HealthFinding] = []
    checks: list[float] = []
    for uuid, record in records.items():
        device = inventory.find(uuid)
        if device is None or not record.is_unhealthy:
            continue
        age = (now - parse_time(record.changed or record.since)).total_seconds()
        using = [each for each in holders if each.uses(device.index)]
        match record.phase:
            case Phase.DRAINING if using:
                wait = settings.drain_delay - age
                if wait > 0:
                    checks.append(wait)
                elif settings.evicts:
                    pods = (each for each in using if not each.is_claim)
                    evictions |= {each.uid: each for each in pods if not each.is_terminating}
            case Phase.DRAINING | Phase.RESETTING if not using:
                if not settings.resets or record.recovery is not Recovery.RESET:
                    kept[uuid] = _enter(record, Phase.WAITING, now)
                elif record.phase is Phase.RESETTING and 0 <= age < _RETRY_SECONDS:
                    checks.append(_RETRY_SECONDS - age)
                else:
                    kept[uuid] = _enter(record, Phase.RESETTING, now)
                    resets.append(uuid)
            case Phase.VERIFYING if (
                age >= settings.verify_seconds and device.health.state is HealthState.UNHEALTHY
            ):
                kept[uuid] = _give_up_or_repeat(record, now)
                checks.append(0.0)
            case Phase.VERIFYING if age >= settings.verify_seconds:
                del kept[uuid]
                message = f"GPU {device.index} is healthy again: no error since its reset"
                findings.append(HealthFinding("GPURecovered", message, False, uuid))
            case Phase.VERIFYING:
                checks.append(settings.verify_seconds - age)
            case _:
                pass
    return RecoveryPlan(
        kept,
        tuple(evictions.values()),
        tuple(resets),
        tuple(findings),
        min(checks, default=None),
    )


def record_reset(
    record: HealthRecord, device: Device, error: GpuError | None, now: datetime
) -> tuple[HealthRecord, HealthFinding]:
    """The record after a reset, and what to report."""
    where = f"GPU {device.index}"
    if error is None:
        after = replace(_enter(record, Phase.VERIFYING, now), resets=record.resets + 1)
        message = f"reset {where} after {record.reason}; it is observed before pods get it"
        return after, HealthFinding("GPUReset", message, False, device.uuid)
    if error.kind is GpuErrorKind.IN_USE:
        message = f"{where} is not reset yet: {error.detail or 'it is in use'}"
        return _enter(record, Phase.RESETTING, now), HealthFinding(
            "GPUResetWaiting", message, False, device.uuid
        )
    count = record.resets + 1
    lost = error.kind in (GpuErrorKind.DEVICE_LOST, GpuErrorKind.NOT_SUPPORTED)
    if lost or count >= MAX_RESETS:
        recovery = Recovery.REBOOT if lost else Recovery.REPAIR
        after = replace(_enter(record, Phase.WAITING, now), resets=count, recovery=recovery)
        needs = "a reboot of the node" if lost else f"a repair: {count} resets did not help"
        message = f"{where} was not reset ({error}); it needs {needs}"
        return after, HealthFinding("GPUResetFailed", message, True, device.uuid)
    after = replace(_enter(record, Phase.RESETTING, now), resets=count)
    message = f"{where} was not reset ({error}); tried again in {_RETRY_SECONDS:g} s"
    return after, HealthFinding("GPUResetFailed", message, True, device.uuid)


def _give_up_or_repeat(record: HealthRecord, now: datetime) -> HealthRecord:
    """The device is still unhealthy after its reset."""
    if record.resets < MAX_RESETS:
        return _enter(record, Phase.DRAINING, now)
    return replace(_enter(record, Phase.WAITING, now), recovery=Recovery.REPAIR)


def _enter(record: HealthRecord, phase: Phase, now: datetime) -> HealthRecord:
    return replace(record, phase=phase, changed=format_rfc3339(now))
