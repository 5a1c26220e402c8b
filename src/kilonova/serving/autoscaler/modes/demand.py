"""Demand-proportional: requests over the capacity of a server. Pure."""

import math
from dataclasses import replace

from kilonova.api.serving import DemandTarget
from kilonova.serving.autoscaler.model import (
    Load,
    Mode,
    Observation,
    ScalingMemory,
    Vote,
)

TOLERANCE = 0.1
"""A number that is too small by no more than this share is kept."""
BUSY_SHARE = 0.8
"""How busy a server is to be, in requests per second of one that is fully busy."""
MAX_SERVERS = 2**31 - 1
"""The greatest number that `/scale` takes."""


def vote_demand(
    target: DemandTarget, load: Load | None, observation: Observation, memory: ScalingMemory
) -> Vote:
    """The servers that the requests need."""
    if load is None:
        return keep(observation, "Demand", "requests in flight are not known")
    capacity = target.in_flight_per_replica * target.utilization
    wanted = divide(load.total, capacity)
    message = (
        f"{load} over {target.in_flight_per_replica} × {target.utilization:g} per server → {wanted}"
    )
    vote = tolerate(Vote(wanted, "Demand", message), load, capacity, observation)
    sustained = find_sustained(observation, memory)
    if sustained is None or not _had_backlog(target, observation, memory):
        return vote
    return replace(vote, sustained=min(vote.wanted, sustained))


def _had_backlog(target: DemandTarget, observation: Observation, memory: ScalingMemory) -> bool:
    """Whether servers had more requests lately than they work on well at the same time."""
    start = observation.now - memory.horizon
    return any(
        each.per_server > target.in_flight_per_replica for each in memory.samples if each.at > start
    )


def divide(total: float, capacity: float) -> int:
    """The servers of this capacity for all of it, rounded up; an absurd total needs no more than
    the greatest number that there can be."""
    servers = min(max(total / capacity, -MAX_SERVERS), MAX_SERVERS)
    return math.ceil(servers - 1e-9)


def keep(observation: Observation, mode: Mode, why: str) -> Vote:
    """Without its figures a mode wants the number that there is."""
    return Vote(observation.replicas, mode, f"{why}: keeping {observation.replicas}")


def find_sustained(observation: Observation, memory: ScalingMemory) -> int | None:
    """The servers that keep up with the requests that arrived lately, averaged over as long as a
    server takes to start: what is shorter is over before a server that was kept could be missed.
    None if that is not known."""
    if not memory.busy_rate:
        return None
    recent = [
        each.arrivals
        for each in memory.samples
        if each.at > observation.now - memory.horizon and each.arrivals is not None
    ]
    if not recent:
        return None
    return divide(sum(recent) / len(recent), memory.busy_rate * BUSY_SHARE)


def tolerate(vote: Vote, load: Load, capacity: float, observation: Observation) -> Vote:
    """The vote, unless the servers that there are nearly suffice."""
    replicas = observation.replicas
    if vote.wanted <= replicas or load.total > replicas * capacity * (1 + TOLERANCE):
        return vote
    message = f"{vote.message}, within the tolerance of {TOLERANCE:.0%}: keeping {replicas}"
    return Vote(replicas, vote.mode, message)
