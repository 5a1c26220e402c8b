"""What is remembered of a group from one decision to the next, and the load that follows. Pure."""

from dataclasses import replace

from kilonova.api.durations import parse_duration
from kilonova.api.serving import Autoscaling
from kilonova.serving.autoscaler.model import (
    MAX_HORIZON_SECONDS,
    Load,
    LoadSample,
    Observation,
    ScalingMemory,
    WantedSpan,
)
from kilonova.serving.autoscaler.stabilization import remember_change
from kilonova.serving.signals import GroupSignals

_SMOOTHING_SECONDS = 3.0
"""Requests in flight are averaged over this time: one reading is a moment of a second."""
_STARTUP_SHARE = 0.5
"""How much of the measured startup time is that of the last server."""
_MAX_START_SECONDS = 600.0
"""A group whose servers start for longer, or fail over and over, is idle like any other."""
_MIN_RATE = 1e-6
_RATE_SHARE = 0.02
"""How much of the rate of a busy server is the latest one, if it is lower."""


def observe(
    scaling: Autoscaling, observation: Observation, memory: ScalingMemory | None
) -> ScalingMemory:
    """The memory with what is observed now."""
    now = observation.now
    if memory is None:
        startup = parse_duration(scaling.startup_time) if scaling.startup_time else None
        memory = ScalingMemory(
            # Nothing is removed before the stabilization is over: what was wanted is not known.
            wanted=(WantedSpan(now, observation.replicas, observation.replicas),),
            startup_seconds=startup,
            active_at=now,
        )
    memory = _measure_startup(memory, observation)
    memory = remember_change(scaling, memory, observation)
    signals = observation.signals
    if is_active(signals) or observation.held or _is_first_starting(observation, memory):
        memory = replace(memory, active_at=now)
    if signals is None or signals.in_flight is None:
        return memory
    pending = signals.pending or 0
    sample = LoadSample(
        now,
        signals.in_flight,
        pending,
        (signals.in_flight + pending) / max(1, observation.ready),
        signals.arrivals_per_second,
    )
    samples = [each for each in memory.samples if each.at > now - MAX_HORIZON_SECONDS]
    return replace(memory, samples=(*samples, sample))


def is_active(signals: GroupSignals | None) -> bool:
    """Whether there are requests, or were some in the last seconds."""
    if signals is None:
        return False
    rates = (signals.arrivals_per_second, signals.requests_per_second)
    return bool(signals.demand or signals.queued or any(rates))


def _is_first_starting(observation: Observation, memory: ScalingMemory) -> bool:
    """Whether servers start and none is ready: idle time counts from when one is."""
    since = memory.starting_since
    if since is None or observation.ready:
        return False
    return observation.now - since < _MAX_START_SECONDS


def estimate_load(observation: Observation, memory: ScalingMemory) -> Load | None:
    """The requests, averaged over the last seconds; None if they are not known."""
    signals = observation.signals
    held = observation.held if signals is None else max(observation.held, signals.held)
    if signals is None or signals.in_flight is None:
        return Load(0.0, 0.0, held) if held and not observation.ready else None
    start = observation.now - _SMOOTHING_SECONDS
    recent = [each for each in memory.samples if each.at > start]
    return Load(
        sum(each.in_flight for each in recent) / len(recent),
        sum(each.pending for each in recent) / len(recent),
        held,
        signals.arrivals_per_second,
        signals.requests_per_second,
    )


def learn_busy_rate(
    memory: ScalingMemory, observation: Observation, load: Load | None, *, is_busy: bool
) -> ScalingMemory:
    """The memory with the answers per second of a busy server: the highest that was seen. It sinks
    slowly while servers are busy and answer fewer."""
    if load is None or not load.answers or not observation.ready:
        return memory
    rate, known = max(_MIN_RATE, load.answers / observation.ready), memory.busy_rate
    if known is None:
        # A server that is not busy could answer more.
        return replace(memory, busy_rate=rate) if is_busy else memory
    if rate < known:
        if not is_busy:
            return memory
        rate = known + _RATE_SHARE * (rate - known)
    return replace(memory, busy_rate=rate)


def _measure_startup(memory: ScalingMemory, observation: Observation) -> ScalingMemory:
    """Take the time from the order of servers until one of them is ready."""
    since, startup = memory.starting_since, memory.startup_seconds
    if since is not None and observation.ready > memory.ready:
        seconds = observation.now - since
        startup = seconds if startup is None else startup + _STARTUP_SHARE * (seconds - startup)
    was_added = memory.replicas is not None and observation.replicas > memory.replicas
    if not observation.starting:
        since = None
    elif since is None or was_added:
        since = observation.now
    return replace(memory, starting_since=since, startup_seconds=startup, ready=observation.ready)
