"""What nodes are worth, and where a pod spoils least of it."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilonova.scheduler.core.demand import USUAL, Ask, Demand
from kilonova.scheduler.core.fragments import Largest, Left, Worth, fits, score, tightest_devices

GIB = 1 << 30
LARGEST = Largest(96_000, 384 * GIB, 8)

Node = tuple[int, int, Sequence[int]]
"""Cores, GiB, milli of devices."""


def ask(milli: int = 1000, gpus: int = 1, cores: int = 4, models: str = "") -> Ask:
    return Ask(cores * 1000, cores * 4 * GIB, gpus, milli, frozenset(models.split()))


def left(*nodes: Node) -> Left:
    gpus = np.zeros((len(nodes), 8), np.int16)
    for row, (_, _, devices) in zip(gpus, nodes, strict=True):
        row[: len(devices)] = devices
    cpu = np.array([cores * 1000 for cores, _, _ in nodes], np.int64)
    return Left(cpu, np.array([gib * GIB for _, gib, _ in nodes], np.int64), gpus)


def worth_of(*asks: tuple[Ask, float]) -> Worth:
    return Worth(Demand.of(dict(asks)), LARGEST)


SHARES = worth_of((ask(700), 3), (ask(300), 3), (ask(), 3), (ask(gpus=8, cores=32), 1))

asks = st.builds(
    ask,
    milli=st.sampled_from([50, 190, 250, 333, 500, 810, 1000]),
    gpus=st.integers(0, 8),
    cores=st.integers(1, 64),
)
demands = st.dictionaries(asks, st.floats(0.01, 10), min_size=1, max_size=12).map(Demand.of)
nodes = st.tuples(
    st.integers(-4, 96),
    st.integers(-4, 384),
    st.lists(st.one_of(st.just(1000), st.integers(-100, 1000)), max_size=8),
)
lefts = st.lists(nodes, min_size=1, max_size=12).map(lambda each: left(*each))


def best(worth: Worth, wanted: Ask, state: Left, prices: list[float] | None = None) -> int:
    given = None if prices is None else np.array(prices)
    return int(worth.waste(wanted, state, given).argmin())


@pytest.mark.parametrize(
    ("wanted", "better", "worse"),
    [
        # A share goes to the device that it fills, not to one that it breaks.
        (ask(300), (32, 128, [300, 1000]), (32, 128, [1000, 1000])),
        (ask(700), (32, 128, [700]), (32, 128, [1000])),
        # A hole that others fill whole is not spoilt.
        (ask(300), (32, 128, [300]), (32, 128, [700])),
        # Pods without GPUs go where there are none left.
        (ask(gpus=0, cores=8), (16, 64, [0, 0]), (16, 64, [1000, 1000])),
        # One GPU is taken from a node that cannot take eight any more.
        (ask(), (64, 256, [1000] * 4), (64, 256, [1000] * 8)),
        # Much CPU is taken where devices are few for it.
        (ask(cores=16), (64, 256, [1000] * 4), (32, 256, [1000] * 4)),
        # Little CPU is taken where it is scarce.
        (ask(cores=1), (8, 256, [1000] * 4), (96, 384, [1000] * 4)),
    ],
)
def test_a_pod_goes_where_it_spoils_less(wanted: Ask, better: Node, worse: Node) -> None:
    assert best(SHARES, wanted, left(better, worse)) == 0
    assert best(SHARES, wanted, left(worse, better)) == 1


def test_who_would_do_with_any_model_leaves_the_scarce_one() -> None:
    demand = Demand.of({ask(): 8, ask(models="A10"): 2})
    prices = demand.prices({"A10": 10, "H200": 30})
    assert prices == {"A10": pytest.approx(0.8), "H200": 0.0}
    state = left((64, 256, [1000] * 8), (64, 256, [1000] * 8))
    assert best(Worth(demand, LARGEST), ask(), state, [0.8, 0.0]) == 1


def test_a_sliver_that_nobody_fills_is_worth_nothing() -> None:
    state = left((32, 128, [290]), (32, 128, [300]), (2, 128, [300]), (32, 8, [300]))
    worth = SHARES.of(state)
    assert worth[0] == 0
    assert 200 < worth[1] <= 300
    assert worth[2] == worth[3] == 0


@given(demands, lefts)
def test_a_node_is_never_worth_more_than_is_free(demand: Demand, state: Left) -> None:
    worth = Worth(demand, LARGEST).of(state)
    free = state.gpus.clip(0).sum(axis=1, dtype=np.int64)
    # Asks are rounded up to whole steps of a device.
    assert (worth <= free + 10 * (state.gpus > 0).sum(axis=1)).all()
    assert np.isfinite(worth).all()


@given(demands, asks, lefts)
def test_rows_are_judged_alone(demand: Demand, wanted: Ask, state: Left) -> None:
    """A row has the same score whether it is asked for alone or with all others."""
    worth = Worth(demand, LARGEST)
    rows = np.flatnonzero(fits(wanted, state))
    together = score(worth.waste(wanted, state.at(rows)))
    assert ((together >= 0) & (together <= 100)).all()
    for position, row in enumerate(rows):
        alone = score(worth.waste(wanted, state.at(np.array([row]))))
        assert alone[0] == together[position]


@given(asks, lefts)
def test_a_pod_that_fits_is_given_different_devices_with_enough_left(
    wanted: Ask, state: Left
) -> None:
    rows = np.flatnonzero(fits(wanted, state))
    state = state.at(rows)
    devices = tightest_devices(wanted, state)
    assert devices.shape == (len(rows), wanted.gpus)
    after = state.after(wanted, devices)
    assert (after.gpus >= np.minimum(state.gpus, 0)).all()
    assert (after.cpu >= 0).all()
    taken = state.gpus.astype(int).sum(axis=1) - after.gpus.astype(int).sum(axis=1)
    assert (taken == wanted.amount).all()


@given(st.integers(10, 990), st.lists(st.sampled_from([0, 1000]), max_size=7))
def test_a_share_breaks_no_device_where_another_fits_exactly(milli: int, others: list[int]) -> None:
    state = left((96, 384, [*others, milli]))
    assert tightest_devices(ask(milli), state).tolist() == [[len(others)]]


def test_scores_fall_as_waste_grows() -> None:
    waste = np.array([-9000.0, -1000, -1, 0, 1, 1000, 9000])
    scores = score(waste)
    assert (np.diff(scores) < 0).all()
    assert scores[3] == 50
    assert ((scores > 0) & (scores < 100)).all()


def test_a_demand_without_gpus_or_memory_is_no_harm() -> None:
    state = left((32, 128, [1000, 300]))
    assert worth_of((ask(gpus=0), 1)).of(state).tolist() == [0]
    worth = worth_of((Ask(1000, 0, 1, 500), 1)).of(state)
    assert 900 < worth[0] <= 1000
    assert len(USUAL) < 32
