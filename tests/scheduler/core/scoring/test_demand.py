"""The demand learned from arrivals."""

import pytest

from kilonova.scheduler.core.scoring.demand import (
    DEFAULT_REQUESTS,
    ArrivalStatistics,
    Demand,
    PackingRequest,
)

ONE, HALF = PackingRequest(1000, 0, 1), PackingRequest(1000, 0, 1, 500)


def test_weights_are_one_together() -> None:
    demand = Demand.from_counts({ONE: 3, HALF: 1})
    assert demand.weights == {ONE: 0.75, HALF: 0.25}
    assert demand.mean_gpu_milli() == 875


def test_empty_demand_is_rejected() -> None:
    with pytest.raises(ValueError, match="at least one request"):
        Demand.from_counts({})


def test_default_requests_apply_before_first_arrival() -> None:
    assert set(ArrivalStatistics().compute_demand().weights) == set(DEFAULT_REQUESTS)


def test_what_arrives_outweighs_what_was_expected() -> None:
    arrivals = ArrivalStatistics()
    arrivals.record([ONE] * 600)
    assert arrivals.compute_demand().weights[ONE] > 0.98


def test_later_arrivals_count_more() -> None:
    arrivals = ArrivalStatistics()
    arrivals.record([ONE] * 20_000)
    arrivals.record([HALF] * 20_000)
    weights = arrivals.compute_demand().weights
    assert weights[HALF] / weights[ONE] == pytest.approx(2, rel=0.01)


def test_refresh_is_frequent_at_first_and_rare_later() -> None:
    arrivals = ArrivalStatistics()
    due: list[int] = []
    for number in range(1, 10_001):
        arrivals.record([ONE])
        if arrivals.is_refresh_due:
            due.append(number)
            arrivals.compute_demand()
    assert due == [32, 64, 128, 256, 512, 1024, 2048, 4048, 6048, 8048]


def test_request_kinds_are_bounded_and_frequent_ones_stay() -> None:
    arrivals = ArrivalStatistics()
    arrivals.record([ONE] * 50)
    arrivals.record(PackingRequest(cpu) for cpu in range(10_000))
    assert len(arrivals.counts) < 5_000
    assert ONE in arrivals.counts


def test_counts_stay_finite_for_ever() -> None:
    arrivals = ArrivalStatistics({ONE: 1e90}, _weight=2e100)
    arrivals.record([HALF])
    assert arrivals.counts[HALF] == pytest.approx(1, rel=1e-3)
    assert sum(arrivals.compute_demand().weights.values()) == pytest.approx(1)


def test_models_without_specific_requests_are_not_scarce() -> None:
    demand = Demand.from_counts(
        {ONE: 1, PackingRequest(0, 0, 1, 1000, frozenset({"A", "gone"})): 1}
    )
    assert demand.model_scarcity({"A": 2, "B": 6, "empty": 0}) == {"A": 1.0, "B": 0.0, "empty": 0.0}
