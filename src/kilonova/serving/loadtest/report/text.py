"""A result as text."""

from collections.abc import Iterator

from kilonova.component.command.output.formats import format_table
from kilonova.component.command.output.terminal_text import to_one_line
from kilonova.serving.loadtest.recorder import Recorder
from kilonova.serving.loadtest.result import LoadResult, Quantiles
from kilonova.serving.loadtest.runner import LoadPlan, RunProgress

_LOADS = {
    "closed": "closed loop",
    "constant": "open loop, evenly",
    "poisson": "open loop, Poisson",
    "trace": "open loop, a trace",
}


def format_result(result: LoadResult) -> str:
    """Several tables."""
    blocks = (
        "\n".join(_list_head(result)),
        _format_latencies(result),
        _format_steps(result),
        _format_objectives(result),
        _format_failures(result),
        "\n".join(f"Note: {note}." for note in result.notes),
    )
    return "\n\n".join(filter(None, blocks))


def format_progress(plan: LoadPlan, progress: RunProgress, recorder: Recorder, now: float) -> str:
    """One line, while a run goes on."""
    elapsed = now - progress.started_at
    done = len(recorder)
    if plan.max_requests is not None:
        goal = f"{done} of {plan.max_requests} requests"
    else:
        goal = f"{min(elapsed, plan.seconds):.0f} of {plan.seconds:.0f} s, {done} requests"
    failed = done - recorder.succeeded
    rate = done / elapsed if elapsed > 0 else 0.0
    return f"{goal}, {failed} failed, {rate:.1f}/s, {progress.in_flight} in flight"


def describe_target(result: LoadResult) -> str:
    """`grpc://HOST:PORT (v2-grpc, model add)`."""
    model = f", model {result.model}" if result.model else ""
    return f"{result.target} ({result.protocol}{model})"


def list_latencies(result: LoadResult) -> Iterator[tuple[str, Quantiles]]:
    """What was timed, and how it is called."""
    rows = (
        ("request", result.latency),
        ("request, once sent", result.service_time),
        ("first token", result.time_to_first_token),
        ("between tokens", result.inter_token_latency),
    )
    for name, quantiles in rows:
        if quantiles is not None:
            yield name, quantiles


def _list_head(result: LoadResult) -> Iterator[str]:
    yield f"Target       {describe_target(result)}"
    warm_up = result.warm_up_requests
    before = f", after a warm-up of {warm_up} requests" if warm_up else ""
    yield f"Load         {_LOADS[result.load]}, {result.seconds:g} s{before}"
    yield f"Requests     {result.requests}: {result.succeeded} succeeded, {result.failed} failed"
    yield f"Throughput   {result.throughput:.1f} requests/s"
    if result.completion_tokens:
        yield (
            f"Tokens       {result.prompt_tokens} of prompts, {result.completion_tokens} of "
            f"completions, {result.tokens_per_second:.1f}/s"
        )


def _format_latencies(result: LoadResult) -> str:
    rows = [(name, *_list_cells(quantiles)) for name, quantiles in list_latencies(result)]
    header = ("MILLISECONDS", "MEAN", "P50", "P90", "P95", "P99", "MAX")
    return format_table(header, rows) if rows else ""


def _list_cells(quantiles: Quantiles | None) -> tuple[str, ...]:
    if quantiles is None:
        return ("-",) * 6
    values = (
        quantiles.mean,
        quantiles.p50,
        quantiles.p90,
        quantiles.p95,
        quantiles.p99,
        quantiles.max,
    )
    return tuple(format_milliseconds(each) for each in values)


def format_milliseconds(value: float) -> str:
    """With three digits or so."""
    return f"{value:.3f}" if value < 1 else f"{value:.2f}" if value < 100 else f"{value:.0f}"


def _format_steps(result: LoadResult) -> str:
    if not result.steps:
        return ""
    unit = "CLIENTS" if result.load == "closed" else "RATE"
    header = ("STEP", unit, "SECONDS", "REQUESTS", "FAILED", "PER SECOND", "P50", "P99")
    rows: list[tuple[str, ...]] = []
    for number, step in enumerate(result.steps, 1):
        _, p50, _, _, p99, _ = _list_cells(step.latency)
        figures = (f"{step.seconds:g}", str(step.requests), str(step.failed))
        rows.append((str(number), step.level, *figures, f"{step.throughput:.1f}", p50, p99))
    return format_table(header, rows)


def _format_objectives(result: LoadResult) -> str:
    if result.attainment is None:
        return ""
    rows = [
        (each.objective, f"{each.bound:g} ms", f"{each.percent:g} %") for each in result.objectives
    ]
    rows.append(("all", "", f"{result.attainment:g} %"))
    return format_table(("OBJECTIVE", "BOUND", "MET BY"), rows)


def _format_failures(result: LoadResult) -> str:
    if not result.failures:
        return ""
    rows: list[tuple[str, ...]] = []
    for failure in result.failures:
        first, *others = failure.messages or ["-"]
        rows.append((failure.status, str(failure.count), to_one_line(first)))
        rows += [("", "", to_one_line(each)) for each in others]
    return format_table(("FAILURE", "COUNT", "MESSAGES"), rows)
