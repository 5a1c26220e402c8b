"""Whether capacity that a change frees goes to other pending gangs that are ahead in the queue."""

from collections.abc import Sequence
from dataclasses import replace

from kilonova.scheduler.core.explain import formatting
from kilonova.scheduler.core.explain.changes.change import (
    AddNodes,
    Change,
    FreeCapacity,
    ProposedChange,
    RaiseLimits,
    Uncordon,
    Wait,
)
from kilonova.scheduler.core.explain.changes.nodes import clone_node, without_cordon
from kilonova.scheduler.core.explain.trial_cluster import TrialCluster
from kilonova.scheduler.core.model.cluster import Cluster
from kilonova.scheduler.core.model.gangs import Gang
from kilonova.scheduler.core.planner import Planner


def annotate_contention(
    trial: TrialCluster,
    gang: Gang,
    proposals: tuple[ProposedChange, ...],
    pending: Sequence[Gang],
    now: float,
) -> tuple[ProposedChange, ...]:
    """Proposals with the pending gangs that would take the capacity first. Uncontended proposals
    come first; waiting stays last."""
    annotated = [
        _annotate(each, _find_takers(trial, gang, each.change, pending, now)) for each in proposals
    ]
    annotated.sort(key=lambda each: (isinstance(each.change, Wait), bool(each.taken_by)))
    return tuple(annotated)


def _annotate(proposal: ProposedChange, takers_ahead: tuple[str, ...]) -> ProposedChange:
    if not takers_ahead:
        return proposal
    gangs, are = ("gang", "is") if len(takers_ahead) == 1 else ("gangs", "are")
    names = formatting.format_names(takers_ahead)
    note = f"but {gangs} {names}, which {are} ahead in the queue, would take it first"
    return replace(proposal, taken_by=takers_ahead, text=f"{proposal.text} ({note})")


def _find_takers(
    trial: TrialCluster, gang: Gang, change: Change, pending: Sequence[Gang], now: float
) -> tuple[str, ...]:
    """Pending gangs that are placed when a change is made, if this one is not. A change of the gang
    itself frees no capacity for others."""
    if not isinstance(change, RaiseLimits | Uncordon | FreeCapacity | AddNodes | Wait):
        return ()
    cluster = trial.cluster.copy()
    _apply_change(cluster, change)
    at = change.until if isinstance(change, Wait) else now
    planner = Planner(cluster, trial.score, trial.policy)
    placed = [each.gang.name for each in planner.schedule(pending, at).placements]
    return () if gang.name in placed else tuple(placed)


def _apply_change(
    cluster: Cluster, change: RaiseLimits | Uncordon | FreeCapacity | AddNodes | Wait
) -> None:
    snapshot = cluster.snapshot
    match change:
        case RaiseLimits():
            queues = dict(cluster.forest.queues)
            for each in change.limits:
                limit = {**queues[each.queue].limit, each.resource: each.limit}
                queues[each.queue] = replace(queues[each.queue], limit=limit)
            cluster.replace_queues(replace(cluster.forest, queues=queues))
        case Uncordon():
            for name in change.nodes:
                snapshot.put_node(without_cordon(snapshot.node(snapshot.row(name))))
        case FreeCapacity():
            _remove_pods(cluster, change.pods)
        case AddNodes():
            like = snapshot.node(snapshot.row(change.template_node))
            for number in range(change.count):
                snapshot.put_node(clone_node(like, number))
        case Wait():
            if not change.by_preemption:
                gangs = [cluster.running_gangs[name] for name in change.gangs]
                _remove_pods(cluster, [pod for running_gang in gangs for pod in running_gang.pods])


def _remove_pods(cluster: Cluster, pods: Sequence[str]) -> None:
    for placement in cluster.snapshot.remove_pods(list(pods)):
        if placement.gang in cluster.running_gangs:
            cluster.record_removed(placement.gang, [placement.pod])
