"""From readings to signals: rates, restarts, gateways that come and go."""

import pytest

from kilonova.serving.signals.readings.histogram import Histogram
from kilonova.serving.signals.readings.reading import Reading
from kilonova.serving.signals.readings.window import GroupWindow


def gateway(in_flight: float, requests: float, latency: tuple[int, int] = (0, 0)) -> Reading:
    distribution = Histogram(
        sum(latency) * 0.2, sum(latency), (0.1, 0.5), (latency[0], sum(latency))
    )
    return Reading({"in_flight": in_flight}, {"requests": requests}, {"latency": distribution})


def test_first_reading_has_gauges_and_no_rates() -> None:
    window = GroupWindow()
    window.put(0.0, {"a": gateway(3, 100)})
    signals = window.build_signals(0.0, {"a": gateway(3, 100)})
    assert signals.in_flight == 3
    assert signals.requests_per_second is None
    assert signals.latency.p95 is None
    assert signals.queued is None


def test_rates_are_of_all_gateways_together() -> None:
    window = GroupWindow()
    window.put(0.0, {"a": gateway(0, 100), "b": gateway(0, 50)})
    last = {"a": gateway(2, 120, (10, 0)), "b": gateway(5, 60, (0, 10))}
    window.put(2.0, last)
    signals = window.build_signals(2.0, last)
    assert signals.in_flight == 7
    assert signals.requests_per_second == pytest.approx(15)
    assert signals.latency.p50 == pytest.approx(0.1)
    assert signals.latency.p95 == pytest.approx(0.46)
    assert signals.mean_latency == pytest.approx(0.2)


def test_restart_of_a_gateway_leaves_out_one_interval() -> None:
    window = GroupWindow()
    reading: dict[str, Reading] = {}
    for at, requests in enumerate((1000, 1010, 5, 25)):
        reading = {"a": gateway(0, requests)}
        window.put(float(at), reading)
    # 10 requests, an unknown number, 20 requests; in 3 seconds.
    assert window.build_signals(3.0, reading).requests_per_second == pytest.approx(10)


def test_vanished_gateway_takes_its_gauges_with_it() -> None:
    window = GroupWindow()
    window.put(0.0, {"a": gateway(4, 0), "b": gateway(6, 0)})
    window.put(1.0, {"a": gateway(4, 0), "b": gateway(6, 0)})
    window.keep_targets(frozenset({"a"}))
    window.put(2.0, {"a": gateway(4, 0)})
    assert window.build_signals(2.0, {"a": gateway(4, 0)}).in_flight == 4


def test_new_gateway_does_not_count_what_it_did_before() -> None:
    window = GroupWindow()
    window.put(0.0, {"a": gateway(0, 10)})
    last = {"a": gateway(0, 20), "b": gateway(0, 1_000_000)}
    window.put(1.0, last)
    assert window.build_signals(1.0, last).requests_per_second == pytest.approx(10)


def test_gateway_that_misses_a_reading_is_counted_with_the_next() -> None:
    window = GroupWindow()
    window.put(0.0, {"a": gateway(0, 0), "b": gateway(0, 0)})
    window.put(1.0, {"a": gateway(0, 10)})
    last = {"a": gateway(0, 20), "b": gateway(0, 40)}
    window.put(2.0, last)
    assert window.build_signals(2.0, last).requests_per_second == pytest.approx(30)


def test_rates_follow_a_step_within_seconds() -> None:
    window = GroupWindow()
    reading: dict[str, Reading] = {}
    requests = 0
    for at in range(60):
        requests += 10 if at < 50 else 60
        reading = {"a": gateway(0, requests)}
        window.put(float(at), reading)
    assert window.build_signals(59.0, reading).requests_per_second == pytest.approx(60)


def test_without_an_answer_everything_is_unknown() -> None:
    signals = GroupWindow().build_signals(0.0, {})
    assert signals.in_flight is None
    assert signals.demand is None
