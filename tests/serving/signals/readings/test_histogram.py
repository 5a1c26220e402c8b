"""Distributions: quantiles, differences and sums."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilonova.serving.signals.readings.histogram import Histogram, add, subtract

HISTOGRAM = Histogram(sum=6.0, count=10, bounds=(0.1, 0.5, 1.0), cumulative=(2, 8, 9))


@pytest.mark.parametrize(
    ("share", "value"),
    [(0.1, 0.05), (0.2, 0.1), (0.5, 0.3), (0.8, 0.5), (0.85, 0.75), (0.95, 1.0), (1.0, 1.0)],
)
def test_quantile_is_interpolated_within_its_bucket(share: float, value: float) -> None:
    assert HISTOGRAM.quantile(share) == pytest.approx(value)


@pytest.mark.parametrize("histogram", [Histogram(), Histogram(sum=3.0, count=4)])
def test_without_observations_or_buckets_there_is_no_quantile(histogram: Histogram) -> None:
    assert histogram.quantile(0.95) is None


def test_part_of_an_observation_has_no_mean() -> None:
    assert Histogram(1e18, 1e-300).mean is None


def test_mean() -> None:
    assert HISTOGRAM.mean == pytest.approx(0.6)
    assert Histogram().mean is None


def test_difference_is_what_was_observed_between() -> None:
    later = Histogram(9.0, 14, HISTOGRAM.bounds, (2, 9, 12))
    assert subtract(later, HISTOGRAM) == Histogram(3.0, 4, HISTOGRAM.bounds, (0, 1, 3))


@pytest.mark.parametrize(
    "later",
    [
        Histogram(0.5, 1, HISTOGRAM.bounds, (1, 1, 1)),
        Histogram(9.0, 14, (0.2, 0.5), (3, 9)),
        Histogram(9.0, 14, HISTOGRAM.bounds, (1, 9, 12)),
    ],
)
def test_after_a_restart_nothing_is_known_of_the_interval(later: Histogram) -> None:
    assert subtract(later, HISTOGRAM) is None


def test_sum_of_different_buckets_has_the_bounds_of_all() -> None:
    other = Histogram(1.0, 2, (0.3,), (2,))
    total = add([HISTOGRAM, other])
    assert total.bounds == (0.1, 0.3, 0.5, 1.0)
    assert total.cumulative == pytest.approx((2 + 2 / 3, 5 + 2, 8 + 2, 9 + 2))
    assert (total.sum, total.count) == (7.0, 12)


def test_sum_with_a_server_that_has_no_buckets_knows_the_mean_alone() -> None:
    total = add([HISTOGRAM, Histogram(4.0, 10)])
    assert total.mean == pytest.approx(0.5)
    assert total.quantile(0.5) is None


counts = st.lists(st.integers(0, 50), min_size=3, max_size=3)


@given(counts, st.integers(0, 20), st.floats(0, 1), st.floats(0, 1))
def test_quantiles_are_ordered_and_within_the_bounds(
    buckets: list[int], above: int, one: float, other: float
) -> None:
    cumulative = (buckets[0], buckets[0] + buckets[1], sum(buckets))
    histogram = Histogram(1.0, sum(buckets) + above, (0.1, 0.5, 1.0), cumulative)
    lower, upper = histogram.quantile(min(one, other)), histogram.quantile(max(one, other))
    if histogram.count:
        assert lower is not None
        assert upper is not None
        assert 0 <= lower <= upper <= 1.0
