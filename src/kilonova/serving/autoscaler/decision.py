"""How many servers a group is to have. Pure: the same values give the same decision.

Each mode that is set votes; the highest number counts. What a mode does not know makes it vote for
the number that there is, so that nothing is ever removed because a figure is missing. Then
stabilization and rates limit how fast the number changes, and the bounds what it may be.
"""

from dataclasses import dataclass, replace

from kilonova.api.durations import parse_duration
from kilonova.api.serving import Autoscaling, DemandTarget
from kilonova.serving.autoscaler.history import (
    estimate_load,
    is_active,
    learn_busy_rate,
    observe,
)
from kilonova.serving.autoscaler.model import (
    Decision,
    Load,
    Mode,
    Observation,
    ScalingMemory,
    Vote,
)
from kilonova.serving.autoscaler.modes.demand import vote_demand
from kilonova.serving.autoscaler.modes.metric import vote_metric
from kilonova.serving.autoscaler.modes.schedule import Bounds, find_bounds
from kilonova.serving.autoscaler.modes.sla import find_missed, learn, measure, vote_sla
from kilonova.serving.autoscaler.stabilization import remember_wanted, stabilize

_SHOWN_PROBLEMS = 3
"""When a network is away, all gateways are."""


@dataclass(frozen=True, slots=True)
class _Wish:
    """A number before stabilization."""

    wanted: int
    mode: Mode
    message: str
    sustained: int
    """What stabilization holds of it."""
    is_immediate: bool = False
    """Whether it is taken without stabilization."""


def decide(
    scaling: Autoscaling,
    observation: Observation,
    memory: ScalingMemory | None = None,
    *,
    paused: bool = False,
) -> Decision:
    """The number of servers, why, and what to remember until the next decision."""
    memory = observe(scaling, observation, memory)
    if paused:
        replicas = observation.replicas
        return Decision(replicas, "Paused", f"paused: keeping {replicas}", memory)
    bounds = find_bounds(scaling, observation.time)
    load = estimate_load(observation, memory)
    vote, memory = _vote(scaling, observation, load, memory)
    vote = _keep_without_figures(vote, observation)
    recommended = _apply_idleness(scaling, observation, memory, bounds, vote)
    memory = remember_wanted(
        scaling, memory, observation.now, recommended.wanted, recommended.sustained
    )
    number, message = recommended.wanted, recommended.message
    if not recommended.is_immediate:
        stabilized = stabilize(scaling, memory, observation, recommended.wanted)
        number = stabilized.number
        if stabilized.reason:
            message += f"; {number} for now ({stabilized.reason})"
    message = "; ".join((message, *observation.problems[:_SHOWN_PROBLEMS]))
    return _apply_bounds(bounds, number, recommended.mode, message, memory)


def _vote(
    scaling: Autoscaling, observation: Observation, load: Load | None, memory: ScalingMemory
) -> tuple[Vote, ScalingMemory]:
    """The highest vote of all modes that are set, and what was learned."""
    votes: list[Vote] = []
    if scaling.sla is None and load is not None:
        target = scaling.demand or DemandTarget()
        is_busy = load.total > target.in_flight_per_replica * observation.ready
        memory = learn_busy_rate(memory, observation, load, is_busy=is_busy)
    if scaling.demand is not None or (scaling.metric is None and scaling.sla is None):
        votes.append(vote_demand(scaling.demand or DemandTarget(), load, observation, memory))
    if scaling.metric is not None:
        votes.append(vote_metric(scaling.metric, load, observation))
    if scaling.sla is not None:
        measurements = measure(scaling.sla, load, observation, memory)
        if observation.ready:
            curves = learn(memory.curves, measurements, observation.now)
            memory = replace(memory, curves=curves)
            is_busy = find_missed(measurements) is not None
            memory = learn_busy_rate(memory, observation, load, is_busy=is_busy)
        votes.append(vote_sla(scaling, measurements, load, observation, memory))
    highest = max(votes, key=lambda each: each.wanted)
    sustained = max(each.held for each in votes)
    return replace(highest, sustained=sustained), memory


def _keep_without_figures(vote: Vote, observation: Observation) -> Vote:
    """Never remove a server while a gateway does not answer: there may be more requests."""
    replicas = observation.replicas
    if vote.wanted >= replicas or (observation.is_complete and observation.signals is not None):
        return vote
    return Vote(replicas, vote.mode, f"{vote.message}; not all gateways answer: keeping {replicas}")


def _apply_idleness(
    scaling: Autoscaling,
    observation: Observation,
    memory: ScalingMemory,
    bounds: Bounds,
    vote: Vote,
) -> _Wish:
    """Zero servers only after a time without requests; the first server as soon as one is held."""
    is_first = bool(observation.held) and not observation.replicas
    if vote.wanted and not is_first:
        return _Wish(vote.wanted, vote.mode, vote.message, vote.held)
    if observation.held:
        message = f"{vote.message}; no server, requests wait"
        return _Wish(max(1, vote.wanted), "Held", message, 1, is_immediate=is_first)
    if bounds.minimum:
        return _Wish(0, vote.mode, vote.message, 0)
    if not observation.replicas:
        return _Wish(0, "Idle", "no requests: no server until one arrives", 0)
    idle_after = parse_duration(scaling.scale_to_zero.idle_after)
    idle = 0.0 if memory.active_at is None else observation.now - memory.active_at
    if idle < idle_after or not _is_known_idle(observation):
        # Without the time, which would be another text, and so a status to write, every second.
        text = f"no requests: the last server goes after {scaling.scale_to_zero.idle_after}"
        return _Wish(1, "Idle", text, 1)
    message = f"no request for {scaling.scale_to_zero.idle_after}"
    return _Wish(0, "Idle", message, 0, is_immediate=True)


def _is_known_idle(observation: Observation) -> bool:
    """Whether it is certain that no request is in flight or held."""
    signals = observation.signals
    return (
        observation.is_complete
        and signals is not None
        and signals.in_flight is not None
        and not is_active(signals)
    )


def _apply_bounds(
    bounds: Bounds, number: int, mode: Mode, message: str, memory: ScalingMemory
) -> Decision:
    desired = min(max(number, bounds.minimum), bounds.maximum)
    if desired != number:
        word, by = (
            ("minimum", bounds.minimum_by) if desired > number else ("maximum", bounds.maximum_by)
        )
        mode = "Schedule" if by else "Bounds"
        message += f"; {word} {desired}" + (f" by {by}" if by else "")
    return Decision(desired, mode, "; ".join((message, *bounds.problems)), memory)
