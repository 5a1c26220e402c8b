"""Whether capacity that a change makes goes to other pending gangs that are ahead in the queue."""

from collections.abc import Sequence
from dataclasses import replace

from kilonova.scheduler.core.cluster import Cluster
from kilonova.scheduler.core.explaining import wording
from kilonova.scheduler.core.explaining.adding import another, uncordon
from kilonova.scheduler.core.explaining.changes import (
    AddNodes,
    Change,
    Free,
    Proposal,
    RaiseLimits,
    Uncordon,
    Wait,
)
from kilonova.scheduler.core.explaining.trial import Trial
from kilonova.scheduler.core.gangs import Gang
from kilonova.scheduler.core.plan import Planner


def contended(
    trial: Trial, gang: Gang, found: tuple[Proposal, ...], pending: Sequence[Gang], now: float
) -> tuple[Proposal, ...]:
    """Proposals that say which pending gangs would take the capacity first. Those that nobody else
    takes come first; to wait stays last."""
    told = [_told(each, _takers(trial, gang, each.change, pending, now)) for each in found]
    told.sort(key=lambda each: (isinstance(each.change, Wait), bool(each.taken_by)))
    return tuple(told)


def _told(proposal: Proposal, takers: tuple[str, ...]) -> Proposal:
    if not takers:
        return proposal
    gangs, are = ("gang", "is") if len(takers) == 1 else ("gangs", "are")
    would = f"{gangs} {wording.some(takers)}, which {are} ahead in the queue, would take it first"
    return replace(proposal, taken_by=takers, text=f"{proposal.text} (but {would})")


def _takers(
    trial: Trial, gang: Gang, change: Change, pending: Sequence[Gang], now: float
) -> tuple[str, ...]:
    """Pending gangs that are placed when a change is made, and this one is not. What only the gang
    itself asks for differently makes no capacity for others."""
    if not isinstance(change, RaiseLimits | Uncordon | Free | AddNodes | Wait):
        return ()
    cluster = trial.cluster.copy()
    _make(cluster, change)
    at = change.until if isinstance(change, Wait) else now
    planner = Planner(cluster, trial.score, trial.policy)
    placed = [each.gang.name for each in planner.decide(pending, at).placements]
    return () if gang.name in placed else tuple(placed)


def _make(cluster: Cluster, change: RaiseLimits | Uncordon | Free | AddNodes | Wait) -> None:
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
                snapshot.put_node(uncordon(snapshot.node(snapshot.row(name))))
        case Free():
            _end(cluster, change.pods)
        case AddNodes():
            like = snapshot.node(snapshot.row(change.like))
            for number in range(change.count):
                snapshot.put_node(another(like, number))
        case Wait():
            if not change.pushed_out:
                gangs = [cluster.standing[name] for name in change.gangs]
                _end(cluster, [pod for standing in gangs for pod in standing.pods])


def _end(cluster: Cluster, pods: Sequence[str]) -> None:
    for booking in cluster.snapshot.release_all(list(pods)):
        if booking.gang in cluster.standing:
            cluster.leave(booking.gang, [booking.pod])
