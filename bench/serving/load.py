"""Load on an address, by the load tester of `kilonova serve bench`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kilonova.serving.loadtest.analysis import RunReport, compute_result
from kilonova.serving.loadtest.profile import LoadProfile, build_constant_profile
from kilonova.serving.loadtest.recorder import Recorder, Sample
from kilonova.serving.loadtest.result import LoadResult, Quantiles
from kilonova.serving.loadtest.runner import LoadKind, LoadPlan, LoadRun
from kilonova.serving.loadtest.targets.address import parse_address
from kilonova.serving.loadtest.targets.options import TargetOptions
from kilonova.serving.loadtest.targets.selection import build_target, choose_protocol

_TIMEOUT_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """Where requests are sent, and what they are."""

    url: str
    model: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    bodies: Sequence[Any] = ()
    """Requests in JSON; empty for generated ones, for which the server is asked for its model."""


@dataclass(frozen=True, slots=True)
class Load:
    """What was measured, and the samples of it."""

    result: LoadResult
    samples: tuple[Sample, ...]

    def get_latency(self) -> Quantiles:
        """Milliseconds; an error if no request succeeded."""
        if self.result.latency is None:
            raise RuntimeError(
                f"{self.result.target}: no request succeeded: {self.result.failures}"
            )
        return self.result.latency

    def require_success(self) -> None:
        """An error if any request failed."""
        if self.result.failed or not self.result.succeeded:
            raise RuntimeError(f"{self.result.target}: requests failed: {self.result.failures}")


async def send_clients(
    destination: Destination, clients: int, seconds: float, requests: int | None = None
) -> Load:
    """A closed loop of so many clients."""
    profile = build_constant_profile(clients, seconds)
    return await _send(destination, "closed", profile, requests)


async def send_rate(destination: Destination, profile: LoadProfile) -> Load:
    """An open loop of requests per second, with random distances."""
    return await _send(destination, "poisson", profile)


async def _send(
    destination: Destination, kind: LoadKind, profile: LoadProfile, requests: int | None = None
) -> Load:
    address = parse_address(destination.url)
    options = TargetOptions(
        model=destination.model,
        headers=destination.headers,
        bodies=tuple(destination.bodies),
    )
    plan = LoadPlan(kind=kind, profile=profile, max_requests=requests, timeout=_TIMEOUT_SECONDS)
    target = await build_target(address, choose_protocol(address), options)
    recorder = Recorder()
    run = LoadRun(target, plan, recorder)
    try:
        await run.run()
    finally:
        await target.close()
    result = compute_result(RunReport(target.description, plan), recorder, run.progress)
    return Load(result, tuple(recorder))
