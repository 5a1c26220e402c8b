"""What a run shows: figures computed from its samples. Pure; times are milliseconds."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil

import msgspec

from kilonova.serving.loadtest.objectives import Objective
from kilonova.serving.loadtest.outcome import TargetDescription
from kilonova.serving.loadtest.recorder import Recorder, Sample
from kilonova.serving.loadtest.runner import LoadPlan, RunProgress

LATE_SECONDS = 0.01
"""A generator that is later than this is named beside the figures."""
_BUCKETS = 120
"""Parts of the timeline, at most."""


class Quantiles(msgspec.Struct, frozen=True):
    """Of latencies, in milliseconds: each is one that was measured, none is interpolated."""

    mean: float
    p50: float
    p90: float
    p95: float
    p99: float
    max: float


class FailureCount(msgspec.Struct, frozen=True):
    """Requests that failed in the same way."""

    status: str
    count: int
    messages: list[str]
    """The first different ones."""


class Attainment(msgspec.Struct, frozen=True, rename="camel"):
    """How many of all requests meet an objective, in percent; failed ones do not."""

    objective: str
    bound: float
    percent: float


class StepResult(msgspec.Struct, frozen=True, rename="camel"):
    """A phase of the profile, by the requests that began in it."""

    level: str
    seconds: float
    requests: int
    failed: int
    throughput: float
    latency: Quantiles | None


class Bucket(msgspec.Struct, frozen=True):
    """A part of the timeline, by the requests that began in it."""

    at: float
    """Seconds after the start."""
    requests: int
    failed: int
    p50: float | None
    p99: float | None


class LoadResult(msgspec.Struct, frozen=True, rename="camel", kw_only=True, omit_defaults=True):
    """The figures of a run. Those of latency are of the requests that succeeded."""

    target: str
    protocol: str
    model: str = ""
    load: str
    """closed, constant, poisson, trace."""
    seconds: float
    """Of the part that is measured, without warm-up."""
    requests: int
    succeeded: int
    failed: int
    warm_up_requests: int = 0
    throughput: float
    """Requests that succeeded, per second."""
    latency: Quantiles | None = None
    service_time: Quantiles | None = None
    """In an open loop: from when a request was sent, not from when it was due."""
    time_to_first_token: Quantiles | None = None
    inter_token_latency: Quantiles | None = None
    prompt_tokens: int = 0
    completion_tokens: int = 0
    tokens_per_second: float = 0.0
    failures: list[FailureCount] = []
    attainment: float | None = None
    """Requests that meet all objectives, in percent."""
    objectives: list[Attainment] = []
    steps: list[StepResult] = []
    timeline: list[Bucket] = []
    notes: list[str] = []


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

    def pick(percentile: float) -> float:
        rank = max(1, ceil(len(ordered) * percentile / 100))
        return _to_milliseconds(ordered[rank - 1])

    mean = _to_milliseconds(sum(ordered) / len(ordered))
    return Quantiles(mean, pick(50), pick(90), pick(95), pick(99), _to_milliseconds(ordered[-1]))


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
        buckets.append(Bucket(at, len(group), failed, p50, p99))
    return buckets


def _choose_width(seconds: float) -> float:
    widths = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600)
    return next((each for each in widths if seconds / each < _BUCKETS), 900.0)


def _list_notes(report: RunReport, recorder: Recorder, progress: RunProgress) -> list[str]:
    notes: list[str] = []
    if progress.stopped_early:
        notes.append("stopped before its end")
    if recorder.is_full:
        notes.append(f"ended after {len(recorder)} requests, the most that a run records")
    if report.plan.is_open and progress.max_late > LATE_SECONDS:
        late = _to_milliseconds(progress.max_late)
        notes.append(
            f"requests were sent up to {late:g} ms late, which the latency includes: the service, "
            "or this machine, did not keep up with the rate"
        )
    return notes


def _divide(number: float, by: float, digits: int = 3) -> float:
    return round(number / by, digits) if by > 0 else 0.0


def _to_milliseconds(seconds: float) -> float:
    return round(seconds * 1e3, 3)
