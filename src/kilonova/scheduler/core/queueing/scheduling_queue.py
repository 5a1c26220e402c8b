"""The scheduling queue: which of the pending gangs is scheduled next.

From the roots down, the queue among its siblings that

1. is below its fair share, before those that are not;
2. has the higher priority;
3. uses the smaller fraction of its fair share, now and in the recent past together;
4. comes first by name;

and in the leaf queue the gang of the highest priority, then the oldest, then the first by name.
Fair shares give every queue what it deserves before any queue borrows, so priority never takes what
another queue deserves.

Sibling queues are kept in a heap. When the usage of a queue changes, it is pushed again and its
older entry becomes stale, which is detected when it is popped. A pop costs the depth of the forest
times the logarithm of the number of siblings, and so does a charge.
"""

import heapq
from collections.abc import Iterator, Mapping
from typing import Generic, Protocol, TypeAlias, TypeVar

from kilonova.scheduler.core.queueing.fair_shares import FairShares
from kilonova.scheduler.core.queueing.ledger import Ledger
from kilonova.scheduler.core.queueing.queues import QueueProblem, ResourceAmounts


class PendingGang(Protocol):
    """What is read of a pending gang; names are unique."""

    @property
    def name(self) -> str: ...
    @property
    def queue(self) -> str: ...
    @property
    def priority(self) -> int: ...
    @property
    def created(self) -> float: ...


PendingT = TypeVar("PendingT", bound=PendingGang)

_Entry: TypeAlias = "tuple[bool, int, float, int, int, _QueueNode]"
_MAX_STALE_ENTRIES = 32
"""Number of stale entries tolerated."""


class SchedulingQueue(Generic[PendingT]):
    """Pending gangs, popped one at a time; every charge may change the order."""

    def __init__(
        self, used: Ledger, shares: FairShares, past_usage: Mapping[str, float] | None = None
    ) -> None:
        self.used = used
        self._gangs: dict[str, PendingT] = {}
        self._heaps: dict[str, list[tuple[int, float, str, PendingT]]] = {}
        self._root = _QueueNode(0, 0, {})
        self._nodes_to_root: dict[str, tuple[_QueueNode, ...]] = {"": (self._root,)}
        forest = used.forest
        for name, queue in forest.queues.items():
            above = self._nodes_to_root[queue.path[1] if len(queue.path) > 1 else ""]
            node = _QueueNode(
                len(self._nodes_to_root), -queue.priority, used.amounts_of(name), above[0]
            )
            self._nodes_to_root[name] = (node, *above)
            if not queue.children:
                self._heaps[name] = []
                node.queue = name
        self.set_fair_shares(shares, past_usage)

    def __len__(self) -> int:
        return len(self._gangs)

    def set_fair_shares(
        self, shares: FairShares, past_usage: Mapping[str, float] | None = None
    ) -> None:
        """Sets the fair shares; `past_usage` comes from `UsageHistory`. Repositions every queue."""
        for name in self.used.forest.queues:
            node = self._nodes_to_root[name][0]
            node.reference_amounts, node.has_zero_share = _reference_amounts(shares, name)
            node.past_usage = (past_usage or {}).get(name, 0.0)
            node.reposition()

    def add(self, gang: PendingT) -> QueueProblem | None:
        """Adds a gang, replacing one of the same name; or returns why its queue accepts none."""
        problem = self.used.forest.admission_problem(gang.queue)
        if problem:
            return problem
        self.remove(gang.name)
        self._gangs[gang.name] = gang
        entry = (-gang.priority, gang.created, gang.name, gang)
        heapq.heappush(self._heaps[gang.queue], entry)
        for node in self._nodes_to_root[gang.queue]:
            node.pending += 1
            if node.pending == 1:
                node.reposition()
        return None

    def remove(self, name: str) -> None:
        """Removes a gang, if it is pending."""
        gang = self._pop_gang(name)
        if gang:
            heap = self._heaps[gang.queue]
            if len(heap) > 2 * self._nodes_to_root[gang.queue][0].pending + _MAX_STALE_ENTRIES:
                heap[:] = [each for each in heap if self._gangs.get(each[2]) is each[3]]
                heapq.heapify(heap)

    def pop(self) -> PendingT | None:
        """Removes and returns the next gang; None if none is pending."""
        if not self._gangs:
            return None
        node = self._root
        while not node.queue:
            node = node.next_child()
        heap = self._heaps[node.queue]
        while True:
            gang = heapq.heappop(heap)[3]
            if self._gangs.get(gang.name) is gang:
                return self._pop_gang(gang.name)

    def __iter__(self) -> Iterator[PendingT]:
        """Pops until no gang is pending; charges and additions in between take effect."""
        while (gang := self.pop()) is not None:
            yield gang

    def charge(self, queue: str, amounts: ResourceAmounts) -> None:
        """Charges a gang that was placed."""
        self.used.charge(queue, amounts)
        self._reposition(queue)

    def discharge(self, queue: str, amounts: ResourceAmounts) -> None:
        """Discharges a gang that was removed."""
        self.used.discharge(queue, amounts)
        self._reposition(queue)

    def _pop_gang(self, name: str) -> PendingT | None:
        gang = self._gangs.pop(name, None)
        if gang:
            for node in self._nodes_to_root[gang.queue]:
                node.pending -= 1
        return gang

    def _reposition(self, queue: str) -> None:
        for node in self._nodes_to_root.get(queue, ()):
            node.reposition()


class _QueueNode:
    """A queue among its siblings, and the heap of its children."""

    __slots__ = (
        "children",
        "has_zero_share",
        "heap",
        "parent",
        "past_usage",
        "pending",
        "priority_key",
        "queue",
        "rank",
        "reference_amounts",
        "used",
        "version",
    )

    def __init__(
        self,
        rank: int,
        priority_key: int,
        used: ResourceAmounts,
        parent: "_QueueNode | None" = None,
    ) -> None:
        self.rank = rank
        self.priority_key = priority_key
        self.used = used
        self.parent = parent
        self.heap: list[_Entry] = []
        self.children: list[_QueueNode] = []
        self.queue = ""
        """Its name if it is a leaf, which holds gangs."""
        self.pending = 0
        self.version = 0
        self.past_usage = 0.0
        self.has_zero_share = False
        self.reference_amounts: list[tuple[str, int]] = []
        if parent:
            parent.children.append(self)

    def reposition(self) -> None:
        """Pushes the queue at its current position; only queues with pending gangs are in the
        heap."""
        self.version += 1
        above = self.parent
        if above and self.pending:
            if len(above.heap) > 2 * len(above.children) + _MAX_STALE_ENTRIES:
                above.drop_stale_entries()
            heapq.heappush(above.heap, self._build_entry())

    def next_child(self) -> "_QueueNode":
        """The next child queue; exists, because gangs are pending."""
        while True:
            node = self.heap[0][5]
            if node.pending and node.version == self.heap[0][4]:
                return node
            heapq.heappop(self.heap)

    def drop_stale_entries(self) -> None:
        """Removes stale entries."""
        self.heap = [each for each in self.heap if each[5].version == each[4]]
        heapq.heapify(self.heap)

    def _build_entry(self) -> _Entry:
        share = 0.0
        used = self.used
        for resource, whole in self.reference_amounts:
            part = used.get(resource, 0) / whole
            if part > share:
                share = part
        over = self.has_zero_share or share >= 1.0
        return over, self.priority_key, share + self.past_usage, self.rank, self.version, self


def _reference_amounts(shares: FairShares, name: str) -> tuple[list[tuple[str, int]], bool]:
    """The amounts that usage is measured against: the fair share, or where that is 0, the
    capacity."""
    fair = shares.by_queue.get(name, {})
    measured = [(resource, fair[resource] or shares.capacity[resource]) for resource in fair]
    return [each for each in measured if each[1] > 0], not all(fair.values())
