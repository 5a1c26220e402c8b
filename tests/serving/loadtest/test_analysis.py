"""Figures are exact."""

import random

import pytest

from kilonova.serving.loadtest.analysis import RunReport, compute_quantiles, compute_result
from kilonova.serving.loadtest.objectives import Objective, parse_objectives
from kilonova.serving.loadtest.outcome import Outcome, TargetDescription
from kilonova.serving.loadtest.profile import build_constant_profile
from kilonova.serving.loadtest.recorder import Recorder
from kilonova.serving.loadtest.result import LoadResult, Quantiles
from kilonova.serving.loadtest.runner import LoadPlan, RunProgress

PLAN = LoadPlan(kind="closed", profile=build_constant_profile(1, 10))


def compute(recorder: Recorder, *objectives: Objective) -> LoadResult:
    report = RunReport(TargetDescription("t", "openai"), PLAN, objectives=objectives)
    return compute_result(report, recorder, RunProgress(started_at=100.0, ended_at=110.0))


def test_percentiles_are_values_that_were_measured() -> None:
    values = [number / 1000 for number in range(1, 1001)]
    random.Random(1).shuffle(values)
    assert compute_quantiles(values) == Quantiles(500.5, 500, 900, 950, 990, 1000)
    assert compute_quantiles([0.007]) == Quantiles(7, 7, 7, 7, 7, 7)
    assert compute_quantiles([0.001, 0.002]) == Quantiles(1.5, 1, 2, 2, 2, 2)
    assert compute_quantiles([]) is None


def test_tokens_are_counted_and_timed() -> None:
    recorder = Recorder()
    for number in range(4):
        start = 100.0 + number
        outcome = Outcome(
            "200",
            True,
            first_token_at=start + 0.2,
            token_gaps=(0.01, 0.03),
            prompt_tokens=10,
            completion_tokens=3,
        )
        recorder.add(start, start, start + 0.5, outcome, 100.0)
    result = compute(recorder)
    assert result.time_to_first_token is not None
    assert result.time_to_first_token.p99 == pytest.approx(200)
    assert result.inter_token_latency is not None
    assert result.inter_token_latency.mean == pytest.approx(20)
    assert result.inter_token_latency.max == pytest.approx(30)
    assert (result.prompt_tokens, result.completion_tokens) == (40, 12)
    assert result.tokens_per_second == 1.2


def test_failed_requests_meet_no_objective() -> None:
    recorder = Recorder()

    def add(latency: float, first: float | None, is_ok: bool = True) -> None:
        at = None if first is None else 100.0 + first
        outcome = Outcome("200" if is_ok else "503", is_ok, first_token_at=at)
        recorder.add(100.0, 100.0, 100.0 + latency, outcome, 100.0)

    add(1.0, 0.1)
    add(1.0, 0.3)
    add(3.0, 0.1)
    add(0.001, None, is_ok=False)
    result = compute(recorder, *parse_objectives("ttft=200ms,latency=2s"))
    assert [(each.objective, each.bound, each.percent) for each in result.objectives] == [
        ("ttft", 200.0, 50.0),
        ("latency", 2000.0, 50.0),
    ]
    assert result.attainment == 25.0


def test_gap_objective_is_of_the_mean_of_a_request() -> None:
    recorder = Recorder()
    for gaps in ((0.01, 0.03), (0.05, 0.03), ()):
        tokens = len(gaps) + 1
        outcome = Outcome(
            "200", True, first_token_at=100.1, token_gaps=gaps, completion_tokens=tokens
        )
        recorder.add(100.0, 100.0, 101.0, outcome, 100.0)
    assert compute(recorder, *parse_objectives("itl=25ms")).attainment == pytest.approx(66.667)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("p99=1s", "'p99' is no objective: use latency, ttft, itl"),
        ("ttft", "ttft= is no duration"),
        ("ttft=200", "ttft=200 is no duration"),
        ("latency=0s", "latency=0s: use more than 0"),
    ],
)
def test_invalid_objective_is_explained(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        parse_objectives(text)


def test_timeline_has_every_request_once() -> None:
    recorder = Recorder()
    for number in range(1000):
        start = 100.0 + number / 100
        outcome = Outcome("200", number % 4 != 0)
        recorder.add(start, start, start + 0.02, outcome, 100.0)
    timeline = compute(recorder).timeline
    assert len(timeline) <= 120
    assert sum(bucket.requests for bucket in timeline) == 1000
    assert sum(bucket.failed for bucket in timeline) == 250
    assert [bucket.p99 for bucket in timeline] == pytest.approx([20] * len(timeline))
