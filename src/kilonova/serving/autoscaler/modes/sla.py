"""Latencies: as many servers as keep the percentile within its target. Pure.

A latency is known when a request is over: too late to follow. Requests are counted at once. So the
mode learns from latencies, and counts requests:

- While a target is missed, servers are busy, and answer as many requests per second as they can
  (`busy_rate`): by it the servers are found that keep up with the requests that arrive, and those
  that work off the backlog. A target is missed as soon as requests that arrive now are going to
  miss it, by Little's law.
- While all targets are met, servers are added if more requests arrive than they can answer, and
  removed if the requests in flight leave the latency within the target on fewer servers
  (`load_curve`).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kilonova.api.durations import parse_duration
from kilonova.api.serving import Autoscaling, DemandTarget, SlaTarget
from kilonova.serving.autoscaler.load_curve import LoadCurve
from kilonova.serving.autoscaler.model import (
    Load,
    Objective,
    Observation,
    ScalingMemory,
    Vote,
    format_figure,
    format_seconds,
)
from kilonova.serving.autoscaler.modes.demand import (
    BUSY_SHARE,
    divide,
    find_sustained,
    keep,
)
from kilonova.serving.signals import GroupSignals
from kilonova.serving.signals.readings.window import QUANTILE_SECONDS

HEADROOM = 0.9
"""The share of the target that is aimed at."""
_DRAIN_SECONDS = 10.0
"""How fast a backlog is to be worked off that sinks already, or will with the servers that are
starting."""
_MIN_DRAIN_SECONDS = 1.0
_SURPLUS_SHARE = 0.1
"""It sinks if servers answer by this share more requests than arrive."""
_TITLES: dict[Objective, str] = {
    "latency": "latency",
    "queue": "queue",
    "first_token": "time to first token",
    "inter_token": "inter-token latency",
}


@dataclass(frozen=True, slots=True)
class Measurement:
    """A latency and its target, in seconds."""

    objective: Objective
    target: float
    value: float
    per_server: float
    """The requests of a server during the time that the value is of."""
    title: str

    def __str__(self) -> str:
        return f"{self.title} {format_seconds(self.value)}"


def list_targets(sla: SlaTarget) -> Iterator[tuple[Objective, float]]:
    """The objectives that are set."""
    durations: tuple[tuple[Objective, str | None], ...] = (
        ("latency", sla.latency),
        ("queue", sla.queue),
        ("first_token", sla.time_to_first_token),
        ("inter_token", sla.inter_token_latency),
    )
    for objective, text in durations:
        if text is not None:
            yield objective, max(1e-6, parse_duration(text))


def measure(
    sla: SlaTarget, load: Load | None, observation: Observation, memory: ScalingMemory
) -> list[Measurement]:
    """The latencies that are known; `memory` has the loads of the time that they are of."""
    signals = observation.signals
    if signals is None or load is None:
        return []
    start = observation.now - QUANTILE_SECONDS
    loads = [each.per_server for each in memory.samples if each.at > start]
    found: list[Measurement] = []
    for objective, target in list_targets(sla):
        distribution = signals.distributions.get(objective)
        if distribution is None or not distribution.count:
            continue
        value, name = distribution.quantile(sla.percentile / 100), f"p{sla.percentile:g}"
        if value is None:
            # Triton has no buckets: its mean is all that is known.
            value, name = distribution.mean or 0.0, "mean"
        per_server = sum(loads) / max(1, len(loads))
        expected = _expect(objective, signals, load)
        if expected is not None and expected > max(value, target):
            value, name = expected, "expected"
            per_server = load.total / max(1, observation.ready)
        title = f"{name} {_TITLES[objective]}"
        found.append(Measurement(objective, target, value, per_server, title))
    return found


def learn(
    curves: Mapping[Objective, LoadCurve], measurements: list[Measurement], now: float
) -> dict[Objective, LoadCurve]:
    """The curves after these measurements."""
    learned = dict(curves)
    for each in measurements:
        curve = curves.get(each.objective, LoadCurve())
        learned[each.objective] = curve.observe(now, each.per_server, each.value / each.target)
    return learned


def find_capacities(memory: ScalingMemory) -> dict[Objective, float]:
    """What a server may have in flight, for each objective of which that has been learned."""
    found: dict[Objective, float] = {}
    for objective, curve in memory.curves.items():
        capacity = curve.find_capacity(HEADROOM)
        if capacity is not None:
            found[objective] = capacity
    return found


def vote_sla(
    scaling: Autoscaling,
    measurements: list[Measurement],
    load: Load | None,
    observation: Observation,
    memory: ScalingMemory,
) -> Vote:
    """The servers that keep all objectives; `memory` has learned from the measurements."""
    assert scaling.sla is not None
    if load is None:
        return keep(observation, "SLA", "requests in flight are not known")
    missed = find_missed(measurements)
    if missed is not None and memory.busy_rate and load.arrivals is not None:
        vote = _vote_missed(missed, memory.busy_rate, load, observation, memory)
    else:
        vote = _vote_met(scaling, scaling.sla, measurements, load, observation, memory)
    # With one request at a time a server is as fast as it can be.
    most = divide(load.total, 1)
    if vote.wanted <= most:
        return vote
    return Vote(most, "SLA", f"{vote.message}, not more than the {load}", min(most, vote.held))


def find_missed(measurements: list[Measurement]) -> Measurement | None:
    """The measurement that misses its target by most."""
    worst = max(measurements, key=lambda each: each.value / each.target, default=None)
    return worst if worst is not None and worst.value > worst.target else None


def _vote_missed(
    missed: Measurement,
    rate: float,
    load: Load,
    observation: Observation,
    memory: ScalingMemory,
) -> Vote:
    """The servers for the requests that arrive, and for those that wait."""
    signals, arrivals = observation.signals, load.arrivals or 0.0
    if signals is not None and signals.queued is not None:
        waiting = signals.queued + load.pending + load.held
    else:
        waiting = max(0.0, load.total - rate * missed.target * observation.ready)
    surplus = rate * observation.replicas - arrivals
    is_sinking = surplus > _SURPLUS_SHARE * arrivals
    seconds = _DRAIN_SECONDS if is_sinking else max(_MIN_DRAIN_SECONDS, missed.target)
    wanted = divide(arrivals / (rate * BUSY_SHARE) + waiting / (rate * seconds), 1)
    message = (
        f"{missed} for {format_seconds(missed.target)}; {format_figure(arrivals)} requests/s over "
        f"{format_figure(rate)}/s × {BUSY_SHARE:g} per server, "
        f"{format_figure(waiting)} waiting → {wanted}"
    )
    return Vote(wanted, "SLA", message, find_sustained(observation, memory))


def _vote_met(
    scaling: Autoscaling,
    sla: SlaTarget,
    measurements: list[Measurement],
    load: Load,
    observation: Observation,
    memory: ScalingMemory,
) -> Vote:
    """As many servers as there are, fewer if these suffice, more if more requests arrive than they
    can answer."""
    targets, capacities = dict(list_targets(sla)), find_capacities(memory)
    strictest = min(targets.keys() & capacities.keys(), key=capacities.__getitem__, default=None)
    if strictest is None:
        prior = scaling.demand or DemandTarget()
        capacity = prior.in_flight_per_replica * prior.utilization
        why = f"no latency is known yet, {_describe(capacity)} assumed"
    else:
        capacity = capacities[strictest]
        known = [f"{each}, " for each in measurements if each.objective == strictest]
        target = format_seconds(targets[strictest])
        why = "".join(known) + f"{_describe(capacity)} keep it within {target}"
    wanted = divide(load.total, capacity)
    replicas = observation.replicas
    if not memory.busy_rate or load.arrivals is None:
        if measurements and replicas:
            # What a server can answer is not known yet: one less is tried at a time.
            wanted = min(replicas, max(wanted, replicas - 1))
        return Vote(wanted, "SLA", f"{why}: {load} → {wanted}")
    samples = [each.total for each in memory.samples]
    usual = sum(samples) / max(1, len(samples))
    arriving = divide(load.arrivals, memory.busy_rate * BUSY_SHARE)
    sustained = max(
        min(replicas, divide(usual, capacity)),
        find_sustained(observation, memory) or 0,
    )
    wanted = max(min(replicas, wanted), arriving)
    if arriving > replicas:
        why = (
            f"{format_figure(load.arrivals)} requests/s over {format_figure(memory.busy_rate)}/s × "
            f"{BUSY_SHARE:g} per server"
        )
    return Vote(wanted, "SLA", f"{why}: {load} → {wanted}", sustained)


def _describe(capacity: float) -> str:
    return f"{format_figure(capacity)} in flight per server"


def _expect(objective: Objective, signals: GroupSignals, load: Load) -> float | None:
    """What a request that arrives now is going to wait (Little's law)."""
    if not load.answers:
        return None
    if objective == "latency":
        return load.total / load.answers
    if objective in ("queue", "first_token") and signals.queued is not None:
        return (signals.queued + load.pending) / load.answers
    return None
