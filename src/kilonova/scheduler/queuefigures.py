"""What queues use, wait for and can count on: the figures that people are told. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kilonova.scheduler.core.cluster import Cluster, asked
from kilonova.scheduler.core.gangs import Gang
from kilonova.scheduler.core.queues import Amounts
from kilonova.scheduler.core.shares import fair_shares


@dataclass(frozen=True, slots=True)
class Figures:
    """Of one queue, those below it included; GPUs in milli, as queues count them."""

    allocated: Amounts
    requested: Amounts
    fair_share: Amounts
    pending: int


def queue_figures(cluster: Cluster, waiting: Iterable[Gang]) -> Mapping[str, Figures]:
    """The figures of every queue, by its name."""
    forest = cluster.forest
    requested = cluster.used.copy()
    pending = dict.fromkeys(forest.queues, 0)
    for queue, amounts, count in _alike(waiting):
        requested.charge(queue, {name: amount * count for name, amount in amounts.items()})
        for name in forest.path(queue):
            pending[name] = pending.get(name, 0) + count
    shares = fair_shares(cluster.capacity(), requested)
    return {
        name: Figures(
            dict(sorted(cluster.used.of(name).items())),
            dict(sorted(requested.of(name).items())),
            dict(sorted(shares.of[name].items())),
            pending[name],
        )
        for name in forest.queues
    }


def _alike(waiting: Iterable[Gang]) -> Iterable[tuple[str, Amounts, int]]:
    """What gangs ask for, those together that ask for the very same: very many may wait."""
    asks: dict[int, Amounts] = {}
    counts: Counter[tuple[str, int]] = Counter()
    for gang in waiting:
        amounts = asked(gang, wholly=True)
        asks[id(amounts)] = amounts
        counts[gang.queue, id(amounts)] += 1
    return ((queue, asks[ask], count) for (queue, ask), count in counts.items())
