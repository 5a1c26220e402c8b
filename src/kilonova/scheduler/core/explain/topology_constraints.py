"""Which topology or inter-pod constraint keeps a gang pending."""

import numpy as np

from kilonova.scheduler.core.explain import formatting
from kilonova.scheduler.core.explain.blocking_constraint import BlockingConstraint
from kilonova.scheduler.core.explain.diagnosis import INTER_POD_REASONS, diagnose_nodes
from kilonova.scheduler.core.explain.nearest_domain import find_nearest_domain
from kilonova.scheduler.core.explain.placement_constraints import (
    PlacementConstraint,
    find_constrained_part,
    list_constraints,
)
from kilonova.scheduler.core.explain.trial_cluster import TrialCluster
from kilonova.scheduler.core.model.gangs import Gang, Group


def find_blocking_topology(trial: TrialCluster, gang: Gang) -> BlockingConstraint:
    """One of the required constraints blocks, since the gang fits without all of them."""
    all_of_them = list_constraints(gang)
    alone = (each for each in all_of_them if trial.fits_relaxed(gang, each))
    constraint = next(alone, all_of_them[-1])
    match constraint.scope:
        case "GangAntiAffinity":
            return _describe_gang_anti_affinity(gang, constraint)
        case "Segments":
            return _describe_segments(trial, gang, constraint)
        case "PodAffinity":
            group = next(each for each in gang.groups if each.name in constraint.groups)
            return describe_pod_rules(trial, group)
        case "Gang" | "TopologyConstraintGroup" | "Group":
            return _describe_topology(trial, gang, constraint)


def describe_pod_rules(trial: TrialCluster, group: Group) -> BlockingConstraint:
    counts = diagnose_nodes(trial, group.name, group.members[0]).counts
    texts = [f"{each.nodes} {each.text}" for each in counts if each.reason in INTER_POD_REASONS]
    text = f"pods of group {group.name} and others have conflicting affinity rules"
    text += f": {'; '.join(texts)}" if texts else " that leave no node for all of them"
    return BlockingConstraint("PodAffinity", text, group=group.name, requested=group.needed)


def _describe_gang_anti_affinity(gang: Gang, constraint: PlacementConstraint) -> BlockingConstraint:
    text = f"no {constraint.level} has capacity for it without gangs of its anti-affinity"
    return BlockingConstraint(
        "GangAntiAffinity", text, level=constraint.level, requested=gang.needed
    )


def _describe_segments(
    trial: TrialCluster, gang: Gang, constraint: PlacementConstraint
) -> BlockingConstraint:
    group = next(each for each in gang.groups if each.name in constraint.groups)
    assert group.segments is not None
    size, level = group.segments.size, group.segments.level
    rows = trial.live_rows()
    domains = trial.snapshot.labels.domains(level, rows)
    capacities = trial.feasibility.free_capacity(group.members[0].shape)[rows]
    inside = domains >= 0
    whole = int((np.bincount(domains[inside], weights=capacities[inside]) // size).sum())
    requested = -(-group.needed // size)
    text = (
        f"{requested} segments of {formatting.format_pods(size)} of group {group.name} "
        f"must each fit within one {level}, and there is capacity for {min(whole, requested)}"
    )
    return BlockingConstraint(
        "Segments",
        text,
        group=group.name,
        level=level,
        requested=requested,
        available=min(whole, requested),
    )


def _describe_topology(
    trial: TrialCluster, gang: Gang, constraint: PlacementConstraint
) -> BlockingConstraint:
    level = constraint.level
    part = find_constrained_part(gang, constraint)
    domain = None if part is None else find_nearest_domain(trial, part, level)
    if domain is None:
        text = f"no {level} can hold {constraint.subject}: no node has that label"
        if part is not None and part.anchor_nodes:
            text = f"{constraint.subject} is placed in more than one {level} already"
        return BlockingConstraint("Topology", text, level=level)
    requested = sum(demand.requested for demand in domain.demands)
    capacity = sum(min(demand.requested, demand.available) for demand in domain.demands)
    group = domain.demands[0].group if len({each.group for each in domain.demands}) == 1 else ""
    subject = f"group {group}" if group else constraint.subject
    pods = f"all {formatting.format_pods(requested)} of {subject}"
    detail = f"{domain.domain} has capacity for {capacity}"
    if not domain.missing:
        detail = f"{domain.domain} has capacity for each group, but not for all together"
        if group:
            detail = (
                f"{domain.domain} has that capacity, but not together with the rest of the gang"
            )
    text = f"no {level} has capacity for {pods}: {detail}"
    if domain.has_placed_pods:
        text = f"{pods} must be placed in {level} {domain.domain}, where some are placed: {detail}"
    return BlockingConstraint(
        "Topology",
        text,
        group=group,
        level=level,
        domain=domain.domain,
        requested=requested,
        available=capacity,
    )
