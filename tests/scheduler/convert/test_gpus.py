"""Annotations and labels to layouts and shares, and back."""

import pytest

from kilonova.api.gpu.annotations import DEVICES, TOPOLOGY, InvalidAnnotation
from kilonova.catalog.mig import geometry_named
from kilonova.scheduler.convert.gpus import (
    NodeGpus,
    convert_devices,
    convert_node_gpus,
    encode_devices,
)
from kilonova.scheduler.core.gpu.identity import GpuId
from kilonova.scheduler.core.gpu.layout import Gpu, GpuLayout, GpuShare
from kilonova.scheduler.core.gpu.selection import select_devices
from kilonova.scheduler.core.model.requests import GpuRequest

H100 = geometry_named("H100-80GB")
MIG_LAYOUT = GpuLayout((Gpu(0), Gpu(1, mig=H100)))


def test_devices_are_identified_by_uuid_and_pci_address() -> None:
    text = '{"gpus":[{"uuid":"GPU-a","pci":"00000000:2A:00.0"},{}]}'
    found = convert_node_gpus({TOPOLOGY: text}, {}, 8)
    assert isinstance(found, NodeGpus)
    assert found.ids == (GpuId("GPU-a", "0000:2a:00.0"), GpuId())


def convert_layout(text: str) -> GpuLayout | InvalidAnnotation:
    found = convert_node_gpus({TOPOLOGY: text}, {}, 8)
    return found if isinstance(found, InvalidAnnotation) else found.layout


def test_device_fields_override_node_fields() -> None:
    text = (
        '{"product":"NVIDIA-H100-80GB-HBM3","memory":81559,"architecture":"Hopper","port":900,'
        '"mig":"H100-80GB","gpus":[{"uuid":"GPU-a","numa":0,"pcie":"15"},'
        '{"numa":1,"mig":"","memory":1,"port":0,"healthy":false}]}'
    )
    layout = convert_layout(text)
    assert isinstance(layout, GpuLayout)
    product = "NVIDIA-H100-80GB-HBM3"
    assert layout.gpus == (
        Gpu(0, 81559, product, "Hopper", 0, "15", 900, H100),
        Gpu(1, 1, product, "Hopper", 1, healthy=False),
    )


def test_links_are_read_in_either_direction() -> None:
    layout = convert_layout('{"gpus":[{},{},{}],"links":[[1,0,50],[0,1,50],[1,2,25]]}')
    assert isinstance(layout, GpuLayout)
    assert layout.links == ((0, 1, 50), (1, 2, 25))


def test_reported_geometry_overrides_the_known_one() -> None:
    layout = convert_layout(
        '{"gpus":[{}],"mig":"H100-80GB","geometries":{"H100-80GB":'
        '[{"name":"1g.1gb","compute":1,"slices":1,"starts":[0,1],"limit":2}]}}'
    )
    assert isinstance(layout, GpuLayout)
    assert layout.has_profile("1g.1gb")
    assert not layout.has_profile("1g.10gb")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('{"gpus":[{}],"mig":"H900"}', "device 0: MIG geometry 'H900'"),
        ('{"gpus":[{}],"links":[[0,1,5]]}', "link 0-1"),
        ('{"gpus":[{},{}],"links":[[1,1,5]]}', "link 1-1"),
        ('{"gpus":[{},{}],"links":[[0,1,0]]}', "0 GB/s"),
        (
            '{"gpus":[],"geometries":{"x":[{"name":"9g","slices":9,"starts":[0],"limit":1}]}}',
            "profile 9g reaches past",
        ),
        ("{", "truncated"),
    ],
)
def test_inconsistent_topology_is_reported(text: str, complaint: str) -> None:
    answer = convert_layout(text)
    assert isinstance(answer, InvalidAnnotation)
    assert complaint in answer.problem


def test_feature_discovery_labels_give_the_model() -> None:
    labels = {
        "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB",
        "nvidia.com/gpu.memory": "40960",
        "nvidia.com/gpu.family": "ampere",
    }
    gpu = Gpu(0, 40960, "NVIDIA-A100-SXM4-40GB", "ampere")
    assert convert_node_gpus({}, labels, 1) == NodeGpus(GpuLayout((gpu,)))
    for text in ("much", "-1", "9" * 60):
        unknown = NodeGpus(GpuLayout.of_unknown(2))
        assert convert_node_gpus({}, {"nvidia.com/gpu.memory": text}, 2) == unknown


@pytest.mark.parametrize(
    "text", ["0", "0,1", "0:300", "0:250,1:1g.10gb@4", "1:1g.10gb+me@6", "1:1g.10gb@0,1:1g.10gb@1"]
)
def test_device_assignment_round_trips(text: str) -> None:
    shares = convert_devices(text, MIG_LAYOUT)
    assert not isinstance(shares, InvalidAnnotation)
    assert encode_devices(shares) == text


def test_mig_instance_has_its_slice_mask() -> None:
    assert convert_devices("1:2g.20gb@4", MIG_LAYOUT) == (GpuShare(1, 0, "2g.20gb", 4, 0b110000),)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("2", "2: the node has 2 devices"),
        ("0:1g.10gb@0", "no such MIG profile"),
        ("1:1g.5gb@0", "no such MIG profile"),
        ("1:2g.20gb@1", "2g.20gb starts at 0, 2, 4"),
        ("0,1,0", "0: the device is assigned twice"),
        ("1:500,1:1g.10gb@0", "1:1g.10gb@0: the device is assigned twice"),
        ("1:2g.20gb@4,1:1g.10gb@5", "1:1g.10gb@5: the device is assigned twice"),
        ("x", "'x'"),
    ],
)
def test_impossible_device_assignment_is_reported(text: str, complaint: str) -> None:
    answer = convert_devices(text, MIG_LAYOUT)
    assert isinstance(answer, InvalidAnnotation)
    assert answer.annotation == DEVICES
    assert complaint in answer.problem


def test_selected_devices_round_trip() -> None:
    request = GpuRequest(2, profile="1g.10gb")
    choice = select_devices(MIG_LAYOUT, [1000, 1000], [0, 0], request)
    assert choice is not None
    assert convert_devices(encode_devices(choice.shares), MIG_LAYOUT) == choice.shares
