"""Whose turn it is: which of the waiting gangs is tried next.

From the roots down, always into the queue beside its siblings that

1. has less than its fair share, before those that have it;
2. has the higher priority;
3. uses the smaller part of its fair share, now and lately together;
4. comes first by name;

and in the queue at the end of that way the gang of the highest priority, then the oldest, then the
first by name. Fair shares give every queue what it deserves before anybody borrows, so priority
never takes what another deserves.

Queues stand in a heap of their siblings. When what a queue uses changes, it is pushed again and
its older entry no longer counts, which is noticed when it comes up. A turn costs the depth of the
forest times the logarithm of the number of siblings, and so does a charge.
"""

import heapq
from collections.abc import Iterator, Mapping
from typing import Generic, Protocol, TypeAlias, TypeVar

from kilonova.scheduler.core.ledgers import Ledger
from kilonova.scheduler.core.queues import Amounts, Problem
from kilonova.scheduler.core.shares import Shares


class Waiting(Protocol):
    """What has to be known of a gang that waits; its name is its own."""

    @property
    def name(self) -> str: ...
    @property
    def queue(self) -> str: ...
    @property
    def priority(self) -> int: ...
    @property
    def created(self) -> float: ...


W = TypeVar("W", bound=Waiting)

_Entry: TypeAlias = "tuple[bool, int, float, int, int, _Seat]"
_SLACK = 32
"""So many outdated entries are let be."""


class Turns(Generic[W]):
    """Gangs that wait, given out one at a time; every charge changes who is next."""

    def __init__(
        self, used: Ledger, shares: Shares, past: Mapping[str, float] | None = None
    ) -> None:
        self.used = used
        self._gangs: dict[str, W] = {}
        self._lines: dict[str, list[tuple[int, float, str, W]]] = {}
        self._top = _Seat(0, 0, {})
        self._ways: dict[str, tuple[_Seat, ...]] = {"": (self._top,)}
        forest = used.forest
        for name, queue in forest.queues.items():
            above = self._ways[queue.path[1] if len(queue.path) > 1 else ""]
            seat = _Seat(len(self._ways), -queue.priority, used.of(name), above[0])
            self._ways[name] = (seat, *above)
            if not queue.children:
                self._lines[name] = []
                seat.queue = name
        self.share(shares, past)

    def __len__(self) -> int:
        return len(self._gangs)

    def share(self, shares: Shares, past: Mapping[str, float] | None = None) -> None:
        """Go by other fair shares from now on; `past` is of `History`. Costs every queue."""
        for name in self.used.forest.queues:
            seat = self._ways[name][0]
            seat.whole, seat.has_none = _whole(shares, name)
            seat.past = (past or {}).get(name, 0.0)
            seat.move()

    def add(self, gang: W) -> Problem | None:
        """Let a gang wait, in the place of one of its name; or say why its queue takes none."""
        refusal = self.used.forest.refusal(gang.queue)
        if refusal:
            return refusal
        self.remove(gang.name)
        self._gangs[gang.name] = gang
        entry = (-gang.priority, gang.created, gang.name, gang)
        heapq.heappush(self._lines[gang.queue], entry)
        for seat in self._ways[gang.queue]:
            seat.waiting += 1
            if seat.waiting == 1:
                seat.move()
        return None

    def remove(self, name: str) -> None:
        """Let a gang wait no longer, if it does."""
        gang = self._leave(name)
        if gang:
            line = self._lines[gang.queue]
            if len(line) > 2 * self._ways[gang.queue][0].waiting + _SLACK:
                line[:] = [each for each in line if self._gangs.get(each[2]) is each[3]]
                heapq.heapify(line)

    def pop(self) -> W | None:
        """Whose turn it is; it waits no longer. None when nobody waits."""
        if not self._gangs:
            return None
        seat = self._top
        while not seat.queue:
            seat = seat.next()
        line = self._lines[seat.queue]
        while True:
            gang = heapq.heappop(line)[3]
            if self._gangs.get(gang.name) is gang:
                return self._leave(gang.name)

    def __iter__(self) -> Iterator[W]:
        """Every turn until nobody waits; between two of them, charges and additions count."""
        while (gang := self.pop()) is not None:
            yield gang

    def charge(self, queue: str, amounts: Amounts) -> None:
        """A gang of this queue has got a place."""
        self.used.charge(queue, amounts)
        self._move(queue)

    def discharge(self, queue: str, amounts: Amounts) -> None:
        """A gang of this queue has left its place."""
        self.used.discharge(queue, amounts)
        self._move(queue)

    def _leave(self, name: str) -> W | None:
        gang = self._gangs.pop(name, None)
        if gang:
            for seat in self._ways[gang.queue]:
                seat.waiting -= 1
        return gang

    def _move(self, queue: str) -> None:
        for seat in self._ways.get(queue, ()):
            seat.move()


class _Seat:
    """A queue among its siblings, and the heap of the queues below it."""

    __slots__ = (
        "above",
        "below",
        "children",
        "has_none",
        "order",
        "past",
        "queue",
        "rank",
        "used",
        "version",
        "waiting",
        "whole",
    )

    def __init__(self, rank: int, order: int, used: Amounts, above: "_Seat | None" = None) -> None:
        self.rank = rank
        self.order = order
        self.used = used
        self.above = above
        self.below: list[_Entry] = []
        self.children: list[_Seat] = []
        self.queue = ""
        """Its name where gangs stand in line, in a queue without children."""
        self.waiting = 0
        self.version = 0
        self.past = 0.0
        self.has_none = False
        self.whole: list[tuple[str, int]] = []
        if above:
            above.children.append(self)

    def move(self) -> None:
        """Stand where it belongs now; only queues in which gangs wait stand anywhere."""
        self.version += 1
        above = self.above
        if above and self.waiting:
            if len(above.below) > 2 * len(above.children) + _SLACK:
                above.tidy()
            heapq.heappush(above.below, self._entry())

    def next(self) -> "_Seat":
        """The queue below it whose turn it is; there is one, as gangs wait."""
        while True:
            seat = self.below[0][5]
            if seat.waiting and seat.version == self.below[0][4]:
                return seat
            heapq.heappop(self.below)

    def tidy(self) -> None:
        """Leave out entries that no longer count."""
        self.below = [each for each in self.below if each[5].version == each[4]]
        heapq.heapify(self.below)

    def _entry(self) -> _Entry:
        share = 0.0
        used = self.used
        for resource, whole in self.whole:
            part = used.get(resource, 0) / whole
            if part > share:
                share = part
        over = self.has_none or share >= 1.0
        return over, self.order, share + self.past, self.rank, self.version, self


def _whole(shares: Shares, name: str) -> tuple[list[tuple[str, int]], bool]:
    """By what use is measured: the fair share, or all there is, for want of any share of it."""
    fair = shares.of.get(name, {})
    measured = [(resource, fair[resource] or shares.capacity[resource]) for resource in fair]
    return [each for each in measured if each[1] > 0], not all(fair.values())
