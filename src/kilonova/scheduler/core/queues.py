"""Queues: a forest whose leaves hold gangs.

A queue **deserves** some amounts, may borrow more, and never has more than its **limit**. What its
gangs use counts in every queue on its **path**, from itself up to its root. Whatever people wrote,
there is a forest: what is wrong is told as problems, and a queue with a **fault** is there but has
no gangs placed until it is repaired, nor have the queues below it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

Amounts: TypeAlias = Mapping[str, int]
"""By the name of a resource."""

DEFAULT = "default"
"""The queue that is there even if nobody made it."""

Reason = Literal[
    "UnknownParent",
    "ParentCycle",
    "NegativeAmount",
    "ParentNotReady",
    "LimitBelowDeserved",
    "DeservedAboveParent",
    "UnknownQueue",
    "HasChildren",
]
_FAULTS = frozenset({"UnknownParent", "ParentCycle", "NegativeAmount", "ParentNotReady"})


@dataclass(frozen=True, slots=True)
class QueueSpec:
    """A queue as people write it; times in seconds, None is as in the parent."""

    name: str
    parent: str = ""
    deserved: Amounts = field(default_factory=dict[str, int])
    limit: Amounts = field(default_factory=dict[str, int])
    weight: int = 1
    priority: int = 0
    preempt_min_runtime: float | None = None
    reclaim_min_runtime: float | None = None


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with a queue, and what to do about it."""

    queue: str
    reason: Reason
    message: str
    fix: str

    @property
    def is_fault(self) -> bool:
        """Whether gangs of the queue have to wait until it is repaired."""
        return self.reason in _FAULTS

    def __str__(self) -> str:
        return f"{self.message}: {self.fix}"


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue in its place. What it deserves is never above its limit; where a queue with children
    does not say it, it is the sum of theirs. Minimal run times are those that hold."""

    name: str
    path: tuple[str, ...]
    children: tuple[str, ...]
    deserved: Amounts
    limit: Amounts
    weight: int
    priority: int
    preempt_min_runtime: float
    reclaim_min_runtime: float


@dataclass(frozen=True, slots=True)
class Forest:
    """All queues, parents before their children; `forest_of` makes it from what people wrote."""

    queues: Mapping[str, Queue]
    roots: tuple[str, ...]
    """Queues that share the cluster."""
    problems: tuple[Problem, ...]
    """All that is wrong, by queue."""
    faults: Mapping[str, Problem]
    """The first of those problems of each queue that have to be repaired."""

    def path(self, name: str) -> tuple[str, ...]:
        """The queue and those above it; a queue that is gone is a tree of its own."""
        queue = self.queues.get(name)
        return queue.path if queue else (name,)

    def fault(self, name: str) -> Problem | None:
        """Why no gang of the queue, or of one below it, can be placed."""
        for each in self.path(name):
            found = self.faults.get(each)
            if found and each == name:
                return found
            if found:
                message = f'queue "{name}" is below "{each}", and {found.message}'
                return Problem(name, "ParentNotReady", message, found.fix)
        return None

    def refusal(self, name: str) -> Problem | None:
        """Why a gang that names this queue cannot be placed, whatever room there is."""
        queue = self.queues.get(name)
        if queue is None:
            fix = "create it, or name another queue"
            return Problem(name, "UnknownQueue", f'there is no queue "{name}"', fix)
        if queue.children:
            message = f'queue "{name}" is divided into other queues'
            fix = f"name one of them: {', '.join(queue.children)}"
            return Problem(name, "HasChildren", message, fix)
        return self.fault(name)
