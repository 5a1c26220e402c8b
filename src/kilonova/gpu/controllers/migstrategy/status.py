"""The status of a strategy. Pure."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from msgspec.structs import replace

from kilonova.api.gpu.mig_strategy import MIG_STRATEGY, NodeMigStrategy, parse_mig_strategy
from kilonova.api.kgwe import MIGStrategy, MIGStrategyStatus
from kilonova.api.meta import Condition
from kilonova.api.times import format_rfc3339
from kilonova.gpu.controllers.migstrategy.assignment import (
    Assignment,
    describe_distribution,
    find_spec_problem,
)
from kilonova.gpu.controllers.node_devices import DevicesOfNode
from kilonova.kube.status import with_condition
from kilonova.scheduler.objects.core_v1 import Node

READY = "Ready"
_MAX_NAMED_NODES = 3
_DIGITS = 4
"""Fractions are rounded, so that the status is not written for nothing."""


@dataclass(frozen=True, slots=True)
class SelectedNode:
    """A node with the labels of a strategy."""

    node: Node
    devices: DevicesOfNode
    assignment: Assignment


def build_status(
    strategy: MIGStrategy, selected: Sequence[SelectedNode], now: datetime
) -> MIGStrategyStatus:
    """The status of a strategy, from the nodes with its labels."""
    name, old = strategy.metadata.name, strategy.status
    assigned = [
        each
        for each in selected
        if (own := read_strategy(each.node)) is not None and own.name == name
    ]
    distribution = _measure_distribution(assigned)
    ready = _build_ready(strategy, selected, assigned)
    changed = distribution != old.current_distribution
    return replace(
        old,
        observed_generation=strategy.metadata.generation,
        applied_nodes=tuple(sorted(each.node.metadata.name for each in assigned)),
        current_distribution=distribution,
        last_rebalance_time=format_rfc3339(now) if changed else old.last_rebalance_time,
        conditions=with_condition(old.conditions, ready, now),
    )


def read_strategy(node: Node) -> NodeMigStrategy | None:
    """The strategy in the annotation of a node."""
    text = node.metadata.annotations.get(MIG_STRATEGY)
    found = None if text is None else parse_mig_strategy(text)
    return found if isinstance(found, NodeMigStrategy) else None


def _measure_distribution(nodes: Sequence[SelectedNode]) -> dict[str, float]:
    """The fraction of the memory slices that the instances of each profile take."""
    capacity, taken = 0, Counter[str]()
    for each in nodes:
        strategy = read_strategy(each.node)
        if strategy is None:
            continue
        for gpu, wire in zip(each.devices.layout.gpus, each.devices.topology.gpus, strict=False):
            if gpu.mig is None or not strategy.includes(gpu.index):
                continue
            capacity += max(profile.slices for profile in gpu.mig.profiles)
            for instance in wire.instances:
                profile = gpu.mig.profile(instance.profile)
                taken[instance.profile] += 0 if profile is None else profile.slices
    return {profile: round(slices / capacity, _DIGITS) for profile, slices in sorted(taken.items())}


def _build_ready(
    strategy: MIGStrategy, selected: Sequence[SelectedNode], assigned: Sequence[SelectedNode]
) -> Condition:
    name, spec = strategy.metadata.name, strategy.spec
    if (problem := find_spec_problem(spec)) is not None:
        return Condition(READY, "False", "InvalidSpec", problem)
    unknown = [
        text
        for each in selected
        if (text := each.assignment.unknown_profiles.get(name)) is not None
    ]
    if unknown:
        return Condition(READY, "False", "UnknownProfile", _join(unknown))
    expected = [each for each in selected if _is_assigned(each.assignment, name)]
    if expected and len(assigned) == len(expected):
        count = len(assigned)
        nodes = "1 node has" if count == 1 else f"{count} nodes have"
        wanted = describe_distribution(spec.profile_distribution)
        return Condition(READY, "True", "Assigned", f"{nodes} the strategy: {wanted}")
    if expected:
        message = f"{len(assigned)} of {len(expected)} nodes have the strategy"
        return Condition(READY, "False", "Assigning", message)
    overriding = sorted(
        {other for each in selected if (other := each.assignment.overridden.get(name)) is not None}
    )
    if overriding:
        message = f"its nodes have a strategy of higher precedence: {_join(overriding)}"
        return Condition(READY, "False", "Overridden", f"{message}; raise spec.priority")
    labels = ", ".join(f"{key}={value}" for key, value in sorted(spec.node_selector.items()))
    if not selected:
        message = f"no node has the labels of spec.nodeSelector ({labels})"
        return Condition(READY, "False", "NoNodes", message)
    message = "no node with these labels has a GPU with MIG that spec.gpuSelector selects"
    return Condition(READY, "False", "NoGPUs", message)


def _is_assigned(assignment: Assignment, name: str) -> bool:
    return assignment.strategy is not None and assignment.strategy.name == name


def _join(texts: Sequence[str]) -> str:
    more = len(texts) - _MAX_NAMED_NODES
    named = "; ".join(texts[:_MAX_NAMED_NODES])
    return f"{named}; and {more} more" if more > 0 else named
