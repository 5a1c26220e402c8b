"""Simulated nodes, read as any other: the scheduler knows how their GPUs are joined."""

from datetime import UTC, datetime

import msgspec
import pytest

from kilonova.local.nodes.fleet import Fleet, NodeGroup, shapes
from kilonova.local.nodes.fleet import Gpu as FleetGpu
from kilonova.local.nodes.objects import gpu_state, node_object
from kilonova.scheduler.core.devices import Gpu, Layout
from kilonova.scheduler.core.mig_parts import geometry_of, known_geometry
from kilonova.scheduler.core.nodes import Node
from kilonova.scheduler.objects import Node as WireNode
from kilonova.scheduler.reading.nodes import node_of

H100 = FleetGpu("NVIDIA-H100-80GB-HBM3", 8)


def read(gpu: FleetGpu, *lost: int) -> tuple[Layout, Node]:
    (shape,) = shapes(Fleet((NodeGroup("n", gpu=gpu),)))
    body = node_object(shape, datetime(2026, 1, 1, tzinfo=UTC))
    state = gpu_state(shape, frozenset(lost))
    body["metadata"] |= {"uid": "u", "resourceVersion": "1", **state["metadata"]}
    body["status"] |= state["status"]
    node, problem = node_of(msgspec.convert(body, WireNode))
    assert problem is None
    assert node.layout is not None
    return node.layout, node


def test_eight_h100s_are_read_as_they_stand() -> None:
    layout, _ = read(H100)
    assert layout == Layout(
        tuple(
            Gpu(
                index,
                81920,
                "NVIDIA-H100-80GB-HBM3",
                "Hopper",
                numa=index // 4,
                pcie=str(index // 2),
                port=900,
                mig=known_geometry("H100-80GB"),
            )
            for index in range(8)
        )
    )


def test_a_lost_gpu_is_not_well_and_counts_no_more() -> None:
    layout, node = read(H100, 2)
    assert [gpu.healthy for gpu in layout.gpus] == [index != 2 for index in range(8)]
    assert node.allocatable["nvidia.com/gpu"] == 7


@pytest.mark.parametrize(
    ("model", "memory"),
    [
        ("NVIDIA-A30", 24),
        ("NVIDIA-A100-SXM4-40GB", 40),
        ("NVIDIA-A100-80GB-PCIe", 80),
        ("NVIDIA-H100-80GB-HBM3", 80),
        ("NVIDIA-H100-NVL", 94),
        ("NVIDIA-H100-96GB", 96),
        ("NVIDIA-H200", 141),
        ("NVIDIA-B200", 180),
        ("NVIDIA-GB200", 186),
        ("NVIDIA-B300", 269),
        ("NVIDIA-GB300", 278),
        ("NVIDIA-L40S", 48),
        ("Tesla-V100-SXM2-32GB", 32),
        ("Abacus", 1),
    ],
)
def test_parts_can_be_split_as_the_scheduler_knows_them(model: str, memory: int) -> None:
    for count in (1, 4, 8):
        layout, _ = read(FleetGpu(model, count, f"{memory}Gi"))
        assert [gpu.mig for gpu in layout.gpus] == [geometry_of(model, memory * 1024)] * count


def test_what_a_node_does_not_tell_is_known_by_its_labels() -> None:
    layout, _ = read(FleetGpu("NVIDIA-H100-80GB-HBM3", 2, topology="none"))
    known = 81920, "NVIDIA-H100-80GB-HBM3", "hopper"
    assert layout == Layout((Gpu(0, *known), Gpu(1, *known)))
