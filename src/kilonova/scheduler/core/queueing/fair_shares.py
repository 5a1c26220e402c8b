"""Fair shares: the amounts each queue is entitled to, given what all of them request.

Water-filling, resource by resource, from the roots down. First every queue gets what it deserves,
as far as it requests it; the rest goes to the queues of the highest priority with unmet requests,
in proportion to their weights, then to the next priority; queues of weight 0 get what then is left.
No queue gets more than it requests, nor more than its limit, and nothing is left while a queue has
unmet requests.
"""

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kilonova.scheduler.core.queueing.ledger import Ledger
from kilonova.scheduler.core.queueing.queues import Queue, QueueForest, ResourceAmounts


@dataclass(frozen=True, slots=True)
class FairShares:
    """Fair shares of queues in a cluster of some capacity.

    A queue has an entry for every resource that it requests; 0 means no share of it.
    """

    capacity: ResourceAmounts
    by_queue: Mapping[str, ResourceAmounts]


def compute_fair_shares(capacity: ResourceAmounts, requested: Ledger) -> FairShares:
    """The fair share of every queue; `requested` is the usage plus the requests of pending
    gangs."""
    forest = requested.forest
    found: dict[str, dict[str, int]] = {name: {} for name in forest.queues}
    for resource in sorted(capacity):
        division = _ResourceDivision(forest, resource, requested)
        division.divide(max(0, capacity[resource]))
        for name, amount in division.granted.items():
            found[name][resource] = amount
    return FairShares(capacity, found)


def dominant_share(used: Mapping[str, float], total: ResourceAmounts) -> tuple[str, float]:
    """The resource with the largest used fraction, and that fraction (DRF).

    Resources with a total of 0 are ignored.
    """
    parts = [(used.get(name, 0) / amount, name) for name, amount in total.items() if amount > 0]
    if not parts:
        return "", 0.0
    share, name = min(parts, key=lambda each: (-each[0], each[1]))
    return name, share


def divide_by_weight(available: int, requests: Sequence[int], weights: Sequence[int]) -> list[int]:
    """Divides an amount by weights, with no more than each requests; weight 0 gets nothing.

    Whole units, by the method of the largest quotient: more weight never gets less.
    """
    given = [0] * len(requests)
    asking = [index for index, need in enumerate(requests) if need > 0 and weights[index] > 0]
    asking.sort(key=lambda index: requests[index] / weights[index])
    total = sum(weights[index] for index in asking)
    asking.reverse()
    while asking and requests[asking[-1]] * total <= available * weights[asking[-1]]:
        index = asking.pop()
        given[index] = requests[index]
        available -= requests[index]
        total -= weights[index]
    for index in asking:
        given[index] = min(requests[index], available * weights[index] // total)
    left = available - sum(given[index] for index in asking)
    quotients = [((given[index] + 1) / weights[index], index) for index in asking]
    heapq.heapify(quotients)
    while left > 0 and quotients:
        _, index = heapq.heappop(quotients)
        if given[index] < requests[index]:
            given[index] += 1
            left -= 1
            heapq.heappush(quotients, ((given[index] + 1) / weights[index], index))
    return given


class _ResourceDivision:
    """The division of one resource: requests and granted amounts."""

    def __init__(self, forest: QueueForest, resource: str, requested: Ledger) -> None:
        self.forest = forest
        self.resource = resource
        self.granted: dict[str, int] = {}
        self._requested: dict[str, int] = {}
        self._limited_requests: dict[str, int] = {}
        self._direct_requests: dict[str, int] = {}
        for name, queue in reversed(list(forest.queues.items())):
            self._requested[name] = total = requested.amounts_of(name).get(resource, 0)
            # Usage of gangs placed in a queue before it got children is not its children's.
            self._direct_requests[name] = own = total - sum(
                self._requested[child] for child in queue.children
            )
            wanted = own + sum(self._limited_requests[child] for child in queue.children)
            self._limited_requests[name] = min(wanted, queue.limit.get(resource, wanted))

    def divide(self, capacity: int) -> None:
        """Divides the capacity among the roots, and the share of each among its children."""
        self._divide_among(capacity, self.forest.roots)
        for name, queue in self.forest.queues.items():
            if name in self.granted and queue.children:
                self._divide_among(
                    max(0, self.granted[name] - self._direct_requests[name]), queue.children
                )

    def _divide_among(self, available: int, siblings: Sequence[str]) -> None:
        queues = [self.forest.queues[name] for name in siblings if self._requested[name] > 0]
        requested = [self._limited_requests[each.name] for each in queues]
        least = [
            min(want, each.deserved.get(self.resource, 0))
            for each, want in zip(queues, requested, strict=True)
        ]
        given = divide_by_weight(available, least, least)
        for weights in _weights_by_priority(queues):
            needs = [want - granted for want, granted in zip(requested, given, strict=True)]
            more = divide_by_weight(available - sum(given), needs, weights)
            given = [granted + extra for granted, extra in zip(given, more, strict=True)]
        self.granted |= {each.name: amount for each, amount in zip(queues, given, strict=True)}


def _weights_by_priority(siblings: Sequence[Queue]) -> list[list[int]]:
    """The weights for each pass: one per priority, then the queues without weight."""
    priorities = sorted({-each.priority for each in siblings if each.weight})
    by_priority = [
        [each.weight if -each.priority == turn else 0 for each in siblings] for turn in priorities
    ]
    return [*by_priority, [0 if each.weight else 1 for each in siblings]]
