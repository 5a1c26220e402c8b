"""Gang termination: what is restarted after MinAvailableBreached for terminationDelay. Pure.

Only cliques that were healthy in their present incarnation are restarted: one that never became
available is pending, and one that was just restarted gets the time it needs.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from kilonova.api.durations import parse_duration
from kilonova.api.grove import PodClique, PodCliqueSet, names
from kilonova.api.times import add_seconds, parse_time
from kilonova.kube.status import find_condition, is_condition_true
from kilonova.workloads.builders.template_lookup import list_standalone_cliques
from kilonova.workloads.controllers.podclique.completion import FAILED_CONDITION
from kilonova.workloads.controllers.podcliqueset_replica.observed import (
    ObservedReplica,
    is_being_deleted,
)
from kilonova.workloads.controllers.podcliqueset_replica.scaling_groups.state import (
    GroupReplica,
    ScalingGroupState,
)
from kilonova.workloads.controllers.podcliqueset_replica.scaling_groups.status import (
    GANG_TERMINATION_IN_PROGRESS,
)
from kilonova.workloads.keys import get_incarnation
from kilonova.workloads.settings import DEFAULT_TERMINATION_DELAY
from kilonova.workloads.status.condition_types import MIN_AVAILABLE_BREACHED
from kilonova.workloads.update_strategy import is_on_delete, is_replica_updating


@dataclass(frozen=True, slots=True)
class RestartDecision:
    """What is restarted now."""

    cliques: frozenset[str] = frozenset()
    """Full names."""
    group_replicas: tuple[tuple[str, int], ...] = ()
    """Group replicas, where restarting those is enough: full name of the group, index."""
    whole_replica: bool = False
    """Whether the whole replica of the set is restarted."""
    requeue_after: float | None = None
    """Seconds until the next restart may be due."""


def decide_restarts(
    observed: ObservedReplica, groups: Sequence[ScalingGroupState], now: datetime
) -> RestartDecision:
    """Decide which cliques have been breached for longer than terminationDelay.

    In a scaling group with enough healthy replicas only the breached group replicas are restarted.
    Otherwise, or if a standalone clique is breached, the whole replica of the set is restarted,
    unless a clique of it is missing or it is being updated.
    """
    if is_replica_updating(observed.set_, observed.index) and not is_on_delete(observed.set_):
        return RestartDecision()
    delay = parse_duration(get_termination_delay(observed.set_))
    waits: list[float] = []

    def has_delay_passed(since: datetime) -> bool:
        left = (add_seconds(since, delay) - now).total_seconds()
        if left > 0:
            waits.append(left)
        return left <= 0

    breached: list[tuple[str, GroupReplica]] = []
    restart_all = False
    for group in groups:
        if group.healthy_replicas >= group.required_replicas:
            for group_replica, since in _list_breached_replicas(group):
                if has_delay_passed(since):
                    breached.append((group.name, group_replica))
        else:
            since = _get_group_breached_since(group)
            restart_all |= since is not None and has_delay_passed(since)
            restart_all |= _is_termination_unfinished(group)
    standalone = _list_standalone_cliques(observed)
    if standalone is None:
        restart_all = False
    else:
        for clique in standalone:
            since = get_breached_since(clique)
            restart_all |= since is not None and has_delay_passed(since)
    if restart_all:
        live = (each for each in observed.cliques.values() if not is_being_deleted(each.metadata))
        return RestartDecision(frozenset(each.metadata.name for each in live), whole_replica=True)
    return RestartDecision(
        cliques=frozenset(name for _, group_replica in breached for name in group_replica.cliques),
        group_replicas=tuple((group, group_replica.index) for group, group_replica in breached),
        requeue_after=min(waits, default=None),
    )


def get_termination_delay(set_: PodCliqueSet) -> str:
    """terminationDelay of a set, or its default."""
    return set_.spec.template.termination_delay or DEFAULT_TERMINATION_DELAY


def get_breached_since(clique: PodClique) -> datetime | None:
    """Since when a clique is breached; a clique that has failed is left alone."""
    if is_condition_true(clique.status.conditions, FAILED_CONDITION):
        return None
    found = find_condition(clique.status.conditions, MIN_AVAILABLE_BREACHED)
    if found is None or found.status != "True" or not found.last_transition_time:
        return None
    if clique.status.healthy_incarnation != get_incarnation(clique.metadata):
        return None
    return parse_time(found.last_transition_time)


def _list_standalone_cliques(observed: ObservedReplica) -> list[PodClique] | None:
    """The standalone cliques; None where one is missing."""
    result: list[PodClique] = []
    for name in list_standalone_cliques(observed.set_.spec.template):
        clique = observed.cliques.get(
            names.clique(observed.set_.metadata.name, observed.index, name)
        )
        if clique is None or is_being_deleted(clique.metadata):
            return None
        result.append(clique)
    return result


def _list_breached_replicas(group: ScalingGroupState) -> Iterator[tuple[GroupReplica, datetime]]:
    for group_replica in group.group_replicas:
        times = [
            since for each in group_replica.cliques.values() if (since := get_breached_since(each))
        ]
        if times:
            yield group_replica, min(times)


def _get_group_breached_since(group: ScalingGroupState) -> datetime | None:
    """Since when a group has too few healthy replicas; None if it never had enough."""
    times = sorted(since for _, since in _list_breached_replicas(group))
    healthy_before = group.healthy_replicas + len(times)
    return (
        times[healthy_before - group.required_replicas]
        if healthy_before >= group.required_replicas
        else None
    )


def _is_termination_unfinished(group: ScalingGroupState) -> bool:
    """Whether a restart of the whole replica was interrupted.

    Restarted group replicas are not healthy yet, so that the group seems never to have had enough.
    """
    conditions = () if group.group is None else group.group.status.conditions
    condition = find_condition(conditions, GANG_TERMINATION_IN_PROGRESS)
    if condition is None or condition.status != "True" or not condition.last_transition_time:
        return False
    start = parse_time(condition.last_transition_time)
    return any(since <= start for _, since in _list_breached_replicas(group))
