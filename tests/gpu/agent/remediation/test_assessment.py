"""What errors mean for the health of a device."""

from datetime import timedelta

import pytest

from kilonova.api.gpu.health import HealthRecord, HealthRecords, Phase, Recovery
from kilonova.api.times import format_rfc3339
from kilonova.gpu.agent.remediation.assessment import assess_devices, next_expiry
from kilonova.gpu.devices.model import (
    DeviceHealth,
    EventKind,
    GpuEvent,
    HealthState,
    NodeInventory,
)
from tests.gpu.agent.builders import NOW, machine, with_device

INVENTORY = machine()
UUID = INVENTORY.devices[1].uuid


def xid(code: int) -> GpuEvent:
    return GpuEvent(EventKind.XID, UUID, code)


def assess(
    *events: GpuEvent, records: HealthRecords | None = None, inventory: NodeInventory = INVENTORY
) -> tuple[HealthRecord | None, list[str]]:
    found = assess_devices(records or {}, inventory, events, NOW)
    return found.records.get(UUID), [each.reason for each in found.findings]


@pytest.mark.parametrize(
    ("code", "recovery"),
    [
        (48, Recovery.RESET),
        (62, Recovery.RESET),
        (64, Recovery.RESET),
        (79, Recovery.REBOOT),
        (95, Recovery.RESET),
        (119, Recovery.RESET),
        (142, Recovery.REPAIR),
        (999, Recovery.RESET),
    ],
)
def test_fatal_xids_make_a_device_unhealthy(code: int, recovery: Recovery) -> None:
    record, findings = assess(xid(code))
    assert record is not None
    assert record.is_unhealthy
    assert (record.recovery, record.phase, record.xid) == (recovery, Phase.DRAINING, code)
    assert record.reason.startswith(f"XID {code}:")
    assert findings == ["GPUUnhealthy"]


@pytest.mark.parametrize("code", [13, 31, 43, 45, 63, 94])
def test_transient_xids_are_told_and_leave_the_device_as_it_is(code: int) -> None:
    assert assess(xid(code)) == (None, ["XidTransient"])


def test_event_says_which_xid_was_transient() -> None:
    found = assess_devices({}, INVENTORY, [GpuEvent(EventKind.XID, UUID, 31, (42,))], NOW)
    assert found.findings[0].message == (
        "GPU 1: XID 31: GPU memory page fault; transient: its processes (42) end, "
        "and the GPU goes on"
    )


def test_link_errors_are_transient_until_they_are_frequent() -> None:
    first, findings = assess(xid(74))
    assert first is not None
    assert (first.state, first.phase, findings) == ("Degraded", Phase.OBSERVING, ["XidTransient"])
    assert next_expiry({UUID: first}, NOW) == 600
    last, findings = assess(xid(74), xid(74), records={UUID: first})
    assert last is not None
    assert last.is_unhealthy
    assert last.recovery is Recovery.RESET
    assert findings == ["XidTransient", "GPUUnhealthy"]


def test_rare_link_errors_are_forgotten() -> None:
    old = HealthRecord("Degraded", "XID 74", format_rfc3339(NOW - timedelta(seconds=601)), xid=74)
    assert assess(records={UUID: old}) == (None, ["GPURecovered"])


def test_same_error_again_changes_nothing_while_it_is_dealt_with() -> None:
    record, _ = assess(xid(48))
    assert record is not None
    assert assess(xid(48), records={UUID: record}) == (record, [])


def test_harder_error_takes_over() -> None:
    record, _ = assess(xid(48))
    assert record is not None
    harder, findings = assess(xid(79), records={UUID: record})
    assert harder is not None
    assert (harder.recovery, harder.count, findings) == (Recovery.REBOOT, 2, ["GPUUnhealthy"])


def test_error_during_verification_starts_again() -> None:
    verifying = HealthRecord(
        "Unhealthy",
        "XID 48",
        format_rfc3339(NOW),
        Recovery.RESET,
        Phase.VERIFYING,
        48,
        resets=1,
    )
    record, _ = assess(xid(95), records={UUID: verifying})
    assert record is not None
    assert (record.phase, record.resets) == (Phase.DRAINING, 1)
    assert record.reason == "XID 95: uncontained memory error"


def test_lost_device_is_told_once_and_recovers_when_it_answers() -> None:
    lost = GpuEvent(EventKind.DEVICE_LOST, UUID)
    record, findings = assess(xid(79), lost)
    assert findings == ["GPUUnhealthy"]
    assert record is not None
    recovered = GpuEvent(EventKind.DEVICE_RECOVERED, UUID)
    assert assess(recovered, records={UUID: record}) == (None, ["GPURecovered"])


def test_device_that_calls_itself_unhealthy_is_taken_at_its_word() -> None:
    transient = DeviceHealth(HealthState.UNHEALTHY, ("too hot",), True)
    inventory = with_device(INVENTORY, 1, health=transient)
    record, findings = assess(inventory=inventory)
    assert record is not None
    assert (record.reason, record.recovery) == ("too hot", Recovery.NONE)
    assert findings == ["GPUUnhealthy"]
    assert assess(records={UUID: record}) == (None, ["GPURecovered"])


def test_records_of_devices_that_are_gone_are_dropped() -> None:
    other = HealthRecord("Unhealthy", "XID 48", format_rfc3339(NOW))
    assert assess_devices({"GPU-gone": other}, INVENTORY, (), NOW).records == {}


def test_events_of_unknown_devices_are_ignored() -> None:
    found = assess_devices({}, INVENTORY, [GpuEvent(EventKind.XID, "", 79)], NOW)
    assert (found.records, found.findings) == ({}, ())
