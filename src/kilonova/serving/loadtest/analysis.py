"""Computes a result from the samples of a run. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil

from kilonova.serving.loadtest.objectives import Objective
from kilonova.serving.loadtest.outcome import TargetDescription
from kilonova.serving.loadtest.recorder import Recorder, Sample
from kilonova.serving.loadtest.result import (
    Attainment,
    Bucket,
    FailureCount,
    LoadResult,
    PercentilePoint,
    Quantiles,
    StepResult,
)
from kilonova.serving.loadtest.runner import LoadPlan, RunProgress

_LATE_SHARE = 0.01
"""If a greater part of the requests was sent late, that is said beside the figures."""
STOPPED_NOTE = "stopped before its end"
_PERCENTILES = (0, *range(5, 95, 5), 95, 98, 99, 99.5, 99.9, 99.99, 100)
_BUCKETS = 120
"""Parts of the timeline, at most."""


@dataclass(frozen=True, slots=True)
class RunReport:
    """What a run is judged by."""

    description: TargetDescription
    plan: LoadPlan
    warm_up: float = 0.0
    objectives: tuple[Objective, ...] = ()


def compute_result(report: RunReport, recorder: Recorder, progress: RunProgress) -> LoadResult:
    """The figures; requests that began during the warm-up are only counted."""
    samples = [each for each in recorder if each.start >= report.warm_up]
    succeeded = [each for each in samples if each.is_ok]
    seconds = _measure_window(report, samples, progress)
    within = [each for each in succeeded if each.end <= report.warm_up + seconds]
    tokens = sum(each.completion_tokens for each in succeeded)
    firsts = [
        each.time_to_first_token for each in succeeded if each.time_to_first_token is not None
    ]
    description = report.description
    return LoadResult(
        target=description.address,
        protocol=description.protocol,
        model=description.model,
        load=report.plan.kind,
        seconds=round(seconds, 3),
        requests=len(samples),
        succeeded=len(succeeded),
        failed=len(samples) - len(succeeded),
        warm_up_requests=len(recorder) - len(samples),
        throughput=_divide(len(within), seconds),
        latency=compute_quantiles(each.latency for each in succeeded),
        distribution=_compute_distribution(succeeded),
        service_time=compute_quantiles(each.service_time for each in succeeded)
        if report.plan.is_open
        else None,
        time_to_first_token=compute_quantiles(firsts),
        inter_token_latency=compute_quantiles(recorder.token_gaps),
        prompt_tokens=sum(each.prompt_tokens for each in succeeded),
        completion_tokens=tokens,
        tokens_per_second=_divide(sum(each.completion_tokens for each in within), seconds),
        failures=_count_failures(samples, recorder),
        attainment=_compute_share(samples, report.objectives) if report.objectives else None,
        objectives=[
            Attainment(each.name, each.seconds * 1e3, _compute_share(samples, (each,)))
            for each in report.objectives
        ],
        steps=_compute_steps(report, samples),
        timeline=_compute_timeline(recorder),
        notes=_list_notes(report, recorder, progress),
    )


def compute_quantiles(seconds: Iterable[float]) -> Quantiles | None:
    """Of values in seconds; None without any. The p-th percentile is the smallest value that is not
    below p percent of all (nearest rank)."""
    ordered = sorted(seconds)
    if not ordered:
        return None
    mean = _to_milliseconds(sum(ordered) / len(ordered))
    return Quantiles(mean, *(_pick(ordered, each) for each in (50, 90, 95, 99, 100)))


def _pick(ordered: Sequence[float], percentile: float) -> float:
    rank = max(1, ceil(len(ordered) * percentile / 100))
    return _to_milliseconds(ordered[rank - 1])


def _compute_distribution(samples: Sequence[Sample]) -> list[PercentilePoint]:
    ordered = sorted(each.latency for each in samples)
    return [PercentilePoint(each, _pick(ordered, each)) for each in _PERCENTILES if ordered]


def _measure_window(report: RunReport, samples: Sequence[Sample], progress: RunProgress) -> float:
    """From the end of the warm-up to that of sending; if the number of requests ended the run, to
    the last answer."""
    end = progress.ended_at - progress.started_at
    if report.plan.max_requests is not None or report.plan.kind == "trace":
        end = max((each.end for each in samples), default=end)
    return max(0.0, end - report.warm_up)


def _count_failures(samples: Sequence[Sample], recorder: Recorder) -> list[FailureCount]:
    counts: dict[str, int] = {}
    for each in samples:
        if not each.is_ok:
            counts[each.status] = counts.get(each.status, 0) + 1
    ordered = sorted(counts.items(), key=lambda each: (-each[1], each[0]))
    return [
        FailureCount(status, count, list(recorder.failures[status].messages))
        for status, count in ordered
    ]


def _compute_share(samples: Sequence[Sample], objectives: Sequence[Objective]) -> float:
    met = sum(all(objective.is_met(each) for objective in objectives) for each in samples)
    return round(100 * _divide(met, len(samples), 6), 3)


def _compute_steps(report: RunReport, samples: Sequence[Sample]) -> list[StepResult]:
    profile = report.plan.profile
    if profile is None or len(profile.phases) == 1:
        return []
    steps: list[StepResult] = []
    for begins, phase in profile.iterate_starts():
        ends = begins + phase.seconds
        own = [each for each in samples if begins <= each.start < ends]
        succeeded = [each for each in own if each.is_ok]
        seconds = ends - max(begins, min(report.warm_up, ends))
        steps.append(
            StepResult(
                level=phase.label,
                seconds=round(seconds, 3),
                requests=len(own),
                failed=len(own) - len(succeeded),
                throughput=_divide(len(succeeded), seconds),
                latency=compute_quantiles(each.latency for each in succeeded),
            )
        )
    return steps


def _compute_timeline(recorder: Recorder) -> list[Bucket]:
    samples = list(recorder)
    if not samples:
        return []
    end = max(each.start for each in samples)
    width = _choose_width(end)
    groups: list[list[Sample]] = [[] for _ in range(int(end / width) + 1)]
    for each in samples:
        groups[max(0, int(each.start / width))].append(each)
    buckets: list[Bucket] = []
    for index, group in enumerate(groups):
        quantiles = compute_quantiles(each.latency for each in group if each.is_ok)
        failed = sum(not each.is_ok for each in group)
        at = round(index * width, 3)
        p50, p99 = (None, None) if quantiles is None else (quantiles.p50, quantiles.p99)
        buckets.append(Bucket(at, width, len(group), failed, p50, p99))
    return buckets


def _choose_width(seconds: float) -> float:
    widths = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600)
    return next((each for each in widths if seconds / each < _BUCKETS), 900.0)


def _list_notes(report: RunReport, recorder: Recorder, progress: RunProgress) -> list[str]:
    notes: list[str] = []
    if progress.stopped_early:
        notes.append(STOPPED_NOTE)
    if recorder.is_full:
        notes.append(f"ended after {len(recorder)} requests, the most that a run records")
    if report.plan.is_open and progress.late_requests > _LATE_SHARE * len(recorder):
        late = _to_milliseconds(progress.max_late)
        notes.append(
            f"{progress.late_requests} requests were sent up to {late:g} ms late, which the "
            "latency includes: the service, or this machine, did not keep up with the rate"
        )
    return notes


def _divide(number: float, by: float, digits: int = 3) -> float:
    return round(number / by, digits) if by > 0 else 0.0


def _to_milliseconds(seconds: float) -> float:
    return round(seconds * 1e3, 3)
