"""How much models are used, from counters."""

import math

import pytest

from kilonova.serving.models.server_api import ModelCounters
from kilonova.serving.models.usage import SMOOTHING_SECONDS, UsageMeter


def test_first_reading_says_nothing() -> None:
    meter = UsageMeter()
    meter.record({"cat": ModelCounters(1000, 10**12)}, 0.0)
    assert meter.usage == {}


def test_load_is_the_mean_of_requests_in_flight() -> None:
    meter = UsageMeter()
    for second in range(301):
        # Three requests at the same time, all the time.
        meter.record({"cat": ModelCounters(second * 30, second * 3 * 10**9)}, float(second))
    assert meter.usage["cat"].load == pytest.approx(3.0, rel=0.01)
    assert meter.usage["cat"].last_used == 300.0


def test_load_falls_when_requests_end() -> None:
    meter = UsageMeter()
    counters = {"cat": ModelCounters(10, 60 * 10**9)}
    meter.record({}, 0.0)
    meter.record(counters, 30.0)
    before = meter.usage["cat"].load
    meter.record(counters, 30.0 + SMOOTHING_SECONDS)
    assert meter.usage["cat"].load == pytest.approx(before / math.e)
    assert meter.usage["cat"].last_used == 30.0


def test_restarted_server_counts_from_zero() -> None:
    meter = UsageMeter()
    meter.record({"cat": ModelCounters(500, 900 * 10**9)}, 0.0)
    meter.record({"cat": ModelCounters(5, 10**9)}, 1.0)
    assert meter.usage["cat"].load > 0
    assert meter.usage["cat"].last_used == 1.0


def test_model_that_was_loaded_for_requests_counts_as_used() -> None:
    meter = UsageMeter()
    meter.note_use("cat", 7.0)
    assert meter.usage["cat"].last_used == 7.0
