"""Time-slicing: the configuration, and the length of turns."""

from pathlib import Path

import pytest

from kilonova.gpu.devices.errors import GpuError, GpuErrorKind
from kilonova.gpu.devices.model import Device
from kilonova.gpu.sharing.time_slicing import (
    NvidiaSmiTimeSlice,
    TimeSlice,
    parse_sharing,
    parse_time_slice,
)

GPU = "nvidia.com/gpu"


def test_each_gpu_may_have_its_own_number_of_replicas() -> None:
    config = parse_sharing(
        {
            "timeSlicing": {
                "resources": [
                    {"name": GPU, "replicas": 4},
                    {"name": GPU, "replicas": 1, "devices": [1, "GPU-x"]},
                    {"name": "nvidia.com/mig-1g.10gb", "replicas": 2},
                ]
            }
        }
    )
    assert config.strategy == "time-slicing"
    devices = [Device(0, "GPU-a"), Device(1, "GPU-b"), Device(2, "GPU-x")]
    assert [config.replicas(each, GPU) for each in devices] == [4, 1, 1]
    assert config.replicas(devices[0], "nvidia.com/mig-1g.10gb") == 2
    assert config.replicas(devices[0], "nvidia.com/mig-2g.20gb") == 1


def test_resource_is_renamed_as_told() -> None:
    resources = [{"name": GPU, "replicas": 2}]
    config = parse_sharing({"mps": {"renameByDefault": True, "resources": resources}})
    assert config.strategy == "mps"
    assert config.resource_name(GPU) == "nvidia.com/gpu.shared"
    assert config.resource_name("nvidia.com/mig-1g.10gb") == "nvidia.com/mig-1g.10gb"
    named = parse_sharing(
        {"timeSlicing": {"resources": [{"name": GPU, "replicas": 2, "rename": "a.b/gpu"}]}}
    )
    assert named.resource_name(GPU) == "a.b/gpu"
    assert parse_sharing({}).strategy == "none"


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ({"timeslicing": {}}, "unknown field `timeslicing`"),
        ({"mps": {"resources": []}}, "resources"),
        ({"mps": {"resources": [{"name": GPU, "replicas": 0}]}}, "replicas"),
        ({"mps": {"resources": [{"name": "nvidia.com/mig-1g.5gb", "replicas": 2}]}}, "alone"),
        (
            {
                "mps": {"resources": [{"name": GPU, "replicas": 2}]},
                "timeSlicing": {"resources": [{"name": GPU, "replicas": 2}]},
            },
            "exclude each other",
        ),
    ],
)
def test_error_names_the_field(value: dict[str, object], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        parse_sharing(value)


def test_intervals_are_those_of_the_driver() -> None:
    assert [parse_time_slice(each) for each in ("Default", "Short", "Medium", "Long")] == list(
        TimeSlice
    )
    with pytest.raises(ValueError, match="interval 'Huge': must be Default"):
        parse_time_slice("Huge")


def program(folder: Path, body: str) -> NvidiaSmiTimeSlice:
    path = folder / "nvidia-smi"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return NvidiaSmiTimeSlice(str(path))


def test_length_of_turns_is_set_by_nvidia_smi(tmp_path: Path) -> None:
    program(tmp_path, f'echo "$@" > {tmp_path}/called').set_time_slice("GPU-1", TimeSlice.LONG)
    called = (tmp_path / "called").read_text()
    assert called == "compute-policy -i GPU-1 --set-timeslice 3\n"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Insufficient Permissions", GpuErrorKind.NO_PERMISSION),
        ("Not Supported", GpuErrorKind.NOT_SUPPORTED),
        ("boom", GpuErrorKind.UNKNOWN),
    ],
)
def test_failure_of_nvidia_smi_is_told(tmp_path: Path, text: str, kind: GpuErrorKind) -> None:
    with pytest.raises(GpuError, match=text) as error:
        program(tmp_path, f"echo {text}; exit 3").set_time_slice("GPU-1", TimeSlice.SHORT)
    assert error.value.kind is kind
    with pytest.raises(GpuError) as error:
        NvidiaSmiTimeSlice(str(tmp_path / "none")).set_time_slice("GPU-1", TimeSlice.SHORT)
    assert error.value.kind is GpuErrorKind.DRIVER_NOT_FOUND
