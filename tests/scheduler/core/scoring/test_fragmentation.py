"""Usable capacity of nodes, and where a pod wastes least of it."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilonova.scheduler.core.scoring.demand import DEFAULT_REQUESTS, Demand, PackingRequest
from kilonova.scheduler.core.scoring.fragmentation import (
    FragmentationModel,
    FreeResources,
    LargestNode,
    find_fitting,
    score_waste,
    select_tightest_devices,
)

GIB = 1 << 30
LARGEST = LargestNode(96_000, 384 * GIB, 8)

Node = tuple[int, int, Sequence[int]]
"""Cores, GiB, milli of devices."""


def request(milli: int = 1000, gpus: int = 1, cores: int = 4, models: str = "") -> PackingRequest:
    return PackingRequest(cores * 1000, cores * 4 * GIB, gpus, milli, frozenset(models.split()))


def free_resources(*nodes: Node) -> FreeResources:
    gpus = np.zeros((len(nodes), 8), np.int16)
    for row, (_, _, devices) in zip(gpus, nodes, strict=True):
        row[: len(devices)] = devices
    cpu = np.array([cores * 1000 for cores, _, _ in nodes], np.int64)
    return FreeResources(cpu, np.array([gib * GIB for _, gib, _ in nodes], np.int64), gpus)


def build_model(*requests: tuple[PackingRequest, float]) -> FragmentationModel:
    return FragmentationModel(Demand.from_counts(dict(requests)), LARGEST)


SHARES_MODEL = build_model(
    (request(700), 3), (request(300), 3), (request(), 3), (request(gpus=8, cores=32), 1)
)

requests = st.builds(
    request,
    milli=st.sampled_from([50, 190, 250, 333, 500, 810, 1000]),
    gpus=st.integers(0, 8),
    cores=st.integers(1, 64),
)
demands = st.dictionaries(requests, st.floats(0.01, 10), min_size=1, max_size=12).map(
    Demand.from_counts
)
nodes = st.tuples(
    st.integers(-4, 96),
    st.integers(-4, 384),
    st.lists(st.one_of(st.just(1000), st.integers(-100, 1000)), max_size=8),
)
free_resource_lists = st.lists(nodes, min_size=1, max_size=12).map(
    lambda each: free_resources(*each)
)


def best_row(
    model: FragmentationModel,
    wanted: PackingRequest,
    state: FreeResources,
    prices: list[float] | None = None,
) -> int:
    given = None if prices is None else np.array(prices)
    return int(model.wasted_milli(wanted, state, given).argmin())


@pytest.mark.parametrize(
    ("wanted", "better", "worse"),
    [
        # A fraction goes to the device that it fills, not to an idle one.
        (request(300), (32, 128, [300, 1000]), (32, 128, [1000, 1000])),
        (request(700), (32, 128, [700]), (32, 128, [1000])),
        # A free fraction that other requests fill exactly is not split.
        (request(300), (32, 128, [300]), (32, 128, [700])),
        # Pods without GPUs go to nodes without idle GPUs.
        (request(gpus=0, cores=8), (16, 64, [0, 0]), (16, 64, [1000, 1000])),
        # One GPU is taken from a node that cannot fit a request for eight any more.
        (request(), (64, 256, [1000] * 4), (64, 256, [1000] * 8)),
        # A high CPU request goes where devices are few for the CPU.
        (request(cores=16), (64, 256, [1000] * 4), (32, 256, [1000] * 4)),
        # A low CPU request goes where CPU is scarce.
        (request(cores=1), (8, 256, [1000] * 4), (96, 384, [1000] * 4)),
    ],
)
def test_pod_goes_where_it_wastes_less(wanted: PackingRequest, better: Node, worse: Node) -> None:
    assert best_row(SHARES_MODEL, wanted, free_resources(better, worse)) == 0
    assert best_row(SHARES_MODEL, wanted, free_resources(worse, better)) == 1


def test_request_for_any_gpu_model_avoids_scarce_model() -> None:
    demand = Demand.from_counts({request(): 8, request(models="A10"): 2})
    prices = demand.model_scarcity({"A10": 10, "H200": 30})
    assert prices == {"A10": pytest.approx(0.8), "H200": 0.0}
    state = free_resources((64, 256, [1000] * 8), (64, 256, [1000] * 8))
    assert best_row(FragmentationModel(demand, LARGEST), request(), state, [0.8, 0.0]) == 1


def test_unusable_fraction_has_no_value() -> None:
    state = free_resources((32, 128, [290]), (32, 128, [300]), (2, 128, [300]), (32, 8, [300]))
    worth = SHARES_MODEL.usable_milli(state)
    assert worth[0] == 0
    assert 200 < worth[1] <= 300
    assert worth[2] == worth[3] == 0


@given(demands, free_resource_lists)
def test_value_never_exceeds_free_capacity(demand: Demand, state: FreeResources) -> None:
    worth = FragmentationModel(demand, LARGEST).usable_milli(state)
    free = state.gpus.clip(0).sum(axis=1, dtype=np.int64)
    # Requests are rounded up to whole steps of a device.
    assert (worth <= free + 10 * (state.gpus > 0).sum(axis=1)).all()
    assert np.isfinite(worth).all()


@given(demands, requests, free_resource_lists)
def test_rows_are_scored_independently(
    demand: Demand, wanted: PackingRequest, state: FreeResources
) -> None:
    """A row has the same score alone or among others."""
    worth = FragmentationModel(demand, LARGEST)
    rows = np.flatnonzero(find_fitting(wanted, state))
    together = score_waste(worth.wasted_milli(wanted, state.select_rows(rows)))
    assert ((together >= 0) & (together <= 100)).all()
    for position, row in enumerate(rows):
        alone = score_waste(worth.wasted_milli(wanted, state.select_rows(np.array([row]))))
        assert alone[0] == together[position]


@given(requests, free_resource_lists)
def test_fitting_pod_gets_distinct_devices_with_enough_free(
    wanted: PackingRequest, state: FreeResources
) -> None:
    rows = np.flatnonzero(find_fitting(wanted, state))
    state = state.select_rows(rows)
    devices = select_tightest_devices(wanted, state)
    assert devices.shape == (len(rows), wanted.gpus)
    after = state.after_placing(wanted, devices)
    assert (after.gpus >= np.minimum(state.gpus, 0)).all()
    assert (after.cpu >= 0).all()
    taken = state.gpus.astype(int).sum(axis=1) - after.gpus.astype(int).sum(axis=1)
    assert (taken == wanted.gpu_milli).all()


@given(st.integers(10, 990), st.lists(st.sampled_from([0, 1000]), max_size=7))
def test_share_prefers_exactly_fitting_device(milli: int, others: list[int]) -> None:
    state = free_resources((96, 384, [*others, milli]))
    assert select_tightest_devices(request(milli), state).tolist() == [[len(others)]]


def test_scores_fall_as_waste_grows() -> None:
    waste = np.array([-9000.0, -1000, -1, 0, 1, 1000, 9000])
    scores = score_waste(waste)
    assert (np.diff(scores) < 0).all()
    assert scores[3] == 50
    assert ((scores > 0) & (scores < 100)).all()


def test_demand_without_gpus_or_memory_is_valid() -> None:
    state = free_resources((32, 128, [1000, 300]))
    assert build_model((request(gpus=0), 1)).usable_milli(state).tolist() == [0]
    worth = build_model((PackingRequest(1000, 0, 1, 500), 1)).usable_milli(state)
    assert 900 < worth[0] <= 1000
    assert len(DEFAULT_REQUESTS) < 32
