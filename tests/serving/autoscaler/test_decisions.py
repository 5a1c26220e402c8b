"""Decisions of one moment: a table."""

from datetime import UTC, datetime
from typing import Any

import pytest

from kilonova.api.serving import (
    Autoscaling,
    DemandTarget,
    MetricTarget,
    ScaleToZero,
    ScheduleEntry,
    SlaTarget,
)
from kilonova.serving.autoscaler.decision import decide
from kilonova.serving.autoscaler.model import Observation
from kilonova.serving.signals import GroupSignals
from tests.serving.autoscaler.observations import distribution, observe

DEMAND = Autoscaling(max_replicas=10)
TO_ZERO = Autoscaling(max_replicas=10, min_replicas=0)
SUM = Autoscaling(max_replicas=10, metric=MetricTarget(query="q", threshold=10))
AVERAGE = Autoscaling(
    max_replicas=10, metric=MetricTarget(query="q", threshold=100, per_replica=False)
)
SLA = Autoscaling(max_replicas=10, sla=SlaTarget(latency="1s"))
BOTH = Autoscaling(
    max_replicas=10, demand=DemandTarget(), metric=MetricTarget(query="q", threshold=10)
)


def latency(seconds: float, in_flight: int, *, answers: float | None = None) -> GroupSignals:
    return GroupSignals(
        in_flight=in_flight,
        pending=0,
        arrivals_per_second=answers,
        requests_per_second=answers,
        distributions={"latency": distribution(seconds)},
    )


@pytest.mark.parametrize(
    ("scaling", "observation", "desired", "mode", "message"),
    [
        # Demand: requests over what a server is to have in flight.
        (
            DEMAND,
            observe(12, pending=3),
            3,
            "Demand",
            "12 in flight + 3 queued over 8 × 0.8 per server → 3",
        ),
        (DEMAND, observe(6), 1, "Demand", "6 in flight over 8 × 0.8 per server → 1"),
        # 7 are above 6.4, and within the tolerance.
        (
            DEMAND,
            observe(7),
            1,
            "Demand",
            "7 in flight over 8 × 0.8 per server → 2, within the tolerance of 10%: keeping 1",
        ),
        (
            DEMAND,
            observe(500),
            10,
            "Bounds",
            "500 in flight over 8 × 0.8 per server → 79; maximum 10",
        ),
        (
            DEMAND,
            observe(0, replicas=0),
            1,
            "Bounds",
            "0 in flight over 8 × 0.8 per server → 0; minimum 1",
        ),
        # What is not known keeps the number.
        (
            DEMAND,
            observe(None, replicas=4),
            4,
            "Demand",
            "requests in flight are not known: keeping 4",
        ),
        (
            DEMAND,
            observe(1, replicas=4, is_complete=False),
            4,
            "Demand",
            "1 in flight over 8 × 0.8 per server → 1; not all gateways answer: keeping 4",
        ),
        (
            DEMAND,
            observe(40, replicas=4, is_complete=False),
            7,
            "Demand",
            "40 in flight over 8 × 0.8 per server → 7",
        ),
        (
            DEMAND,
            observe(
                1, replicas=4, is_complete=False, problems=("gateway web-0: connection refused",)
            ),
            4,
            "Demand",
            "1 in flight over 8 × 0.8 per server → 1; not all gateways answer: keeping 4; "
            "gateway web-0: connection refused",
        ),
        # Zero: the first server comes at once, the last goes after idleAfter.
        (
            TO_ZERO,
            observe(0, replicas=0, held=1),
            1,
            "Held",
            "0 in flight + 1 held over 8 × 0.8 per server → 1; no server, requests wait",
        ),
        (
            TO_ZERO,
            observe(None, replicas=0, held=30),
            5,
            "Held",
            "0 in flight + 30 held over 8 × 0.8 per server → 5; no server, requests wait",
        ),
        (
            TO_ZERO,
            observe(0, replicas=0),
            0,
            "Idle",
            "no requests: no server until one arrives",
        ),
        (
            TO_ZERO,
            observe(0, replicas=1),
            1,
            "Idle",
            "no requests: the last server goes after 5m",
        ),
        (TO_ZERO, observe(None, replicas=0), 0, "Idle", "no requests: no server until one arrives"),
        # Metrics: a sum that servers share, and an average that they change.
        (SUM, observe(metric=35.0), 4, "Metric", "metric 35 over 10 per server → 4"),
        (SUM, observe(replicas=3), 3, "Metric", "the metric has no value: keeping 3"),
        (
            AVERAGE,
            observe(50, replicas=2, metric=240.0),
            5,
            "Metric",
            "average 240 for 100 at 2 servers → 5",
        ),
        (
            AVERAGE,
            observe(50, replicas=2, metric=108.0),
            2,
            "Metric",
            "average 108 is about 100: keeping 2",
        ),
        (
            AVERAGE,
            observe(50, replicas=4, ready=1, metric=900.0),
            4,
            "Metric",
            "average 900 for 100, and 3 servers are starting: keeping 4",
        ),
        (
            AVERAGE,
            observe(3, replicas=2, metric=900.0),
            3,
            "Metric",
            "average 900 for 100 at 2 servers → 18, not more than the 3 in flight",
        ),
        # The highest vote counts; a mode without figures votes for the number that there is.
        (BOTH, observe(30, metric=12.0), 5, "Demand", "30 in flight over 8 × 0.8 per server → 5"),
        (BOTH, observe(6, replicas=3), 3, "Metric", "the metric has no value: keeping 3"),
        # Latencies.
        (
            SLA,
            observe(20),
            4,
            "SLA",
            "no latency is known yet, 6.4 in flight per server assumed: 20 in flight → 4",
        ),
        (
            SLA,
            observe(16, replicas=4, signals=latency(0.5, 16)),
            4,
            "SLA",
            "p95 latency 498ms, 7.2 in flight per server keep it within 1s: 16 in flight → 3; "
            "4 for now (stabilization 60s)",
        ),
        (
            SLA,
            observe(16, replicas=2, signals=latency(2.0, 16, answers=8.0)),
            5,
            "SLA",
            "expected latency 2s for 1s; 8 requests/s over 4/s × 0.8 per server, 8 waiting → 5",
        ),
    ],
)
def test_decision(
    scaling: Autoscaling, observation: Observation, desired: int, mode: str, message: str
) -> None:
    decision = decide(scaling, observation)
    assert (decision.desired, decision.mode, decision.message) == (desired, mode, message)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (1e308, "metric 1e+308 over 1e-05 per server → 2147483647; maximum 10"),
        (-1e308, "metric -1e+308 over 1e-05 per server → 0; 1 for now (stabilization 60s)"),
    ],
)
def test_absurd_metric_is_bounded_and_its_message_short(value: float, message: str) -> None:
    metric = MetricTarget(query="q", threshold=1e-5)
    decision = decide(Autoscaling(max_replicas=10, metric=metric), observe(0, metric=value))
    assert decision.message == message


@pytest.mark.parametrize(("value", "desired"), [(1e308, 3), (-1e308, 1)])
def test_absurd_average_is_bounded(value: float, desired: int) -> None:
    metric = MetricTarget(query="q", threshold=1e-300, per_replica=False)
    scaling = Autoscaling(max_replicas=10, metric=metric)
    assert decide(scaling, observe(3, metric=value)).desired == desired


def test_paused_group_keeps_its_number() -> None:
    decision = decide(DEMAND, observe(500, replicas=3), paused=True)
    assert (decision.desired, decision.mode) == (3, "Paused")
    assert decision.message == "paused: keeping 3"


WORKDAY = ScheduleEntry(
    start="0 8 * * 1-5", duration="10h", min_replicas=4, time_zone="Europe/Berlin"
)
NIGHT = ScheduleEntry(start="0 22 * * *", duration="6h", max_replicas=1)


@pytest.mark.parametrize(
    ("time", "in_flight", "desired", "mode"),
    [
        # Thursday: from 7:00 to 17:00 in UTC, as Berlin is an hour ahead.
        ("2026-11-19T06:59", 0, 1, "Bounds"),
        ("2026-11-19T07:00", 0, 4, "Schedule"),
        ("2026-11-19T16:59", 0, 4, "Schedule"),
        ("2026-11-19T16:59", 50, 8, "Demand"),
        ("2026-11-19T17:00", 0, 1, "Bounds"),
        # Saturday.
        ("2026-11-21T12:00", 0, 1, "Bounds"),
        # At night, over midnight.
        ("2026-11-19T22:00", 50, 1, "Schedule"),
        ("2026-11-20T03:59", 50, 1, "Schedule"),
        ("2026-11-20T04:00", 50, 8, "Demand"),
    ],
)
def test_schedule_sets_the_bounds(time: str, in_flight: int, desired: int, mode: str) -> None:
    scaling = Autoscaling(max_replicas=10, schedule=(WORKDAY, NIGHT))
    moment = datetime.fromisoformat(time).replace(tzinfo=UTC)
    decision = decide(scaling, observe(in_flight, replicas=0, time=moment))
    assert (decision.desired, decision.mode) == (desired, mode)


def test_schedule_that_cannot_be_read_is_stated_and_left_out() -> None:
    entry = ScheduleEntry(start="0 8 * * 1-9", duration="1h", min_replicas=4)
    decision = decide(Autoscaling(max_replicas=10, schedule=(entry,)), observe(0))
    assert decision.desired == 1
    assert "schedule 0 8 * * 1-9: end of range (9) above maximum (6)" in decision.message


@pytest.mark.parametrize("missing", [{"signals": None}, {"is_complete": False}])
def test_missing_figures_never_scale_to_zero(missing: dict[str, Any]) -> None:
    scaling = Autoscaling(
        max_replicas=5, min_replicas=0, scale_to_zero=ScaleToZero(idle_after="10s")
    )
    memory = decide(scaling, observe(0)).memory
    later = observe(0, now=1000.0, **missing)
    assert decide(scaling, later, memory).desired == 1
    assert decide(scaling, observe(0, now=1000.0), memory).desired == 0
