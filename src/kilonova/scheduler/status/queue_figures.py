"""Usage, requests and fair share of queues. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kilonova.scheduler.core.model.cluster import Cluster, gang_charges
from kilonova.scheduler.core.model.gangs import Gang
from kilonova.scheduler.core.queueing.fair_shares import compute_fair_shares
from kilonova.scheduler.core.queueing.queues import ResourceAmounts


@dataclass(frozen=True, slots=True)
class QueueFigures:
    """The figures of one queue including its children; GPUs in milli-GPUs, as queues count them."""

    allocated: ResourceAmounts
    requested: ResourceAmounts
    fair_share: ResourceAmounts
    pending: int


def compute_queue_figures(
    cluster: Cluster, pending_gangs: Iterable[Gang]
) -> Mapping[str, QueueFigures]:
    """The figures of every queue by name."""
    forest = cluster.forest
    requested = cluster.used.copy()
    pending = dict.fromkeys(forest.queues, 0)
    for queue, amounts, count in _group_equal_requests(pending_gangs):
        requested.charge(queue, {name: amount * count for name, amount in amounts.items()})
        for name in forest.path(queue):
            pending[name] = pending.get(name, 0) + count
    shares = compute_fair_shares(cluster.capacity(), requested)
    return {
        name: QueueFigures(
            dict(sorted(cluster.used.amounts_of(name).items())),
            dict(sorted(requested.amounts_of(name).items())),
            dict(sorted(shares.by_queue[name].items())),
            pending[name],
        )
        for name in forest.queues
    }


def _group_equal_requests(
    pending_gangs: Iterable[Gang],
) -> Iterable[tuple[str, ResourceAmounts, int]]:
    """What pending gangs request, equal requests counted together: there may be very many."""
    requests: dict[int, ResourceAmounts] = {}
    counts: Counter[tuple[str, int]] = Counter()
    for gang in pending_gangs:
        amounts = gang_charges(gang, include_surplus=True)
        requests[id(amounts)] = amounts
        counts[gang.queue, id(amounts)] += 1
    return ((queue, requests[request], count) for (queue, request), count in counts.items())
