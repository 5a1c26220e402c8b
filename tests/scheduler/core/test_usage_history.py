"""History: the mean of what was used, the older the less."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilonova.scheduler.core.forest import forest_of
from kilonova.scheduler.core.history import History
from kilonova.scheduler.core.ledgers import Ledger
from kilonova.scheduler.core.shares import Shares
from tests.scheduler.core.queue_cases import GPU, ledger, two_departments

HOUR = 3600.0
BEGUN = History(HOUR, at=0.0)


def mean(history: History, queue: str = "chat") -> float:
    return history.mean.get(queue, {}).get(GPU, 0.0)


def test_a_half_life_brings_it_half_way() -> None:
    used, idle = ledger(two_departments(), chat=8), Ledger(two_departments())
    busy = BEGUN.advanced(used, HOUR)
    assert mean(busy) == pytest.approx(4)
    assert mean(busy, "products") == pytest.approx(4)
    assert mean(busy.advanced(used, 2 * HOUR)) == pytest.approx(6)
    assert mean(busy.advanced(idle, 2 * HOUR)) == pytest.approx(2)


def test_it_begins_when_it_is_first_told_the_time() -> None:
    begun = History(HOUR).advanced(ledger(two_departments(), chat=8), 1e9)
    assert (begun.at, dict(begun.mean)) == (1e9, {})


def test_a_clock_that_goes_back_makes_no_history() -> None:
    used = ledger(two_departments(), chat=8)
    busy = BEGUN.advanced(used, HOUR)
    assert busy.advanced(used, 0.0) == busy
    assert busy.advanced(used, HOUR) == busy


def test_what_is_long_past_is_forgotten() -> None:
    busy = BEGUN.advanced(ledger(two_departments(), chat=8), HOUR)
    assert set(busy.mean) == {"chat", "products"}
    assert set(busy.advanced(Ledger(forest_of([])), 2 * HOUR).mean) == {"chat", "products"}
    assert dict(busy.advanced(Ledger(forest_of([])), 100 * HOUR).mean) == {}


def test_the_past_is_measured_by_the_fair_share() -> None:
    busy = BEGUN.advanced(ledger(two_departments(), chat=8), HOUR)
    shares = Shares({GPU: 16}, {"chat": {GPU: 2}, "products": {GPU: 16}})
    assert busy.past(shares) == pytest.approx({"chat": 2.0, "products": 0.25})


@pytest.mark.parametrize("half_life", [0.0, -1.0])
def test_a_half_life_is_above_nothing(half_life: float) -> None:
    with pytest.raises(ValueError, match="must be above 0"):
        History(half_life)


@given(st.lists(st.floats(1, 1e5), min_size=1, max_size=6), st.integers(1, 1000))
def test_steps_make_no_difference(steps: list[float], gpus: int) -> None:
    used = ledger(two_departments(), chat=gpus)
    history, now = BEGUN, 0.0
    for step in steps:
        now += step
        history = history.advanced(used, now)
    assert mean(history) == pytest.approx(mean(BEGUN.advanced(used, now)), abs=0.01)
    assert mean(history) <= gpus * (1 + 1e-9)
