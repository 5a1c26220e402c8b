"""Recordings: both forms of files, and that nothing can be changed in them."""

import os
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from kilonova.catalog.mig import geometry_named
from kilonova.gpu.devices.backend import GpuBackend
from kilonova.gpu.devices.errors import GpuError, GpuErrorKind
from kilonova.gpu.devices.recorded import RecordedBackend, Recording, read_recording
from kilonova.gpu.devices.selection import open_backend
from tests.gpu.devices.machines import CATALOG, first_uuid, simulate

CHANGES: list[Callable[[GpuBackend, str], object]] = [
    lambda backend, uuid: backend.set_mig_mode(uuid, True),
    lambda backend, uuid: backend.create_instance(uuid, "1g.10gb", 0),
    lambda backend, uuid: backend.destroy_instance(uuid, "MIG-x"),
    lambda backend, uuid: backend.set_exclusive_process_mode(uuid, True),
    lambda backend, uuid: backend.reset(uuid),
]


def record(backend: GpuBackend) -> Recording:
    return Recording(backend.read_inventory(), tuple(backend.read_telemetry()))


def test_recording_is_what_was_recorded(tmp_path: Path) -> None:
    original = simulate("gb200-nvl72")
    file = tmp_path / "machine.json"
    file.write_bytes(msgspec.json.encode(record(original)))
    backend = open_backend(f"recorded:{file}", CATALOG)
    assert backend.read_inventory().devices == original.read_inventory().devices
    assert backend.read_inventory().paths == original.read_inventory().paths
    assert list(backend.read_telemetry()) == list(original.read_telemetry())
    assert backend.name == backend.read_inventory().backend == "recorded"


def test_raw_readings_of_the_h200_are_its_inventory() -> None:
    here = Path(__file__).parents[3]
    folder = Path(os.environ.get("KILONOVA_DATA", here.parent / "shared" / "data"))
    file = folder / "h200" / "nvml.json"
    if not file.exists():
        pytest.skip(f"no readings of an H200 in {folder}: set KILONOVA_DATA")
    backend = RecordedBackend(read_recording(file))
    inventory = backend.read_inventory()
    (device,) = inventory.devices
    assert (inventory.driver, inventory.cuda) == ("580.159.04", "13.0")
    assert (device.product, device.memory_mib, device.sms) == ("NVIDIA H200", 143771, 132)
    assert device.geometry == geometry_named("H200-141GB")
    assert len(device.mig_resources) == 7
    (reading,) = backend.read_telemetry()
    assert (reading.power_watts, reading.temperature_celsius) == (125.265, 39)


@pytest.mark.parametrize("change", CHANGES)
def test_recording_cannot_be_changed(change: Callable[[GpuBackend, str], object]) -> None:
    original = simulate()
    backend = RecordedBackend(record(original))
    with pytest.raises(GpuError) as error:
        change(backend, first_uuid(original))
    assert error.value.kind is GpuErrorKind.NOT_SUPPORTED
    with pytest.raises(GpuError) as error:
        change(backend, "GPU-x")
    assert error.value.kind is GpuErrorKind.NOT_FOUND


def test_nothing_happens_in_a_recording() -> None:
    slept: list[float] = []
    backend = RecordedBackend(record(simulate()), sleep=slept.append)
    assert backend.wait_events(3) == ()
    assert slept == [3]
    backend.close()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "not a recording"),
        ("[]", "not a recording"),
        ("{}", "neither `inventory` nor `gpu0`"),
        ('{"inventory": {"devices": 3}}', "not a recording: Expected"),
        ('{"gpu0": {"pci": {}}}', "not a recording"),
        ('{"gpu0": 7}', "not a recording"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, content: str, message: str) -> None:
    file = tmp_path / "file.json"
    file.write_text(content)
    with pytest.raises(ValueError, match=message):
        read_recording(file)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "an empty name: expected nvml, simulated:PERSONA or recorded:FILE"),
        ("cuda", "cuda: expected nvml"),
        ("nvml:0", "nvml:0: expected nvml"),
        ("nvml:", "nvml:: expected nvml"),
        ("simulated", "simulated: expected nvml"),
        ("simulated:voodoo", "simulated:voodoo: voodoo: neither a persona"),
        ("recorded:", "recorded:: expected"),
        ("recorded:/nowhere/x.json", "recorded:/nowhere/x.json: .*No such file"),
    ],
)
def test_unknown_backend_says_what_is_expected(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        open_backend(text, CATALOG)


def test_backend_is_selected_by_its_name() -> None:
    assert open_backend("nvml", CATALOG).name == "nvml"
    assert len(open_backend("simulated:h100:2", CATALOG).read_inventory().devices) == 2
