"""Usage history: the mean usage with exponential decay."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilonova.scheduler.core.queueing.fair_shares import FairShares
from kilonova.scheduler.core.queueing.forest import build_queue_forest
from kilonova.scheduler.core.queueing.ledger import Ledger
from kilonova.scheduler.core.queueing.usage_history import UsageHistory
from tests.scheduler.core.support.queue_cases import GPU, ledger, two_departments

HOUR = 3600.0
STARTED = UsageHistory(HOUR, at=0.0)


def mean(history: UsageHistory, queue: str = "chat") -> float:
    return history.mean.get(queue, {}).get(GPU, 0.0)


def test_mean_halves_after_half_life() -> None:
    used, idle = ledger(two_departments(), chat=8), Ledger(two_departments())
    busy = STARTED.advance(used, HOUR)
    assert mean(busy) == pytest.approx(4)
    assert mean(busy, "products") == pytest.approx(4)
    assert mean(busy.advance(used, 2 * HOUR)) == pytest.approx(6)
    assert mean(busy.advance(idle, 2 * HOUR)) == pytest.approx(2)


def test_history_starts_at_first_advance() -> None:
    begun = UsageHistory(HOUR).advance(ledger(two_departments(), chat=8), 1e9)
    assert (begun.at, dict(begun.mean)) == (1e9, {})


def test_backward_clock_adds_no_history() -> None:
    used = ledger(two_departments(), chat=8)
    busy = STARTED.advance(used, HOUR)
    assert busy.advance(used, 0.0) == busy
    assert busy.advance(used, HOUR) == busy


def test_negligible_usage_is_dropped() -> None:
    busy = STARTED.advance(ledger(two_departments(), chat=8), HOUR)
    assert set(busy.mean) == {"chat", "products"}
    assert set(busy.advance(Ledger(build_queue_forest([])), 2 * HOUR).mean) == {"chat", "products"}
    assert dict(busy.advance(Ledger(build_queue_forest([])), 100 * HOUR).mean) == {}


def test_past_usage_is_relative_to_fair_share() -> None:
    busy = STARTED.advance(ledger(two_departments(), chat=8), HOUR)
    shares = FairShares({GPU: 16}, {"chat": {GPU: 2}, "products": {GPU: 16}})
    assert busy.mean_share_ratios(shares) == pytest.approx({"chat": 2.0, "products": 0.25})


@pytest.mark.parametrize("half_life", [0.0, -1.0])
def test_half_life_must_be_positive(half_life: float) -> None:
    with pytest.raises(ValueError, match="must be above 0"):
        UsageHistory(half_life)


@given(st.lists(st.floats(1, 1e5), min_size=1, max_size=6), st.integers(1, 1000))
def test_advance_in_steps_is_equivalent(steps: list[float], gpus: int) -> None:
    used = ledger(two_departments(), chat=gpus)
    history, now = STARTED, 0.0
    for step in steps:
        now += step
        history = history.advance(used, now)
    assert mean(history) == pytest.approx(mean(STARTED.advance(used, now)), abs=0.01)
    assert mean(history) <= gpus * (1 + 1e-9)
