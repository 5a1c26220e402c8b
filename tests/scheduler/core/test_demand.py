"""What is learnt from arrivals."""

import pytest

from kilonova.scheduler.core.demand import USUAL, Arrivals, Ask, Demand

ONE, HALF = Ask(1000, 0, 1), Ask(1000, 0, 1, 500)


def test_weights_are_one_together() -> None:
    demand = Demand.of({ONE: 3, HALF: 1})
    assert demand.weights == {ONE: 0.75, HALF: 0.25}
    assert demand.amount() == 875


def test_a_demand_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one ask"):
        Demand.of({})


def test_before_anything_arrived_the_usual_is_expected() -> None:
    assert set(Arrivals().demand().weights) == set(USUAL)


def test_what_arrives_outweighs_what_was_expected() -> None:
    arrivals = Arrivals()
    arrivals.note([ONE] * 600)
    assert arrivals.demand().weights[ONE] > 0.98


def test_later_arrivals_count_more() -> None:
    arrivals = Arrivals()
    arrivals.note([ONE] * 20_000)
    arrivals.note([HALF] * 20_000)
    weights = arrivals.demand().weights
    assert weights[HALF] / weights[ONE] == pytest.approx(2, rel=0.01)


def test_it_is_asked_for_soon_in_the_beginning_and_seldom_later() -> None:
    arrivals = Arrivals()
    due: list[int] = []
    for number in range(1, 10_001):
        arrivals.note([ONE])
        if arrivals.is_due:
            due.append(number)
            arrivals.demand()
    assert due == [32, 64, 128, 256, 512, 1024, 2048, 4048, 6048, 8048]


def test_kinds_of_asks_are_bounded_and_the_frequent_stay() -> None:
    arrivals = Arrivals()
    arrivals.note([ONE] * 50)
    arrivals.note(Ask(cpu) for cpu in range(10_000))
    assert len(arrivals.counts) < 5_000
    assert ONE in arrivals.counts


def test_counts_stay_finite_for_ever() -> None:
    arrivals = Arrivals({ONE: 1e90}, _weight=2e100)
    arrivals.note([HALF])
    assert arrivals.counts[HALF] == pytest.approx(1, rel=1e-3)
    assert sum(arrivals.demand().weights.values()) == pytest.approx(1)


def test_models_that_nobody_insists_on_cost_nothing() -> None:
    demand = Demand.of({ONE: 1, Ask(0, 0, 1, 1000, frozenset({"A", "gone"})): 1})
    assert demand.prices({"A": 2, "B": 6, "empty": 0}) == {"A": 1.0, "B": 0.0, "empty": 0.0}
