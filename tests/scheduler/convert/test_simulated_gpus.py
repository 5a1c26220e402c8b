"""Simulated nodes convert like any other: the GPU topology is known."""

from datetime import UTC, datetime

import msgspec
import pytest

from kilonova.catalog import load_catalog
from kilonova.catalog.mig import geometry_named
from kilonova.local.simnodes.fleet.model import Fleet, NodeGroup, iter_fleet_nodes
from kilonova.local.simnodes.fleet.model import GpuSpec as FleetGpu
from kilonova.local.simnodes.objects import build_gpu_patch, build_node
from kilonova.scheduler.convert.nodes import convert_node
from kilonova.scheduler.core.gpu.layout import Gpu, GpuLayout
from kilonova.scheduler.core.model.nodes import Node
from kilonova.scheduler.objects.core_v1 import Node as WireNode

H100 = FleetGpu("NVIDIA-H100-80GB-HBM3", 8)


def convert_simulated_node(gpu: FleetGpu, *lost: int) -> tuple[GpuLayout, Node]:
    (shape,) = iter_fleet_nodes(Fleet((NodeGroup("n", gpu=gpu),)))
    body = build_node(shape, "{}", datetime(2026, 1, 1, tzinfo=UTC))
    state = build_gpu_patch(shape, frozenset(lost))
    body["metadata"] |= {"uid": "u", "resourceVersion": "1", **state["metadata"]}
    body["status"] |= state["status"]
    node, problem = convert_node(msgspec.convert(body, WireNode))
    assert problem is None
    assert node.layout is not None
    return node.layout, node


def test_eight_h100s_are_converted() -> None:
    layout, _ = convert_simulated_node(H100)
    assert layout == GpuLayout(
        tuple(
            Gpu(
                index,
                81920,
                "NVIDIA-H100-80GB-HBM3",
                "Hopper",
                numa=index // 4,
                pcie=str(index // 2),
                port=900,
                mig=geometry_named("H100-80GB"),
            )
            for index in range(8)
        )
    )


def test_lost_gpu_is_unhealthy_and_not_counted() -> None:
    layout, node = convert_simulated_node(H100, 2)
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
def test_simulated_gpus_have_known_mig_geometries(model: str, memory: int) -> None:
    for count in (1, 4, 8):
        layout, _ = convert_simulated_node(FleetGpu(model, count, f"{memory}Gi"))
        known = load_catalog().find_gpu(model, memory * 1024)
        geometry = None if known is None else geometry_named(known.mig)
        assert [gpu.mig for gpu in layout.gpus] == [geometry] * count


def test_missing_topology_is_filled_from_labels() -> None:
    layout, _ = convert_simulated_node(FleetGpu("NVIDIA-H100-80GB-HBM3", 2, topology="none"))
    known = 81920, "NVIDIA-H100-80GB-HBM3", "hopper"
    assert layout == GpuLayout((Gpu(0, *known), Gpu(1, *known)))
