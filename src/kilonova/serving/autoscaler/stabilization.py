"""How fast the number may change: stabilization and rates, as a HorizontalPodAutoscaler has them.
Pure."""

from dataclasses import dataclass, replace

from kilonova.api.durations import parse_duration
from kilonova.api.serving import Autoscaling, ScalingRate
from kilonova.api.serving.autoscaling import DEFAULT_SCALE_DOWN_STABILIZATION
from kilonova.serving.autoscaler.model import (
    Observation,
    ScalingMemory,
    WantedSpan,
    format_seconds,
)

_NO_STABILIZATION = "0s"
_BACKLOG_HOLD_SECONDS = 10.0
"""What only a backlog needs is held for this time alone: when it is gone, servers that were added
for it are not needed, those that are still starting least of all."""


@dataclass(frozen=True, slots=True)
class StabilizedNumber:
    """A number that may be taken now, and why it is not the wanted one."""

    number: int
    reason: str = ""


def remember_wanted(
    scaling: Autoscaling, memory: ScalingMemory, now: float, wanted: int, sustained: int
) -> ScalingMemory:
    """The memory with the numbers that are wanted now."""
    longest = max(_up_seconds(scaling), _down_seconds(scaling))
    spans = [each for each in memory.wanted if each.last >= now - longest]
    span = WantedSpan(now, wanted, sustained)
    if spans and replace(spans[-1], last=now) == span:
        spans.pop()
    return replace(memory, wanted=(*spans, span))


def remember_change(
    scaling: Autoscaling, memory: ScalingMemory, observation: Observation
) -> ScalingMemory:
    """The memory with the servers that were added or removed since the last observation."""
    longest = max(parse_duration(each.period) for each in (scaling.scale_up, scaling.scale_down))
    changes = tuple(each for each in memory.changes if each[0] > observation.now - longest)
    if memory.replicas is not None and memory.replicas != observation.replicas:
        changes = (*changes, (observation.now, observation.replicas - memory.replicas))
    return replace(memory, changes=changes, replicas=observation.replicas)


def stabilize(
    scaling: Autoscaling, memory: ScalingMemory, observation: Observation, wanted: int
) -> StabilizedNumber:
    """What may be taken of the wanted number, which the memory has, too."""
    now, replicas = observation.now, observation.replicas
    if wanted > replicas:
        seconds = _up_seconds(scaling)
        allowed = min((each.wanted for each in _list_spans(memory, now - seconds)), default=wanted)
        number = max(replicas, min(allowed, wanted))
        reason = f"stabilization {format_seconds(seconds)}" if number < wanted else ""
        limit = _find_limit(scaling.scale_up, memory, now, replicas, sign=1)
        if limit is not None and number > limit:
            return StabilizedNumber(max(replicas, limit), _describe_rate(scaling.scale_up))
        return StabilizedNumber(number, reason)
    if wanted < replicas:
        seconds = _down_seconds(scaling)
        hold = min(seconds, _BACKLOG_HOLD_SECONDS)
        allowed = max(
            max((each.sustained for each in _list_spans(memory, now - seconds)), default=wanted),
            max((each.wanted for each in _list_spans(memory, now - hold)), default=wanted),
        )
        number = min(replicas, max(allowed, wanted))
        reason = f"stabilization {format_seconds(seconds)}" if number > wanted else ""
        limit = _find_limit(scaling.scale_down, memory, now, replicas, sign=-1)
        if limit is not None and number < limit:
            return StabilizedNumber(min(replicas, limit), _describe_rate(scaling.scale_down))
        return StabilizedNumber(number, reason)
    return StabilizedNumber(replicas)


def _list_spans(memory: ScalingMemory, start: float) -> list[WantedSpan]:
    return [each for each in memory.wanted if each.last > start]


def _find_limit(
    rate: ScalingRate, memory: ScalingMemory, now: float, replicas: int, *, sign: int
) -> int | None:
    """The number that the rate allows now; None without a rate."""
    if rate.max_replicas is None:
        return None
    start = now - parse_duration(rate.period)
    recent = sum(delta for at, delta in memory.changes if at > start and delta * sign > 0)
    return replicas - recent + sign * rate.max_replicas


def _describe_rate(rate: ScalingRate) -> str:
    return f"at most {rate.max_replicas} in {rate.period}"


def _up_seconds(scaling: Autoscaling) -> float:
    return parse_duration(scaling.scale_up.stabilization or _NO_STABILIZATION)


def _down_seconds(scaling: Autoscaling) -> float:
    return parse_duration(scaling.scale_down.stabilization or DEFAULT_SCALE_DOWN_STABILIZATION)
