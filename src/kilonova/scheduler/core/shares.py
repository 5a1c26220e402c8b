"""Fair shares: what each queue can count on, given what all of them ask for.

Water-filling, resource by resource, from the roots down. First every queue gets what it deserves,
as far as it asks for it; what is left goes to the queues of the highest priority that still ask,
in proportion to their weights, then to the next; queues of weight 0 get what then is left. No
queue gets more than it asks for, nor more than its limit, and nothing is left while one asks.
"""

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kilonova.scheduler.core.ledgers import Ledger
from kilonova.scheduler.core.queues import Amounts, Forest, Queue


@dataclass(frozen=True, slots=True)
class Shares:
    """Fair shares of queues in a cluster of some capacity.

    A queue has an entry for every resource that it asks for; 0 is that it cannot count on any.
    """

    capacity: Amounts
    of: Mapping[str, Amounts]


def fair_shares(capacity: Amounts, requested: Ledger) -> Shares:
    """What every queue can count on; `requested` is what is used and what is waited for."""
    forest = requested.forest
    found: dict[str, dict[str, int]] = {name: {} for name in forest.queues}
    for resource in sorted(capacity):
        asked = _Asked(forest, resource, requested)
        asked.share_out(max(0, capacity[resource]))
        for name, amount in asked.given.items():
            found[name][resource] = amount
    return Shares(capacity, found)


def dominant_share(used: Mapping[str, float], whole: Amounts) -> tuple[str, float]:
    """The resource of which the greatest part of a whole is used, and that part.

    What there is nothing of does not count.
    """
    parts = [(used.get(name, 0) / amount, name) for name, amount in whole.items() if amount > 0]
    if not parts:
        return "", 0.0
    share, name = min(parts, key=lambda each: (-each[0], each[1]))
    return name, share


def filled(available: int, needs: Sequence[int], weights: Sequence[int]) -> list[int]:
    """Divide an amount by weights, nobody getting more than they need; those of weight 0 nothing.

    Whole units, by the method of the largest quotient: more weight never gets one less.
    """
    given = [0] * len(needs)
    asking = [index for index, need in enumerate(needs) if need > 0 and weights[index] > 0]
    asking.sort(key=lambda index: needs[index] / weights[index])
    total = sum(weights[index] for index in asking)
    asking.reverse()
    while asking and needs[asking[-1]] * total <= available * weights[asking[-1]]:
        index = asking.pop()
        given[index] = needs[index]
        available -= needs[index]
        total -= weights[index]
    for index in asking:
        given[index] = min(needs[index], available * weights[index] // total)
    left = available - sum(given[index] for index in asking)
    quotients = [((given[index] + 1) / weights[index], index) for index in asking]
    heapq.heapify(quotients)
    while left > 0 and quotients:
        _, index = heapq.heappop(quotients)
        if given[index] < needs[index]:
            given[index] += 1
            left -= 1
            heapq.heappush(quotients, ((given[index] + 1) / weights[index], index))
    return given


class _Asked:
    """One resource: who asks for how much of it, and gets how much."""

    def __init__(self, forest: Forest, resource: str, requested: Ledger) -> None:
        self.forest = forest
        self.resource = resource
        self.given: dict[str, int] = {}
        self._total: dict[str, int] = {}
        self._wants: dict[str, int] = {}
        self._own: dict[str, int] = {}
        for name, queue in reversed(list(forest.queues.items())):
            self._total[name] = total = requested.of(name).get(resource, 0)
            # Gangs that stood in a queue before it was divided are not its children's.
            self._own[name] = own = total - sum(self._total[child] for child in queue.children)
            wants = own + sum(self._wants[child] for child in queue.children)
            self._wants[name] = min(wants, queue.limit.get(resource, wants))

    def share_out(self, capacity: int) -> None:
        """Divide the capacity among the roots, and what each gets among those below it."""
        self._divide(capacity, self.forest.roots)
        for name, queue in self.forest.queues.items():
            if name in self.given and queue.children:
                self._divide(max(0, self.given[name] - self._own[name]), queue.children)

    def _divide(self, available: int, names: Sequence[str]) -> None:
        beside = [self.forest.queues[name] for name in names if self._total[name] > 0]
        wants = [self._wants[each.name] for each in beside]
        least = [
            min(want, each.deserved.get(self.resource, 0))
            for each, want in zip(beside, wants, strict=True)
        ]
        given = filled(available, least, least)
        for weights in _rounds(beside):
            needs = [want - had for want, had in zip(wants, given, strict=True)]
            more = filled(available - sum(given), needs, weights)
            given = [had + got for had, got in zip(given, more, strict=True)]
        self.given |= {each.name: amount for each, amount in zip(beside, given, strict=True)}


def _rounds(beside: Sequence[Queue]) -> list[list[int]]:
    """Weights of queues round by round: by priority, then those that have no weight."""
    priorities = sorted({-each.priority for each in beside if each.weight})
    by_priority = [
        [each.weight if -each.priority == turn else 0 for each in beside] for turn in priorities
    ]
    return [*by_priority, [0 if each.weight else 1 for each in beside]]
