"""What the flags of `kilonova serve bench` mean. `WrongUsage` names the flag and the fix."""

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

from kilonova.api.durations import parse_duration
from kilonova.component.failure import CommandFailed, WrongUsage
from kilonova.serving.loadtest.arrivals import Arrivals
from kilonova.serving.loadtest.objectives import Objective, parse_objectives
from kilonova.serving.loadtest.profile import (
    MAX_SECONDS,
    LoadProfile,
    build_constant_profile,
    parse_profile,
)
from kilonova.serving.loadtest.recorder import MAX_SAMPLES
from kilonova.serving.loadtest.runner import LoadPlan
from kilonova.serving.loadtest.targets.options import Protocol, TargetOptions
from kilonova.serving.loadtest.trace import TraceError, read_trace

API_KEY_VARIABLE = "KILONOVA_API_KEY"
DEFAULT_SECONDS = 10.0

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadFlags:
    """The flags that specify what load there is; None and empty texts were not given."""

    concurrency: int | None = None
    rate: float | None = None
    step: str = ""
    arrivals: Arrivals | None = None
    trace: Path | None = None
    speed: float = 1.0
    duration: str = ""
    requests: int | None = None
    warm_up: str = "0s"
    timeout: str = "60s"
    max_in_flight: int = 2_000
    seed: int = 0
    slo: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchSettings:
    """Everything that a run needs."""

    plan: LoadPlan
    warm_up: float
    objectives: tuple[Objective, ...]
    target: TargetOptions
    protocol: Protocol | None = None
    output: Literal["table", "json"] = "table"
    report: Path | None = None
    is_quiet: bool = False


def build_plan(flags: LoadFlags) -> LoadPlan:
    """The load."""
    if flags.requests is not None and not 1 <= flags.requests <= MAX_SAMPLES:
        raise WrongUsage(f"--requests {flags.requests}: use 1 to {MAX_SAMPLES}")
    timeout = _parse("--timeout", flags.timeout, parse_duration)
    if timeout <= 0:
        raise WrongUsage(f"--timeout {flags.timeout}: use more than 0")
    if flags.trace is not None:
        return _build_trace_plan(flags, flags.trace, timeout)
    if flags.speed != 1:
        raise WrongUsage(f"--speed {flags.speed:g}: it is of a --trace, and none is given")
    is_open = flags.rate is not None or flags.arrivals is not None
    if is_open and flags.concurrency is not None:
        raise WrongUsage(
            "--concurrency is for a closed loop, --rate and --arrivals for an open one: choose one"
        )
    return LoadPlan(
        kind=(flags.arrivals or "poisson") if is_open else "closed",
        profile=_build_profile(flags, is_open),
        max_requests=flags.requests,
        timeout=timeout,
        max_in_flight=flags.max_in_flight,
        seed=flags.seed,
    )


def parse_warm_up(flags: LoadFlags, plan: LoadPlan) -> float:
    """Seconds at the start that are not measured."""
    warm_up = _parse("--warm-up", flags.warm_up, parse_duration)
    if warm_up < 0 or (plan.max_requests is None and warm_up >= plan.seconds > 0):
        raise WrongUsage(
            f"--warm-up {flags.warm_up}: the run takes {plan.seconds:g} s, so that nothing would "
            "be measured"
        )
    return warm_up


def parse_slo(flags: LoadFlags) -> tuple[Objective, ...]:
    """The objectives."""
    return _parse("--slo", flags.slo, parse_objectives)


def build_headers(
    texts: Sequence[str], environment: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """`NAME: VALUE` of each flag, and the API key of the environment."""
    headers: dict[str, str] = {}
    if key := environment.get(API_KEY_VARIABLE):
        headers["authorization"] = f"Bearer {key}"
    for text in texts:
        name, separator, value = text.partition(":")
        name, value = name.strip().lower(), value.strip()
        is_token = name.replace("-", "").replace("_", "").isalnum() and name.isascii()
        if not separator or not is_token or not value.isprintable():
            raise WrongUsage("--header: write 'NAME: VALUE'")
        headers[name] = value
    return headers


def read_bodies(file: Path | None) -> tuple[Any, ...]:
    """Requests of a file: one JSON value, or one on each line."""
    import msgspec

    if file is None:
        return ()
    try:
        content = file.read_bytes()
    except OSError as error:
        raise CommandFailed(f"{file} cannot be read: {error.strerror}") from error
    try:
        try:
            bodies = [msgspec.json.decode(content)]
        except msgspec.DecodeError:
            bodies = [msgspec.json.decode(line) for line in content.splitlines() if line.strip()]
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CommandFailed(f"{file} is not JSON, nor a request on each line: {error}") from None
    if not bodies or not all(isinstance(each, dict) for each in bodies):
        raise CommandFailed(f"{file}: write a JSON object, or one on each line")
    return tuple(bodies)


def _build_profile(flags: LoadFlags, is_open: bool) -> LoadProfile:
    if flags.step:
        if flags.rate is not None or flags.concurrency is not None or flags.duration:
            raise WrongUsage(
                "--step sets clients and times itself: leave out --concurrency, --rate and "
                "--duration; --arrivals makes its numbers rates"
            )
        return _parse("--step", flags.step, parse_profile)
    # The number of requests ends a run for which no time is given.
    seconds = DEFAULT_SECONDS if flags.requests is None else MAX_SECONDS
    if flags.duration:
        seconds = _parse("--duration", flags.duration, parse_duration)
        if not 0 < seconds <= MAX_SECONDS:
            raise WrongUsage(f"--duration {flags.duration}: use more than 0, at most 24h")
    if is_open and flags.rate is None:
        raise WrongUsage("--arrivals needs --rate or --step")
    level = flags.rate if flags.rate is not None else flags.concurrency or 1
    return _parse(
        "--rate" if is_open else "--concurrency",
        f"{level:g}",
        lambda _: build_constant_profile(level, seconds),
    )


def _build_trace_plan(flags: LoadFlags, file: Path, timeout: float) -> LoadPlan:
    others = {
        "--concurrency": flags.concurrency,
        "--rate": flags.rate,
        "--step": flags.step,
        "--arrivals": flags.arrivals,
        "--duration": flags.duration,
    }
    if given := next((name for name, value in others.items() if value), None):
        raise WrongUsage(
            f"{given}: --trace determines when requests are sent: leave one of them out"
        )
    if not 0 < flags.speed < math.inf:
        raise WrongUsage(f"--speed {flags.speed:g}: use more than 0")
    try:
        trace = read_trace(file, speed=flags.speed)
    except TraceError as error:
        raise CommandFailed(str(error)) from None
    return LoadPlan(
        kind="trace",
        trace=trace,
        max_requests=flags.requests,
        timeout=timeout,
        max_in_flight=flags.max_in_flight,
        seed=flags.seed,
    )


def _parse(flag: str, text: str, parse: Callable[[str], T]) -> T:
    try:
        return parse(text)
    except ValueError as error:
        raise WrongUsage(f"{flag} {text}: {error}") from None
