"""The `fit` plugin on the nodes of a snapshot."""

from collections import Counter

import numpy as np
import pytest

from kilonova.catalog.resource_names import GPU
from kilonova.scheduler.core.filters.feasibility import FeasibilityCache
from kilonova.scheduler.core.gpu.layout import Gpu, GpuLayout
from kilonova.scheduler.core.model.nodes import Node
from kilonova.scheduler.core.model.requests import GpuRequest, Shape
from kilonova.scheduler.core.model.snapshot import Snapshot
from kilonova.scheduler.core.placement.placer import Placer
from kilonova.scheduler.core.scoring.demand import Demand, PackingRequest
from kilonova.scheduler.core.scoring.fragmentation import (
    FragmentationModel,
    FreeResources,
    LargestNode,
    score_waste,
)
from kilonova.scheduler.core.scoring.packing_fit import PackingFit, packing_request
from tests.scheduler.core.support.clusters import gang, group, node, shape, snapshot_of

GIB = 1 << 30


def modelled(name: str, model: str, gpus: int = 4, memory: int = 0) -> Node:
    layout = GpuLayout(tuple(Gpu(index, memory, model) for index in range(gpus)))
    amounts = {"cpu": 64_000, "memory": 256 * GIB, "pods": 110, GPU: gpus}
    return Node(name, amounts, layout=layout)


def scores(snapshot: Snapshot, wanted: Shape, demand: Demand | None = None) -> list[float]:
    fit = PackingFit.from_snapshot(snapshot, demand)
    return fit(snapshot, wanted, np.arange(snapshot.size)).tolist()


def place(snapshot: Snapshot, *shapes: Shape) -> list[str]:
    """The nodes of single pods, placed one after the other."""
    placer = Placer(snapshot, FeasibilityCache(snapshot, PackingFit.from_snapshot(snapshot)))
    found: list[str] = []
    for number, wanted in enumerate(shapes):
        placements = placer.place(gang(f"g-{number}", group(f"g-{number}", 1, of=wanted)))
        assert placements is not None
        found.append(snapshot.names[placements[0].row])
    return found


def test_score_is_fragmentation_value_of_free_resources() -> None:
    snapshot = snapshot_of(node("a", 2), node("b", 8), node("c", 0, 8_000))
    fit = PackingFit.from_snapshot(snapshot, Demand.from_counts({PackingRequest(8_000, GIB, 1): 1}))
    worth = FragmentationModel(
        Demand.from_counts({PackingRequest(8_000, GIB, 1): 1}), LargestNode(64_000, 256 * GIB, 8)
    )
    rows = np.array([0, 1])
    left = FreeResources(snapshot.free[1, rows], snapshot.free[2, rows], snapshot.gpu_free[rows])
    wanted = shape()
    assert (
        fit(snapshot, wanted, rows).tolist()
        == score_waste(worth.wasted_milli(packing_request(wanted), left, np.zeros(2))).tolist()
    )


def test_gpu_shares_are_packed_and_whole_nodes_stay_free() -> None:
    snapshot = snapshot_of(node("a"), node("b"))
    half = shape(milli=500)
    assert place(snapshot, half, half, half, half, shape(8)) == ["a", "a", "a", "a", "b"]
    assert Counter(snapshot.gpu_free[0].tolist()) == {0: 2, 1000: 6}


def test_pods_without_gpus_spare_cpu_of_gpu_nodes() -> None:
    snapshot = snapshot_of(node("a", 8), node("b", 0), node("c", 8))
    assert place(snapshot, shape(0, 16_000), shape(0, 16_000)) == ["b", "b"]


def test_scarce_model_is_left_to_pods_that_require_it() -> None:
    snapshot = snapshot_of(modelled("a", "NVIDIA-A10"), modelled("b", "NVIDIA-H200"))
    demand = Demand.from_counts(
        {PackingRequest(1000, GIB, 1): 1, PackingRequest(1000, GIB, 1, 1000, frozenset({"a10"})): 1}
    )
    first, second = scores(snapshot, shape(), demand)
    assert first < second


def test_share_by_memory_is_scored_per_node_devices() -> None:
    snapshot = snapshot_of(
        modelled("a", "A10", memory=24_000), modelled("b", "H200", memory=48_000)
    )
    wanted = Shape((("cpu", 1000),), GpuRequest(1, 0, memory=12_000))
    halves = Shape((("cpu", 1000),), GpuRequest(1, 500))
    quarters = Shape((("cpu", 1000),), GpuRequest(1, 250))
    assert scores(snapshot, wanted) == [
        scores(snapshot, halves)[0],
        scores(snapshot, quarters)[1],
    ]


def test_mig_requests_are_scored_by_cpu_and_memory_only() -> None:
    wanted = Shape((("cpu", 1000), ("memory", GIB)), GpuRequest(1, 1000, profile="1g.10gb"))
    assert packing_request(wanted) == PackingRequest(1000, GIB)


def test_nodes_added_later_are_scored_too() -> None:
    snapshot = snapshot_of(node("a", 2))
    fit = PackingFit.from_snapshot(snapshot)
    snapshot.put_node(modelled("b", "B200", gpus=16))
    found = fit(snapshot, shape(), np.array([0, 1]))
    assert ((found > 0) & (found < 100)).all()


@pytest.mark.parametrize("empty", [Snapshot(), snapshot_of(node("a", 0))])
def test_cluster_without_gpus_is_scored(empty: Snapshot) -> None:
    rows = np.arange(empty.size)
    assert len(PackingFit.from_snapshot(empty)(empty, shape(0), rows)) == empty.size
