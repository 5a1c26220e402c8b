"""The health of a device: what is a problem, how bad, and how long it counts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kilonova.catalog.xids import XidAction
from kilonova.gpu.devices.model import (
    Device,
    DeviceHealth,
    DeviceTelemetry,
    HealthState,
    NvLinkPort,
)
from kilonova.gpu.health import (
    IMMEDIATE,
    HealthHistory,
    HealthSettings,
    Problem,
    assess_device,
    find_problems,
)
from kilonova.gpu.health.assessment import is_usable
from tests.gpu.devices.machines import CATALOG, first_uuid, simulate

DEVICE = Device(0, "GPU-a", product="NVIDIA H100 80GB HBM3", memory_mib=81559)
FINE = DeviceTelemetry("GPU-a", temperature_celsius=45)
H100 = CATALOG.find_gpu("NVIDIA H100 80GB HBM3", 81559)
SETTINGS = HealthSettings(onset=60, clearance=180)
HOT = replace(FINE, throttle_reasons=("HwThermalSlowdown",), temperature_celsius=91)


def health_of(device: Device, reading: DeviceTelemetry | None) -> DeviceHealth:
    problems = find_problems(device, reading, H100)
    return assess_device(problems, HealthHistory(), 0.0, IMMEDIATE)[0]


@pytest.mark.parametrize(
    ("changes", "state", "reason", "is_transient"),
    [
        ({}, HealthState.HEALTHY, "", False),
        ({"throttle_reasons": ("GpuIdle",)}, HealthState.HEALTHY, "", False),
        ({"throttle_reasons": ("SwPowerCap",)}, HealthState.HEALTHY, "", False),
        ({"ecc_corrected": 4000}, HealthState.HEALTHY, "", False),
        ({"rows_remapped_uncorrected": 2}, HealthState.HEALTHY, "", False),
        ({"last_xid": 31}, HealthState.HEALTHY, "", False),
        ({"last_xid": 74}, HealthState.HEALTHY, "", False),
        (
            {"throttle_reasons": ("HwThermalSlowdown",)},
            HealthState.DEGRADED,
            "clocks are lowered: too hot (45 °C)",
            True,
        ),
        (
            {"throttle_reasons": ("HwPowerBrakeSlowdown",)},
            HealthState.DEGRADED,
            "clocks are lowered: the power supply requests it",
            True,
        ),
        (
            {"ecc_uncorrected": 1},
            HealthState.DEGRADED,
            "1 uncorrected memory error since the driver's start",
            False,
        ),
        (
            {"row_remap_pending": True},
            HealthState.DEGRADED,
            "a memory row is remapped at the next reset",
            False,
        ),
        (
            {"row_remap_failed": True, "row_remap_pending": True},
            HealthState.UNHEALTHY,
            "a memory row could not be remapped: replace the GPU",
            False,
        ),
        ({"last_xid": 79}, HealthState.UNHEALTHY, "XID 79: GPU has fallen off the bus", False),
        ({"last_xid": 95}, HealthState.UNHEALTHY, "XID 95: uncontained memory error", False),
        ({"last_xid": 9999}, HealthState.UNHEALTHY, "XID 9999: unknown error", False),
    ],
)
def test_reading_makes_the_health(
    changes: dict[str, object], state: HealthState, reason: str, is_transient: bool
) -> None:
    health = health_of(DEVICE, replace(FINE, **changes))
    assert (health.state, health.is_transient) == (state, is_transient)
    assert health.reasons == ((reason,) if reason else ())


def test_device_that_cannot_be_measured_is_unknown() -> None:
    health = health_of(DEVICE, None)
    assert health.state is HealthState.UNKNOWN
    assert not is_usable(health)


@pytest.mark.parametrize("is_transient", [True, False])
def test_what_the_backend_says_counts(is_transient: bool) -> None:
    reported = DeviceHealth(HealthState.UNHEALTHY, ("it does not answer",), is_transient)
    assert health_of(replace(DEVICE, health=reported), None) == reported


def test_missing_nvlinks_degrade_a_device_behind_switches() -> None:
    links = [NvLinkPort(index, index != 3, 4, is_switch=True) for index in range(18)]
    health = health_of(replace(DEVICE, nvlinks=tuple(links)), FINE)
    assert (health.state, health.reasons) == (
        HealthState.DEGRADED,
        ("17 of 18 NVLinks are active",),
    )
    bridged = replace(DEVICE, product="NVIDIA H100 NVL", nvlinks=tuple(links[:4]))
    model = CATALOG.find_gpu("NVIDIA H100 NVL")
    assert find_problems(bridged, FINE, model) == (), "bridges are optional"
    assert find_problems(DEVICE, FINE, H100) == (), "nor has every machine NVLinks"


def test_worst_problem_comes_first() -> None:
    reading = replace(HOT, last_xid=48, row_remap_pending=True)
    health = health_of(DEVICE, reading)
    assert health.state is HealthState.UNHEALTHY
    assert health.reasons[0].startswith("XID 48")
    assert len(health.reasons) == 3


def timeline(*readings: tuple[float, DeviceTelemetry]) -> list[HealthState]:
    history, states = HealthHistory(), list[HealthState]()
    for now, reading in readings:
        problems = find_problems(DEVICE, reading, H100)
        health, history = assess_device(problems, history, now, SETTINGS)
        states.append(health.state)
    return states


GOOD, BAD = HealthState.HEALTHY, HealthState.DEGRADED


@pytest.mark.parametrize(
    ("readings", "states"),
    [
        # It counts once it has lasted.
        ([(0, HOT), (30, HOT), (60, HOT)], [GOOD, GOOD, BAD]),
        # A pause before it counts starts anew.
        ([(0, HOT), (30, FINE), (60, HOT), (100, HOT), (120, HOT)], [GOOD] * 4 + [BAD]),
        # It goes on to count for some time.
        ([(0, HOT), (60, HOT), (90, FINE), (239, FINE), (240, FINE)], [GOOD, BAD, BAD, BAD, GOOD]),
        # A short return starts the time of clearance anew.
        ([(0, HOT), (60, HOT), (200, HOT), (300, FINE), (380, FINE)], [GOOD, BAD, BAD, BAD, GOOD]),
    ],
)
def test_heat_counts_with_hysteresis(
    readings: list[tuple[float, DeviceTelemetry]], states: list[HealthState]
) -> None:
    assert timeline(*readings) == states


def test_lasting_problems_count_at_once_and_end_at_once() -> None:
    lost = replace(FINE, last_xid=95)
    assert timeline((0, lost), (1, FINE)) == [HealthState.UNHEALTHY, GOOD]


@given(st.lists(st.tuples(st.floats(1, 200), st.booleans()), min_size=1, max_size=30))
def test_state_changes_no_faster_than_the_settings(steps: list[tuple[float, bool]]) -> None:
    """However a problem fluctuates, a device is degraded for at least the clearance time."""
    now, history = 0.0, HealthHistory()
    degraded_since: float | None = None
    for passed, is_hot in steps:
        now += passed
        problems = find_problems(DEVICE, HOT if is_hot else FINE, H100)
        health, history = assess_device(problems, history, now, SETTINGS)
        if health.state is BAD and degraded_since is None:
            degraded_since = now
        if health.state is GOOD and degraded_since is not None:
            assert now - degraded_since >= SETTINGS.clearance
            degraded_since = None
        assert len(history.observed) <= 1


def test_problem_says_what_makes_it_pass() -> None:
    (problem,) = find_problems(DEVICE, replace(FINE, row_remap_pending=True), H100)
    assert problem == Problem("remap-pending", problem.text, BAD, XidAction.RESET_GPU)


def test_simulated_hardware_is_assessed() -> None:
    backend = simulate("h100:2")
    uuid = first_uuid(backend)
    backend.add_ecc_errors(uuid, uncorrected=1)
    first, second = backend.read_inventory().devices
    readings = {each.uuid: each for each in backend.read_telemetry()}
    assert len(find_problems(first, readings[first.uuid], H100)) == 2
    assert find_problems(second, readings[second.uuid]) == ()
    backend.lose(uuid)
    lost = backend.read_inventory().devices[0]
    (problem,) = find_problems(lost, None, H100)
    assert (problem.state, problem.text) == (
        HealthState.UNHEALTHY,
        "XID 79: GPU has fallen off the bus",
    )
