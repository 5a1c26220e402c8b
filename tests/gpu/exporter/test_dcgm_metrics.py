"""Metrics under DCGM's names: labels, units, and whose they are in each sharing mode."""

import pytest

from kilonova.gpu.exporter.device_labels import dcgm_pci_address
from tests.gpu.devices.machines import first_uuid, simulate
from tests.gpu.exporter.readings import NODE, expose, load, read, user

GIB = 1024.0
"""MiB."""


def test_device_has_the_labels_of_dcgms_exporter() -> None:
    backend = simulate("h200:1")
    device = backend.read_inventory().devices[0]
    found = expose(read(backend, user("train", "0"))).find("DCGM_FI_DEV_GPU_TEMP")
    assert len(found) == 1
    assert found[0][0] == {
        "gpu": "0",
        "UUID": device.uuid,
        "pci_bus_id": dcgm_pci_address(device.pci),
        "device": "nvidia0",
        "modelName": "NVIDIA H200",
        "Hostname": NODE,
        "hostname": NODE,
        "DCGM_FI_DRIVER_VERSION": backend.read_inventory().driver,
        "pod": "train",
        "namespace": "default",
        "container": "main",
    }


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("0000:4e:00.0", "00000000:4E:00.0"),
        ("00000000:00:06.0", "00000000:00:06.0"),
        ("10000:18:00.0", "00010000:18:00.0"),
        ("", ""),
    ],
)
def test_pci_address_is_written_as_nvml_does(address: str, expected: str) -> None:
    assert dcgm_pci_address(address) == expected


def test_values_have_dcgms_units() -> None:
    backend = simulate("h100:2")
    backend.set_load(first_uuid(backend), load(7, 0.5, 10))
    measured = backend.read_telemetry()[0]
    found = expose(read(backend))
    assert measured.memory_total_bytes is not None
    assert measured.memory_reserved_bytes is not None
    assert measured.energy_millijoules is not None
    free = measured.memory_total_bytes - measured.memory_reserved_bytes - (10 << 30)
    assert found.value("DCGM_FI_DEV_GPU_UTIL", gpu="0") == pytest.approx(50)
    assert found.value("DCGM_FI_DEV_MEM_COPY_UTIL", gpu="0") == pytest.approx(25)
    assert found.value("DCGM_FI_PROF_SM_ACTIVE", gpu="0") == pytest.approx(0.46)
    assert found.value("DCGM_FI_PROF_GR_ENGINE_ACTIVE", gpu="0") == pytest.approx(0.5)
    assert found.value("DCGM_FI_DEV_FB_USED", gpu="0") == 10 * GIB
    assert found.value("DCGM_FI_DEV_FB_FREE", gpu="0") == pytest.approx(free / 2**20)
    assert found.value("DCGM_FI_DEV_POWER_USAGE", gpu="0") == pytest.approx(measured.power_watts)
    assert found.value("DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", gpu="0") == pytest.approx(50_000)


def test_device_without_profiling_counters_has_no_profiling_fields() -> None:
    found = expose(read(simulate("a100-40:1")))
    assert not [name for name in found.series if name.startswith("DCGM_FI_PROF_GR")]
    assert not found.find("DCGM_FI_PROF_SM_ACTIVE")
    assert found.value("DCGM_FI_DEV_GPU_UTIL") == 0


def test_faults_are_in_dcgms_fields() -> None:
    backend = simulate("h100:1")
    uuid = first_uuid(backend)
    backend.inject_xid(uuid, 31)
    backend.add_ecc_errors(uuid, corrected=3, uncorrected=1)
    backend.fail_row_remapping(uuid)
    backend.set_throttle_reasons(uuid, "HwThermalSlowdown", "HwSlowdown")
    found = expose(read(backend))
    assert found.value("DCGM_FI_DEV_XID_ERRORS") == 31
    assert found.value("DCGM_FI_DEV_ECC_SBE_VOL_TOTAL") == 3
    assert found.value("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL") == 1
    assert found.value("DCGM_FI_DEV_ROW_REMAP_PENDING") == 1
    assert found.value("DCGM_FI_DEV_ROW_REMAP_FAILURE") == 1
    assert found.value("DCGM_FI_DEV_CLOCK_THROTTLE_REASONS") == 0x1 | 0x8 | 0x40


def test_mig_instances_have_their_own_activity_memory_and_pod() -> None:
    backend = simulate("h100:1")
    uuid = first_uuid(backend)
    backend.set_mig_mode(uuid, True)
    first = backend.create_instance(uuid, "3g.40gb", 0)
    second = backend.create_instance(uuid, "1g.10gb", 4)
    backend.set_load(first.uuid, load(7, 1.0, 8))
    found = expose(read(backend, user("a", "0:3g.40gb@0"), user("b", "0:1g.10gb@4")))

    assert found.value("DCGM_FI_PROF_SM_ACTIVE", pod="a", GPU_I_PROFILE="3g.40gb") == 0.92
    assert found.value("DCGM_FI_PROF_GR_ENGINE_ACTIVE", pod="a") == 1
    assert found.value("DCGM_FI_PROF_SM_ACTIVE", pod="b", GPU_I_PROFILE="1g.10gb") == 0
    assert found.value("DCGM_FI_DEV_FB_USED", pod="a") == 8 * GIB
    labels, _ = found.find("DCGM_FI_DEV_FB_USED", pod="b")[0]
    assert labels["GPU_I_ID"] == str(second.gpu_instance)
    assert labels["UUID"] == uuid
    # What the device has as a whole is there once, and belongs to no pod.
    assert found.value("DCGM_FI_DEV_POWER_USAGE", pod="", GPU_I_ID="") > 0
    assert len(found.find("DCGM_FI_DEV_FB_USED")) == 2
    assert not found.find("DCGM_FI_DEV_GPU_UTIL")


def test_shared_device_is_divided_by_processes_and_adds_up() -> None:
    backend = simulate("h100:1")
    backend.set_load(first_uuid(backend), load(7, 0.3, 10), load(8, 0.2, 20), load(9, 0.1, 5))
    users = (user("a", "0:500"), user("b", "0:500"))
    found = expose(read(backend, *users, pods_of={7: "uid-a", 8: "uid-b"}))

    assert found.value("DCGM_FI_DEV_GPU_UTIL", pod="a", vgpu="0") == pytest.approx(30)
    assert found.value("DCGM_FI_DEV_GPU_UTIL", pod="b", vgpu="1") == pytest.approx(20)
    assert found.value("DCGM_FI_DEV_GPU_UTIL", pod="") == pytest.approx(10)
    assert found.value("DCGM_FI_DEV_FB_USED", pod="a") == 10 * GIB
    assert found.value("DCGM_FI_DEV_FB_USED", pod="b") == 20 * GIB
    assert found.total("DCGM_FI_DEV_FB_USED") == 35 * GIB
    assert found.value("DCGM_FI_DEV_GPU_TEMP", pod="") > 0


def test_shared_device_stays_whole_where_no_process_is_known() -> None:
    backend = simulate("h100:1")
    backend.set_load(first_uuid(backend), load(7, 0.3, 10))
    found = expose(read(backend, user("a", "0:500"), user("b", "0:500")))
    assert found.value("DCGM_FI_DEV_GPU_UTIL", pod="") == pytest.approx(30)
    assert found.value("DCGM_FI_DEV_FB_USED", pod="") == 10 * GIB


def test_share_without_others_on_the_device_belongs_to_its_pod() -> None:
    backend = simulate("h100:1")
    backend.set_load(first_uuid(backend), load(7, 0.3, 10))
    found = expose(read(backend, user("a", "0:500")))
    assert found.value("DCGM_FI_DEV_GPU_UTIL", pod="a") == pytest.approx(30)


def test_lost_device_has_no_series_of_dcgm() -> None:
    backend = simulate("h100:2")
    backend.lose(first_uuid(backend))
    found = expose(read(backend))
    assert [labels["gpu"] for labels, _ in found.find("DCGM_FI_DEV_GPU_TEMP")] == ["1"]
