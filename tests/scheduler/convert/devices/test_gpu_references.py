"""Which GPU a published device is, by the attributes of drivers."""

import msgspec
import pytest

from kilonova.catalog.mig import MEDIA_EXTENSION, geometry_named
from kilonova.local.simnodes.fleet.model import GpuSpec
from kilonova.local.simnodes.gpus.identity import derive_gpu_uuid
from kilonova.local.simnodes.gpus.resource_slices import DRIVER, build_resource_slices
from kilonova.scheduler.convert.devices.gpu_references import find_gpu_reference
from kilonova.scheduler.convert.devices.resource_slices import convert_resource_pool
from kilonova.scheduler.core.dra.claims import DeviceAttribute, SharedCounter
from kilonova.scheduler.core.gpu.identity import WHOLE_GPU, GpuReference
from kilonova.scheduler.objects.resource_v1 import RESOURCE_SLICES


def attributes(**values: str | int) -> dict[str, DeviceAttribute]:
    return {
        name: DeviceAttribute("int" if isinstance(value, int) else "string", value)
        for name, value in values.items()
    }


@pytest.mark.parametrize(
    ("name", "values", "expected"),
    [
        ("gpu-3", {"type": "gpu", "uuid": "GPU-a"}, GpuReference("GPU-a", index=3)),
        ("gpu-3", {"uuid": "GPU-a"}, GpuReference("GPU-a")),
        ("x", {"pciBusID": "00000000:1B:00.0"}, GpuReference(pci="0000:1b:00.0")),
        ("x", {"pcieBusID": "0000:1b:00.0"}, GpuReference(pci="0000:1b:00.0")),
        ("x", {"type": "gpu", "index": 2, "minor": 5}, GpuReference(index=2)),
        ("x", {"type": "gpu", "minor": 5}, GpuReference(index=5)),
        ("nic-0", {"type": "nic", "uuid": "NIC-1", "index": 0}, None),
        ("gpu-0", {}, None),
        ("channel-0", {"type": "channel"}, None),
        (
            "m",
            {"type": "mig", "uuid": "MIG-1", "parentUUID": "GPU-a", "profile": "1g.5gb"},
            GpuReference("GPU-a", mask=WHOLE_GPU),
        ),
    ],
)
def test_gpu_of_a_device_is_found_by_its_attributes(
    name: str, values: dict[str, str | int], expected: GpuReference | None
) -> None:
    assert find_gpu_reference(DRIVER, name, attributes(**values), ()) == expected


def test_qualified_attributes_count_too() -> None:
    found = find_gpu_reference(
        DRIVER,
        "x",
        {
            f"{DRIVER}/uuid": DeviceAttribute("string", "GPU-a"),
            "resource.kubernetes.io/pciBusID": DeviceAttribute("string", "0000:1b:00.0"),
        },
        (),
    )
    assert found == GpuReference("GPU-a", "0000:1b:00.0")


def test_extended_profile_includes_the_media_extension() -> None:
    counter = SharedCounter(DRIVER, "n", "gpu-0-counter-set", "memory-slice-2")
    values = attributes(type="mig", parentUUID="GPU-a", profile="1g.10gb+me")
    found = find_gpu_reference(DRIVER, "x", values, [(counter, 10**9)])
    assert found == GpuReference("GPU-a", mask=0b100 | MEDIA_EXTENSION)


def test_simulated_devices_refer_to_the_slices_of_their_profile() -> None:
    slices = build_resource_slices("n-0", "uid", GpuSpec("NVIDIA-H200", 2, "141Gi", dra="mig"))
    for each in slices:
        each["metadata"].update(uid="u", resourceVersion="1")
    pool = convert_resource_pool(msgspec.convert(each, RESOURCE_SLICES.type) for each in slices)
    geometry = geometry_named("H200-141GB")
    assert pool is not None
    assert geometry is not None
    references = {each.id.name: each.gpu for each in pool.devices}
    assert references["gpu-1"] == GpuReference(derive_gpu_uuid("n-0", 1), "0000:1b:00.0", 1)
    half = geometry.profile("3g.71gb")
    found = references["gpu-1-mig-3g71gb-9-4"]
    assert half is not None
    assert found is not None
    assert found.mask == half.mask_at(4)
