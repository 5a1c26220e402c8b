"""Replays an hour of LLM requests in virtual time, and compares what autoscalers spend.

The trace is `azure-llm` of KILONOVA_DATA; see `replay_servers` for the servers and
`replay_scalers` for who decides. Both autoscalers are run with several settings; of each the
cheapest one counts that meets the objective for a share of the requests. The peer is compared
twice: with the stabilization that Kubernetes documents (and SuperSONIC's cooldown of 120 s), and
with all stabilizations among which ours chooses.
"""

import csv
import os
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from bench.report import Quantity, Row
from bench.serving.replay_scalers import HpaScaler, HpaSettings, OurScaler, Scaler
from bench.serving.replay_servers import Arrival, Cluster, Outcome, ServerModel
from kilonova.api.serving import Autoscaling, DemandTarget, ScalingRate, SlaTarget

PEER = "KEDA and HPA"
FIRST_TOKEN_SECONDS = 5.0
"""The objective: the time to the first token."""
ATTAINMENTS = (0.90, 0.95, 0.98)
PEER_SETTINGS = "documented stabilization"
_DOCUMENTED_WINDOWS = (300.0, 120.0)
_FURTHER_WINDOWS = (60.0, 180.0, 600.0)
_TARGET_SHARE = 0.7
_MAX_REPLICAS = 32
_TRACE = "azure-llm/AzureLLMInferenceTrace_code.csv"
_THRESHOLDS = (0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0)
_STEP_AT, _STEP_END = 120.0, 420.0
_STEP_RATES = (4.0, 24.0)
_STEP_FIRST_TOKEN_SECONDS = 1.0
_RECOVERY_SECONDS = 15.0


class MissingTrace(RuntimeError):
    """The trace is not there."""

    def __init__(self, file: Path) -> None:
        super().__init__(f"{file} is missing: set KILONOVA_DATA to the folder of azure-llm")


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """What one scaler with one setting did."""

    setting: str
    attainment: float
    gpu_hours: float


def run_replay(quick: bool = False, trace: Path | None = None) -> list[Row]:
    """GPU-hours at the same attainment, and the time to recover from a step of load."""
    arrivals = read_trace(trace or default_trace())
    ours, peers = replay_ours(arrivals, quick=quick), replay_peer(arrivals, quick=quick)
    rows = [
        _compare(attainment, ours, peers, PEER_SETTINGS, target=True)
        for attainment in (ATTAINMENTS[1:2] if quick else ATTAINMENTS)
    ]
    if not quick:
        peers += replay_peer(arrivals, windows=_FURTHER_WINDOWS)
        rows += [_compare(each, ours, peers, "every stabilization") for each in ATTAINMENTS]
    for startup in (5.0,) if quick else (5.0, 30.0):
        rows.append(_measure_recovery(startup))
    return rows


def _compare(
    attainment: float,
    ours: Sequence[ReplayResult],
    peers: Sequence[ReplayResult],
    settings: str,
    *,
    target: bool = False,
) -> Row:
    our_best, peer_best = find_cheapest(ours, attainment), find_cheapest(peers, attainment)
    title = (
        f"LLM trace, first token within {FIRST_TOKEN_SECONDS:g} s for {attainment:.0%} of the "
        f"requests, peer with {settings}: GPU-hours"
    )
    bound = round(_TARGET_SHARE * peer_best.gpu_hours, 2) if target else None
    quantity = Quantity(title, "h", target=bound, beats_peer=True)
    return Row(quantity, our_best.gpu_hours, peer_best.gpu_hours)


def default_trace() -> Path:
    """The trace in KILONOVA_DATA."""
    folder = os.environ.get("KILONOVA_DATA")
    base = Path(folder) if folder else Path(__file__).parents[3] / "shared" / "data"
    return base / _TRACE


def read_trace(file: Path) -> list[Arrival]:
    """The requests of a trace, from its first one on."""
    if not file.exists():
        raise MissingTrace(file)
    arrivals: list[Arrival] = []
    with file.open(newline="") as lines:
        start: datetime | None = None
        for row in csv.DictReader(lines):
            # Seven fractional digits, one more than datetime has.
            time = datetime.fromisoformat(row["TIMESTAMP"][:26])
            start = start or time
            seconds = (time - start).total_seconds()
            prompt, tokens = int(row["ContextTokens"]), int(row["GeneratedTokens"])
            arrivals.append(Arrival(seconds, prompt, tokens))
    return arrivals


def replay_ours(arrivals: Sequence[Arrival], *, quick: bool = False) -> list[ReplayResult]:
    """Our autoscaler: SLA by target, and demand by requests in flight."""
    stabilizations = ("300s",) if quick else ("60s", "180s", "300s", "600s")
    results: list[ReplayResult] = []
    for stabilization in stabilizations:
        down = ScalingRate(stabilization=stabilization)
        for seconds in (1.0, 2.0) if quick else (0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0):
            sla = SlaTarget(time_to_first_token=f"{seconds}s")
            scaling = Autoscaling(max_replicas=_MAX_REPLICAS, sla=sla, scale_down=down)
            name = f"SLA, {seconds:g} s, stabilization {stabilization}"
            results.append(_replay_setting(name, arrivals, OurScaler(scaling)))
        for in_flight in () if quick else (2, 4, 8, 16):
            demand = DemandTarget(in_flight_per_replica=in_flight)
            scaling = Autoscaling(max_replicas=_MAX_REPLICAS, demand=demand, scale_down=down)
            name = f"demand, {in_flight} in flight, stabilization {stabilization}"
            results.append(_replay_setting(name, arrivals, OurScaler(scaling)))
    return results


def replay_peer(
    arrivals: Sequence[Arrival],
    *,
    quick: bool = False,
    windows: Sequence[float] = _DOCUMENTED_WINDOWS,
) -> list[ReplayResult]:
    """KEDA and the HorizontalPodAutoscaler: thresholds, stabilizations, and KEDA's polling interval
    and half of it."""
    return [
        _replay_setting(str(settings), arrivals, HpaScaler(settings))
        for settings in _list_peer_settings(windows[:1] if quick else windows, quick=quick)
    ]


def _list_peer_settings(windows: Sequence[float], *, quick: bool) -> Iterator[HpaSettings]:
    for window in windows:
        for polling in (30.0,) if quick else (30.0, 15.0):
            for threshold in _THRESHOLDS[::2] if quick else _THRESHOLDS:
                yield HpaSettings(
                    threshold,
                    max_replicas=_MAX_REPLICAS,
                    down_window_seconds=window,
                    polling_seconds=polling,
                )


def find_cheapest(results: Sequence[ReplayResult], attainment: float) -> ReplayResult:
    """The cheapest setting that meets the objective for this share of the requests."""
    found = [each for each in results if each.attainment >= attainment]
    if not found:
        best = max(each.attainment for each in results)
        raise ValueError(f"no setting reaches {attainment:.0%}: the best one has {best:.1%}")
    return min(found, key=lambda each: each.gpu_hours)


def _replay_setting(name: str, arrivals: Sequence[Arrival], scaler: Scaler) -> ReplayResult:
    outcome = replay(arrivals, ServerModel(), scaler)
    hours = outcome.server_seconds / 3600
    return ReplayResult(name, outcome.attainment(FIRST_TOKEN_SECONDS), hours)


def replay(
    arrivals: Sequence[Arrival], model: ServerModel, scaler: Scaler, servers: int = 1
) -> Outcome:
    """Send all requests at their times, and let the scaler decide."""
    cluster = Cluster(model, servers)
    index, asked_at = 0, 0.0
    end = arrivals[-1].at
    while index < len(arrivals) or cluster.now <= end or cluster.in_flight or cluster.held:
        next_arrival = arrivals[index].at if index < len(arrivals) else float("inf")
        if next_arrival <= asked_at:
            cluster.run_until(next_arrival)
            cluster.arrive(arrivals[index])
            index += 1
            continue
        cluster.run_until(asked_at)
        cluster.scale(scaler.decide(cluster))
        asked_at += scaler.interval
    return cluster.finish()


def _measure_recovery(startup: float) -> Row:
    """Six times as many requests from one moment to the next."""
    model = ServerModel(startup_seconds=startup)
    sla = SlaTarget(time_to_first_token=f"{_STEP_FIRST_TOKEN_SECONDS}s")
    scaling = Autoscaling(max_replicas=_MAX_REPLICAS, sla=sla, demand=DemandTarget())
    ours = replay(build_step(), model, OurScaler(scaling))
    peer = replay(build_step(), model, HpaScaler(HpaSettings(threshold=6.4)))
    title = f"6× step, servers start in {startup:g} s: first token back under 1 s after"
    quantity = Quantity(title, "s", target=startup + _RECOVERY_SECONDS, beats_peer=True)
    return Row(quantity, find_recovery(ours), find_recovery(peer))


def build_step() -> list[Arrival]:
    """Arrivals at random, from one second on six times as many."""
    randomness, time = random.Random(1), 0.0
    arrivals: list[Arrival] = []
    while time < _STEP_END:
        time += randomness.expovariate(_STEP_RATES[time >= _STEP_AT])
        arrivals.append(Arrival(time, prompt=500, tokens=50))
    return arrivals


def find_recovery(outcome: Outcome) -> float:
    """The seconds from the step until the first tokens of all but a few requests of each second are
    in time again."""
    late: dict[int, list[bool]] = {}
    for at, seconds in zip(outcome.first_token_at, outcome.first_token, strict=True):
        late.setdefault(int(at), []).append(seconds > _STEP_FIRST_TOKEN_SECONDS)
    missed = [at for at, each in late.items() if at >= _STEP_AT and sum(each) > len(each) / 20]
    return max(missed) + 1 - _STEP_AT if missed else 0.0
