"""Readings, windows and the interval of telemetry."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilonova.api.gpu.metrics import GpuReading
from kilonova.gpu.agent.telemetry.collector import BUSY_SECONDS, IDLE_SECONDS, next_interval
from kilonova.gpu.agent.telemetry.readings import build_readings
from kilonova.gpu.agent.telemetry.windows import WindowAggregator
from kilonova.gpu.devices.model import Activity, DeviceTelemetry, InstanceTelemetry
from tests.gpu.agent.builders import machine, with_instances

MEBIBYTE = 1 << 20


def sample(power: float, utilisation: float | None = None) -> DeviceTelemetry:
    return DeviceTelemetry("GPU-1", Activity(gpu=utilisation), power_watts=power)


def test_mean_is_weighted_by_time() -> None:
    windows = WindowAggregator()
    windows.add(sample(100), 0)
    windows.add(sample(200), 1)
    windows.add(sample(100), 2)
    (window,) = windows.take(10)
    power = window.quantities["power_watts"]
    assert (power.minimum, power.mean, power.maximum, power.last) == (100, 110, 200, 100)
    assert (window.start, window.end, window.samples) == (0, 10, 3)


def test_last_sample_counts_on_in_the_next_window() -> None:
    windows = WindowAggregator()
    windows.add(sample(100), 0)
    windows.take(10)
    windows.add(sample(300), 15)
    (window,) = windows.take(20)
    power = window.quantities["power_watts"]
    assert (power.minimum, power.mean, power.maximum) == (100, 200, 300)


def test_window_without_samples_repeats_the_last_one_until_it_is_too_old() -> None:
    windows = WindowAggregator()
    windows.add(sample(100), 0)
    windows.take(15)
    (window,) = windows.take(30)
    assert (window.samples, window.quantities["power_watts"].mean) == (0, 100)
    assert windows.take(120) == ()


@given(st.lists(st.floats(0, 1000), min_size=1, max_size=20))
def test_mean_is_between_minimum_and_maximum(values: list[float]) -> None:
    windows = WindowAggregator()
    for time, value in enumerate(values):
        windows.add(sample(value), time)
    (window,) = windows.take(len(values))
    power = window.quantities["power_watts"]
    assert power.minimum <= power.mean <= power.maximum


@pytest.mark.parametrize(
    ("before", "after", "wanted"),
    [
        ((), (GpuReading(0, 0.0),), BUSY_SECONDS),
        ((GpuReading(0, 0.1),), (GpuReading(0, 0.8),), BUSY_SECONDS),
        ((GpuReading(0, 0.8),), (GpuReading(0, 0.81),), 5 * BUSY_SECONDS),
        ((GpuReading(0, 0.0),), (GpuReading(0, 0.0),), IDLE_SECONDS),
    ],
)
def test_interval_follows_what_happens(
    before: tuple[GpuReading, ...], after: tuple[GpuReading, ...], wanted: float
) -> None:
    interval = BUSY_SECONDS
    for _ in range(20):
        interval = next_interval(interval, before, after)
    assert interval == wanted


def test_reading_of_a_device_in_mig_mode_combines_its_instances() -> None:
    inventory = with_instances(machine("h100:1"), 0, "3g.40gb@4", "1g.10gb@0")
    device = inventory.devices[0]
    large, small = device.instances
    telemetry = DeviceTelemetry(
        device.uuid,
        memory_used_bytes=3 << 30,
        power_watts=400,
        instances=(
            InstanceTelemetry(
                large.uuid, memory_used_bytes=2 << 30, activity=Activity(sm_active=1)
            ),
            InstanceTelemetry(small.uuid, memory_used_bytes=512 * MEBIBYTE),
        ),
    )
    (reading,) = build_readings(inventory, [telemetry])
    assert (reading.memory, reading.power) == (3072, 400)
    assert reading.utilisation is not None
    assert 0.4 <= reading.utilisation <= 0.5
    assert [(each.profile, each.utilisation, each.memory) for each in reading.instances] == [
        ("3g.40gb", 1, 2048),
        ("1g.10gb", None, 512),
    ]


def test_devices_that_were_not_measured_have_no_reading() -> None:
    assert build_readings(machine(), []) == ()
