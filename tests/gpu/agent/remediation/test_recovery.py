"""What is done for unhealthy devices."""

from datetime import datetime, timedelta

import pytest
from msgspec.structs import replace

from kilonova.api.gpu.health import HealthRecord, Phase, Recovery
from kilonova.api.times import format_rfc3339
from kilonova.gpu.agent.holders import Holder
from kilonova.gpu.agent.remediation.recovery import (
    MAX_RESETS,
    RecoveryPlan,
    RecoverySettings,
    plan_recovery,
    record_reset,
)
from kilonova.gpu.devices.errors import GpuError, GpuErrorKind
from tests.gpu.agent.builders import NOW, holder, machine

INVENTORY = machine()
DEVICE = INVENTORY.devices[1]
SETTINGS = RecoverySettings()


def record(phase: Phase, recovery: Recovery = Recovery.RESET, age: float = 0.0) -> HealthRecord:
    moment = format_rfc3339(NOW - timedelta(seconds=age))
    return HealthRecord("Unhealthy", "XID 48", moment, recovery, phase, 48, changed=moment)


def plan(
    current: HealthRecord,
    *holders: Holder,
    settings: RecoverySettings = SETTINGS,
    now: datetime = NOW,
) -> RecoveryPlan:
    return plan_recovery({DEVICE.uuid: current}, INVENTORY, holders, now, settings)


def phase_of(found: RecoveryPlan) -> Phase:
    return found.records[DEVICE.uuid].phase


def test_pods_have_time_for_a_checkpoint_before_they_are_evicted() -> None:
    pod = holder("a", "0,1")
    early = plan(record(Phase.DRAINING, age=4), pod)
    assert (early.evictions, early.next_check) == ((), 6)
    due = plan(record(Phase.DRAINING, age=10), pod)
    assert due.evictions == (pod,)
    assert phase_of(due) is Phase.DRAINING


def test_pods_on_other_devices_and_terminating_ones_are_not_evicted() -> None:
    others = (holder("a", "0"), holder("b", "1:1g.10gb@0", is_terminating=True))
    assert plan(record(Phase.DRAINING, age=60), *others).evictions == ()


def test_idle_device_is_reset() -> None:
    found = plan(record(Phase.DRAINING))
    assert found.resets == (DEVICE.uuid,)
    assert phase_of(found) is Phase.RESETTING


@pytest.mark.parametrize("recovery", [Recovery.REBOOT, Recovery.REPAIR, Recovery.NONE])
def test_device_that_no_reset_helps_waits(recovery: Recovery) -> None:
    found = plan(record(Phase.DRAINING, recovery))
    assert (found.resets, phase_of(found)) == ((), Phase.WAITING)


def test_reset_and_eviction_can_be_forbidden() -> None:
    settings = RecoverySettings(evicts=False, resets=False)
    assert plan(record(Phase.DRAINING, age=60), holder("a", "1"), settings=settings).evictions == ()
    assert phase_of(plan(record(Phase.DRAINING), settings=settings)) is Phase.WAITING


def test_reset_that_was_cut_off_is_repeated() -> None:
    early = plan(record(Phase.RESETTING, age=10))
    assert (early.resets, early.next_check) == ((), 20)
    assert plan(record(Phase.RESETTING, age=31)).resets == (DEVICE.uuid,)


def test_device_is_healthy_after_time_without_errors() -> None:
    early = plan(record(Phase.VERIFYING, age=10))
    assert (early.next_check, DEVICE.uuid in early.records) == (20, True)
    done = plan(record(Phase.VERIFYING, age=30))
    assert done.records == {}
    assert [each.reason for each in done.findings] == ["GPURecovered"]


@pytest.mark.parametrize(
    ("kind", "phase", "recovery", "reason"),
    [
        (None, Phase.VERIFYING, Recovery.RESET, "GPUReset"),
        (GpuErrorKind.IN_USE, Phase.RESETTING, Recovery.RESET, "GPUResetWaiting"),
        (GpuErrorKind.DEVICE_LOST, Phase.WAITING, Recovery.REBOOT, "GPUResetFailed"),
        (GpuErrorKind.NOT_SUPPORTED, Phase.WAITING, Recovery.REBOOT, "GPUResetFailed"),
        (GpuErrorKind.TIMEOUT, Phase.RESETTING, Recovery.RESET, "GPUResetFailed"),
    ],
)
def test_outcome_of_a_reset(
    kind: GpuErrorKind | None, phase: Phase, recovery: Recovery, reason: str
) -> None:
    error = None if kind is None else GpuError(kind, "reset", device=DEVICE.uuid)
    after, finding = record_reset(record(Phase.RESETTING), DEVICE, error, NOW)
    assert (after.phase, after.recovery, finding.reason) == (phase, recovery, reason)


def test_resets_that_do_not_help_end_in_a_repair() -> None:
    current = replace(record(Phase.RESETTING), resets=MAX_RESETS - 1)
    error = GpuError(GpuErrorKind.UNKNOWN, "reset", device=DEVICE.uuid)
    after, _ = record_reset(current, DEVICE, error, NOW)
    assert (after.phase, after.recovery) == (Phase.WAITING, Recovery.REPAIR)
