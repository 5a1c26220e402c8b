"""Measurements, as NVML reports them."""

from typing import Any

import pytest

from kilonova.gpu.devices.model import Activity, DeviceTelemetry, ProcessUsage
from kilonova.gpu.devices.throttle_reasons import list_throttle_reasons
from tests.gpu.devices.machines import FakeTime
from tests.gpu.devices.nvml.fake_driver import MIB, UNSUPPORTED, Code, Process
from tests.gpu.devices.nvml.machines import hgx_h100, one_h100, open_backend, recorded_h200

GPM = {1: 91.0, 2: 72.5, 3: 40.0, 5: 33.0, 10: 20.0, 20: 2.0, 21: 3.0, 60: 10.0, 61: 30.0}


def read_one(**gpu: Any) -> DeviceTelemetry:
    driver, _ = one_h100(**gpu)
    return open_backend(driver).read_telemetry()[0]


def test_reading_has_all_units_right() -> None:
    reading = read_one()
    assert reading.activity == Activity(gpu=0.42, memory_copy=0.17, encoder=0.03, decoder=0.05)
    assert reading.memory_total_bytes == 81559 * MIB
    assert reading.memory_used_bytes == 500 * MIB
    assert reading.memory_reserved_bytes == 600 * MIB
    assert reading.power_watts == 251.5
    assert reading.energy_millijoules == 9_876_543
    assert (reading.temperature_celsius, reading.memory_temperature_celsius) == (51, 60)
    assert (reading.sm_clock_mhz, reading.memory_clock_mhz) == (345, 2619)
    assert (reading.pcie_sent_bytes, reading.pcie_received_bytes) == (964 * 1024, 594 * 1024)
    assert reading.pcie_replays == 1
    assert reading.throttle_reasons == ("SwPowerCap",)
    assert (reading.ecc_corrected, reading.ecc_uncorrected) == (2, 1)
    assert (reading.rows_remapped_corrected, reading.rows_remapped_uncorrected) == (1, 0)
    assert (reading.row_remap_pending, reading.row_remap_failed) == (True, False)
    assert reading.nvlink_bytes is None


def test_recorded_h200_is_measured() -> None:
    (reading,) = open_backend(recorded_h200()).read_telemetry()
    assert reading.power_watts == 125.265
    assert reading.temperature_celsius == 39
    assert reading.memory_total_bytes == 150754820096


@pytest.mark.parametrize(
    "attribute",
    [
        "utilization",
        "codecs",
        "memory",
        "power",
        "energy",
        "temperature",
        "memory_temperature",
        "clocks",
        "pcie_throughput",
        "replays",
        "throttle",
        "ecc",
        "rows",
        "processes",
    ],
)
@pytest.mark.parametrize("code", [2, 3, 4, 6, 13, 14, 21])
def test_reading_that_is_not_supported_is_unknown(attribute: str, code: int) -> None:
    reading = read_one(**{attribute: Code(code)})
    fields = {
        "utilization": [reading.activity.gpu, reading.activity.memory_copy],
        "codecs": [reading.activity.encoder, reading.activity.decoder],
        "memory": [reading.memory_used_bytes, reading.memory_total_bytes],
        "power": [reading.power_watts],
        "energy": [reading.energy_millijoules],
        "temperature": [reading.temperature_celsius],
        "memory_temperature": [reading.memory_temperature_celsius],
        "clocks": [reading.sm_clock_mhz, reading.memory_clock_mhz],
        "pcie_throughput": [reading.pcie_sent_bytes, reading.pcie_received_bytes],
        "replays": [reading.pcie_replays],
        "ecc": [reading.ecc_corrected, reading.ecc_uncorrected],
        "rows": [reading.rows_remapped_corrected, reading.row_remap_failed],
    }.get(attribute, [])
    assert fields == [None] * len(fields)
    if attribute in ("throttle", "processes"):
        assert getattr(reading, {"throttle": "throttle_reasons"}.get(attribute, attribute)) == ()


def test_throttle_reasons_are_named() -> None:
    assert list_throttle_reasons(0x1) == ("GpuIdle",)
    assert list_throttle_reasons(0x48) == ("HwSlowdown", "HwThermalSlowdown")
    assert list_throttle_reasons(0) == ()


def test_processes_have_memory_and_utilisation() -> None:
    processes = [Process(7, 10 * MIB, 60), Process(8, (1 << 64) - 1)]
    reading = read_one(processes=processes)
    assert reading.processes == (
        ProcessUsage(7, 10 * MIB, 0.6),
        ProcessUsage(8, None, 0.0),
    )


def test_process_without_fresh_sample_is_idle() -> None:
    driver, _ = one_h100(processes=[Process(7, 10 * MIB, 60)])
    backend = open_backend(driver)
    backend.read_telemetry()
    assert backend.read_telemetry()[0].processes[0].utilisation == 0.0


def test_counters_need_two_samples() -> None:
    driver, _ = one_h100(gpm=GPM)
    time = FakeTime()
    backend = open_backend(driver, time=time)
    assert backend.read_telemetry()[0].activity.sm_active is None
    time.sleep(1)
    reading = backend.read_telemetry()[0]
    assert reading.activity == Activity(
        gpu=0.42,
        memory_copy=0.17,
        sm_active=0.725,
        sm_occupancy=0.4,
        tensor=0.33,
        dram=0.2,
        encoder=0.03,
        decoder=0.05,
    )
    assert (reading.pcie_sent_bytes, reading.pcie_received_bytes) == (2 * MIB, 3 * MIB)
    assert reading.nvlink_bytes == 40 * MIB
    time.sleep(0.01)
    assert backend.read_telemetry()[0] == reading, "too soon: the counters have not moved"
    assert driver.calls["nvmlGpmSampleAlloc"] - driver.calls["nvmlGpmSampleFree"] == 1


def test_no_counters_are_sampled_where_another_program_reads_them() -> None:
    driver, _ = one_h100(gpm=GPM)
    time = FakeTime()
    backend = open_backend(driver, time=time, profiles=False)
    backend.read_telemetry()
    time.sleep(1)
    reading = backend.read_telemetry()[0]
    assert reading.activity.sm_active is None
    assert reading.activity.gpu == 0.42
    assert not driver.calls["nvmlGpmSampleAlloc"]


def test_samples_of_a_closed_driver_are_not_used() -> None:
    driver, _ = one_h100(gpm=GPM)
    time = FakeTime()
    backend = open_backend(driver, time=time)
    backend.read_telemetry()
    backend.close()
    assert not driver.is_open
    time.sleep(1)
    assert backend.read_telemetry()[0].activity.sm_active is None
    assert driver.is_open
    assert not driver.calls["nvmlGpmSampleFree"], "they went with the driver"


def test_nvlink_without_counters_is_the_difference_of_totals() -> None:
    driver = hgx_h100(1)
    (gpu,) = driver.gpus
    time = FakeTime()
    backend = open_backend(driver, time=time)
    gpu.nvlink_kib = 1000
    assert backend.read_telemetry()[0].nvlink_bytes is None
    gpu.nvlink_kib = 6000
    time.sleep(2)
    assert backend.read_telemetry()[0].nvlink_bytes == 2 * 5000 * 1024 // 2
    gpu.nvlink_kib = 10
    time.sleep(1)
    assert backend.read_telemetry()[0].nvlink_bytes is None, "the totals were reset"


def test_instances_are_measured_by_themselves() -> None:
    driver, gpu = one_h100(mig=(1, 1), gpm=GPM)
    gpu.instances = {3: [gpu.profiles[3], 0, 0], 4: [gpu.profiles[0], 2, None]}
    gpu.processes = [Process(7, 10 * MIB, gpu_instance=3)]
    time = FakeTime()
    backend = open_backend(driver, time=time)
    backend.read_telemetry()
    time.sleep(1)
    reading = backend.read_telemetry()[0]
    (instance,) = reading.instances
    assert (instance.uuid, instance.gpu_instance) == (gpu.mig_uuid(3), 3)
    assert instance.memory_used_bytes == 64 * MIB
    assert instance.memory_total_bytes == gpu.profiles[3].memory * MIB
    assert instance.activity.sm_active == 0.725
    assert reading.activity.gpu == 0.91, "NVML has no utilisation in MIG mode: the counter"
    assert reading.processes == (ProcessUsage(7, 10 * MIB, None, 3, 3),)
    gpu.instances.clear()
    time.sleep(1)
    assert backend.read_telemetry()[0].instances == ()
    assert driver.calls["nvmlGpmSampleAlloc"] - driver.calls["nvmlGpmSampleFree"] == 1


def test_device_that_does_not_answer_is_left_out() -> None:
    driver = hgx_h100(3)
    backend = open_backend(driver)
    driver.gpus[1].power = Code(15)
    assert [each.uuid for each in backend.read_telemetry()] == [
        driver.gpus[0].uuid,
        driver.gpus[2].uuid,
    ]


def test_unsupported_total_leaves_memory_unknown() -> None:
    assert read_one(memory=UNSUPPORTED).memory_reserved_bytes is None
