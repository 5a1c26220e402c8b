"""Load is sent as the plan says, in virtual time."""

import asyncio
from pathlib import Path

import pytest

from kilonova.serving.loadtest.analysis import RunReport, compute_result
from kilonova.serving.loadtest.outcome import Outcome, RequestSize
from kilonova.serving.loadtest.profile import build_constant_profile, parse_profile
from kilonova.serving.loadtest.recorder import Recorder, Sample
from kilonova.serving.loadtest.result import LoadResult
from kilonova.serving.loadtest.runner import LoadPlan, LoadRun
from kilonova.serving.loadtest.trace import read_trace
from tests.serving.loadtest.scripted_target import OK, ScriptedTarget

pytestmark = pytest.mark.looptime(end=10_000)


async def run(
    target: ScriptedTarget, plan: LoadPlan, warm_up: float = 0.0
) -> tuple[list[Sample], LoadResult]:
    recorder = Recorder(warm_up)
    load = LoadRun(target, plan, recorder)
    await load.run()
    report = RunReport(target.description, plan, warm_up)
    return list(recorder), compute_result(report, recorder, load.progress)


async def test_closed_loop_keeps_its_clients_busy() -> None:
    target = ScriptedTarget(delay=lambda _: 0.25)
    plan = LoadPlan(kind="closed", profile=build_constant_profile(4, 10))
    samples, result = await run(target, plan)
    assert target.most_in_flight == 4
    assert len(samples) == 4 * 40
    assert (result.requests, result.failed, result.throughput) == (160, 0, 16.0)
    assert result.latency is not None
    assert (result.latency.p50, result.latency.max) == (250, 250)
    assert result.service_time is None


async def test_closed_loop_follows_steps() -> None:
    target = ScriptedTarget(delay=lambda _: 0.5)
    plan = LoadPlan(kind="closed", profile=parse_profile("5s:2,5s:6,5s:1"))
    _, result = await run(target, plan)
    assert [(step.level, step.requests) for step in result.steps] == [
        ("2", 20),
        ("6", 60),
        ("1", 10),
    ]
    assert target.most_in_flight == 6


async def test_closed_loop_follows_a_ramp() -> None:
    target = ScriptedTarget(delay=lambda _: 0.01)
    plan = LoadPlan(kind="closed", profile=parse_profile("10s:0-10"))
    samples, _ = await run(target, plan)
    assert target.most_in_flight == 10
    early = sum(sample.start < 5 for sample in samples)
    assert 3 * early == pytest.approx(len(samples) - early, rel=0.1)


async def test_number_of_requests_ends_a_run() -> None:
    target = ScriptedTarget()
    plan = LoadPlan(kind="closed", profile=build_constant_profile(3, 1000), max_requests=10)
    samples, result = await run(target, plan)
    assert len(samples) == len(target.started) == 10
    assert result.seconds == pytest.approx(0.4)
    assert result.throughput == pytest.approx(25)


async def test_open_loop_sends_at_its_rate_whatever_the_answers_take() -> None:
    target = ScriptedTarget(delay=lambda _: 30.0)
    plan = LoadPlan(kind="constant", profile=build_constant_profile(5, 4))
    samples, result = await run(target, plan)
    first = target.started[0]
    expected = [first + number * 0.2 for number in range(20)]
    assert target.started == pytest.approx(expected)
    assert target.most_in_flight == 20
    assert {round(sample.latency, 6) for sample in samples} == {30.0}
    assert result.throughput == 0.0  # none was answered while requests were sent
    assert result.succeeded == 20


async def test_latency_counts_from_when_a_request_was_due() -> None:
    """A server that stands still for ten seconds is not hidden by requests that were not sent."""
    target = ScriptedTarget(delay=lambda number: 10.0 if number == 10 else 0.0)
    plan = LoadPlan(kind="constant", profile=build_constant_profile(10, 20), max_in_flight=1)
    samples, result = await run(target, plan)
    assert len(samples) == 200
    late = [sample for sample in samples if sample.latency > 0.05]
    # The request that stood still, and the hundred that were due meanwhile.
    assert len(late) == pytest.approx(101, abs=1)
    assert [round(sample.latency, 3) for sample in late[:3]] == [10.0, 9.9, 9.8]
    assert result.latency is not None
    assert result.service_time is not None
    assert result.latency.p90 > 7000
    assert result.service_time.p99 < 1
    assert "99 requests were sent up to 9900 ms late" in result.notes[0]


async def test_trace_is_replayed_with_its_sizes(tmp_path: Path) -> None:
    file = tmp_path / "trace.csv"
    file.write_text(
        "TIMESTAMP,ContextTokens,GeneratedTokens\n"
        "2023-11-16 18:17:04.0319600,3180,8\n"
        "2023-11-16 18:17:03.0319600,110,27\n"
        "2023-11-16 18:17:07.0319600,5,1\n"
    )
    target = ScriptedTarget()
    plan = LoadPlan(kind="trace", trace=read_trace(file, speed=2))
    samples, result = await run(target, plan)
    assert [round(sample.start, 6) for sample in samples] == [0.0, 0.5, 2.0]
    assert target.sizes == [RequestSize(110, 27), RequestSize(3180, 8), RequestSize(5, 1)]
    assert result.seconds == pytest.approx(2.1)


async def test_request_without_answer_ends_at_its_time_limit() -> None:
    target = ScriptedTarget(delay=lambda number: 100.0 if number == 2 else 0.1)
    plan = LoadPlan(kind="closed", profile=build_constant_profile(1, 1), timeout=3.0)
    samples, result = await run(target, plan)
    assert [sample.status for sample in samples] == ["200", "200", "timeout"]
    assert samples[-1].latency == pytest.approx(3.0)
    assert [(each.status, each.count, each.messages) for each in result.failures] == [
        ("timeout", 1, ["no answer within 3 s"])
    ]


async def test_failures_are_counted_by_status_with_their_first_messages() -> None:
    def answer(number: int) -> Outcome:
        if number % 3 == 2:
            return Outcome("503", False, f"overloaded {number}\n")
        return Outcome("429", False, "slow down") if number % 10 == 0 else OK

    plan = LoadPlan(kind="closed", profile=build_constant_profile(1, 1000), max_requests=60)
    _, result = await run(ScriptedTarget(outcome=answer), plan)
    assert (result.requests, result.succeeded, result.failed) == (60, 36, 24)
    assert [(each.status, each.count) for each in result.failures] == [("503", 20), ("429", 4)]
    assert result.failures[0].messages == ["overloaded 2", "overloaded 5", "overloaded 8"]
    assert result.failures[1].messages == ["slow down"]


async def test_warm_up_is_counted_and_not_measured() -> None:
    target = ScriptedTarget(delay=lambda number: 1.0 if number < 3 else 0.1)
    plan = LoadPlan(kind="closed", profile=build_constant_profile(1, 8))
    samples, result = await run(target, plan, warm_up=3.0)
    assert (result.warm_up_requests, result.requests) == (3, 50)
    assert len(samples) == 53
    assert result.seconds == 5.0
    assert result.latency is not None
    assert result.latency.max == 100.0


async def test_run_that_is_stopped_waits_for_its_requests() -> None:
    target = ScriptedTarget(delay=lambda _: 2.0)
    recorder = Recorder()
    load = LoadRun(
        target, LoadPlan(kind="closed", profile=build_constant_profile(3, 100)), recorder
    )
    asyncio.get_running_loop().call_later(5, load.stop)
    await load.run()
    assert len(recorder) == 9
    assert load.progress.stopped_early
    assert load.progress.ended_at - load.progress.started_at == pytest.approx(5)


async def test_clients_that_fail_at_once_do_not_spin() -> None:
    target = ScriptedTarget(delay=lambda _: 0.0, outcome=lambda _: Outcome("connect error", False))
    plan = LoadPlan(kind="closed", profile=build_constant_profile(1, 1))
    samples, _ = await run(target, plan)
    assert len(samples) == 20
