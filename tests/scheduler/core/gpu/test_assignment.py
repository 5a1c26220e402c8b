"""A node with free capacity for a number of pods has devices for all of them."""

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kilonova.catalog.mig import geometry_named
from kilonova.catalog.resource_names import GPU
from kilonova.scheduler.core.filters.feasibility import FeasibilityCache, count_fitting
from kilonova.scheduler.core.gpu.assignment import assign_devices, make_placements
from kilonova.scheduler.core.gpu.layout import MILLI_PER_GPU, Gpu, GpuLayout, GpuShare
from kilonova.scheduler.core.model.gangs import Member
from kilonova.scheduler.core.model.nodes import Node
from kilonova.scheduler.core.model.pod_placement import PodPlacement
from kilonova.scheduler.core.model.requests import GpuPreference, GpuRequest, Shape
from tests.harness.campaigns import limit_examples
from tests.scheduler.core.support.clusters import node, snapshot_of, tight

H100, A30 = geometry_named("H100-80GB"), geometry_named("A30-24GB")

devices = st.builds(
    Gpu,
    index=st.just(0),
    memory=st.sampled_from([0, 24576, 81559]),
    model=st.sampled_from(["NVIDIA-H100-80GB-HBM3", "NVIDIA-A30"]),
    numa=st.integers(-1, 1),
    port=st.sampled_from([0, 0, 900]),
    mig=st.sampled_from([None, H100, A30]),
    healthy=st.sampled_from([True, True, True, False]),
    withheld=st.sampled_from([False, False, False, True]),
)
chains = st.lists(st.sampled_from([0, 50, 100]), min_size=5, max_size=5)
gpu_requests = st.one_of(
    st.builds(
        GpuRequest,
        count=st.integers(1, 3),
        milli=st.sampled_from([0, 100, 300, 500, MILLI_PER_GPU, MILLI_PER_GPU]),
        memory=st.sampled_from([1000, 24576]),
        models=st.sampled_from([(), ("A30",)]),
        preference=st.sampled_from(list(GpuPreference)),
        bandwidth=st.sampled_from([0, 50]),
        share_memory=st.sampled_from([0, 0, 4000, 20_000]),
    ),
    st.builds(
        GpuRequest,
        count=st.integers(1, 3),
        profile=st.sampled_from(["1g.10gb", "1g.10gb+me", "3g.40gb", "1g.6gb", "2g.12gb+me"]),
        models=st.sampled_from([(), ("A30",)]),
    ),
)


def build_layout(gpus: list[Gpu], chain: list[int]) -> GpuLayout:
    fields = [replace(gpu, index=index) for index, gpu in enumerate(gpus)]
    links = [(i, i + 1, speed) for i, speed in enumerate(chain[: len(gpus) - 1]) if speed]
    return GpuLayout(tuple(fields), tuple(links))


def shape_of(gpu_request: GpuRequest) -> Shape:
    return Shape(((GPU, gpu_request.count),) if gpu_request.is_whole else (), gpu_request)


@settings(max_examples=limit_examples(300), deadline=None)
@given(
    st.lists(devices, min_size=1, max_size=6),
    chains,
    st.lists(gpu_requests, min_size=1, max_size=4),
)
def test_free_capacity_implies_assignable_devices(
    gpus: list[Gpu], chain: list[int], wanted: list[GpuRequest]
) -> None:
    layout = build_layout(gpus, chain)
    snapshot = snapshot_of(Node("a", {GPU: len(gpus)}, layout=layout))
    free, masks = snapshot.gpu_free[0].copy(), snapshot.gpu_mask[0].copy()
    memory = free.copy()
    for number, request in enumerate(wanted):
        shape = shape_of(request)
        capacity = int(count_fitting(snapshot, shape, np.array([0]))[0])
        given_to = assign_devices(snapshot, 0, shape, capacity)
        assert len(given_to) == capacity
        for pod, shares in enumerate(given_to[: 1 + capacity // 2]):
            assert len({(share.index, share.start) for share in shares}) == request.count
            for share in shares:
                assert share.mask or gpus[share.index].is_offered
                assert free[share.index] >= share.milli
                assert not masks[share.index] & share.mask
                free[share.index] -= share.milli
                assert memory[share.index] >= share.memory_milli
                memory[share.index] -= share.memory_milli
                masks[share.index] |= share.mask
            snapshot.add_pod(PodPlacement(Member(f"{number}-{pod}", shape), 0, shares))
        assert snapshot.gpu_free[0].tolist() == free.tolist()
        assert snapshot.gpu_mask[0].tolist() == masks.tolist()
        assert snapshot.free_gpu_memory(0) == memory[: len(gpus)].tolist()


def test_withheld_device_gives_instances_only() -> None:
    gpus = (Gpu(0, 81_559, mig=H100, withheld=True), Gpu(1, 81_559, mig=H100))
    snapshot = snapshot_of(replace(node("a", 1), layout=GpuLayout(gpus)))
    whole, both = Shape(((GPU, 1),), GpuRequest(1)), Shape(((GPU, 2),), GpuRequest(2))
    share = Shape((("pods", 1),), GpuRequest(1, 500))
    instances = Shape((("pods", 1),), GpuRequest(7, profile="1g.10gb"))

    def free(of: Shape) -> int:
        return int(FeasibilityCache(snapshot, tight).free_capacity(of)[0])

    assert [free(each) for each in (whole, both, share, instances)] == [1, 0, 2, 2]
    assert assign_devices(snapshot, 0, whole, 1) == [(GpuShare(1),)]
    [placement] = make_placements(snapshot, 0, [Member("ns/whole", whole)], "gang")
    snapshot.add_pod(placement)
    assert [free(each) for each in (whole, both, share, instances)] == [0, 0, 0, 1]
    [(first, *_)] = assign_devices(snapshot, 0, instances, 1)
    assert first.index == 0


def test_compute_and_memory_of_shares_are_admitted_separately() -> None:
    snapshot = snapshot_of(replace(node("a", 1), layout=GpuLayout((Gpu(0, 80_000),))))
    lean = Shape((("pods", 1),), GpuRequest(1, 100, share_memory=40_000))
    busy = Shape((("pods", 1),), GpuRequest(1, 800, share_memory=8_000))
    even = Shape((("pods", 1),), GpuRequest(1, 250))

    def free(of: Shape) -> int:
        return int(FeasibilityCache(snapshot, tight).free_capacity(of)[0])

    def place(pod: str, of: Shape) -> tuple[GpuShare, ...]:
        [placement] = make_placements(snapshot, 0, [Member(pod, of)], pod)
        snapshot.add_pod(placement)
        return placement.devices

    assert [free(each) for each in (lean, busy, even)] == [2, 1, 4]
    assert place("ns/lean", lean) == (GpuShare(0, 100, memory=500),)
    assert [free(each) for each in (lean, busy, even)] == [1, 1, 2]
    assert place("ns/busy", busy) == (GpuShare(0, 800, memory=100),)
    assert [free(each) for each in (lean, busy, even)] == [0, 0, 0]
    snapshot.remove_pod("ns/lean")
    assert [free(each) for each in (lean, busy, even)] == [1, 0, 0]
    assert snapshot.copy().free_gpu_memory(0) == [900]
    snapshot.remove_pod("ns/busy")
    assert not snapshot.gpu_excess.any()


def test_share_of_memory_alone_takes_compute_in_proportion() -> None:
    snapshot = snapshot_of(replace(node("a", 1), layout=GpuLayout((Gpu(0, 80_000),))))
    of = Shape((("pods", 1),), GpuRequest(1, 0, memory=30_000, share_memory=20_000))
    assert assign_devices(snapshot, 0, of, 1) == [(GpuShare(0, 250),)]
