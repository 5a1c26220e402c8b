"""Queues: a forest whose leaves hold gangs.

A queue **deserves** some amounts, may borrow more, and never has more than its **limit**. The usage
of its gangs counts in every queue on its **path**, from itself up to its root. Any set of specs
yields a forest: errors are reported as problems, and a queue with a **blocking** problem exists but
schedules no gangs until it is fixed, nor do the queues below it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

ResourceAmounts: TypeAlias = Mapping[str, int]
"""Amounts by resource name."""

DEFAULT_QUEUE = "default"
"""The queue that exists even without a Queue object."""

QueueProblemReason = Literal[
    "QueueParentNotFound",
    "QueueParentCycle",
    "QueueNegativeAmount",
    "QueueParentNotReady",
    "LimitBelowDeserved",
    "DeservedAboveParent",
    "QueueNotFound",
    "QueueHasChildren",
]
_BLOCKING_REASONS = frozenset(
    {"QueueParentNotFound", "QueueParentCycle", "QueueNegativeAmount", "QueueParentNotReady"}
)


@dataclass(frozen=True, slots=True)
class QueueSpec:
    """The spec of a queue; times in seconds, None inherits from the parent."""

    name: str
    parent: str = ""
    deserved: ResourceAmounts = field(default_factory=dict[str, int])
    limit: ResourceAmounts = field(default_factory=dict[str, int])
    weight: int = 1
    priority: int = 0
    preempt_min_runtime: float | None = None
    reclaim_min_runtime: float | None = None


@dataclass(frozen=True, slots=True)
class QueueProblem:
    """What is wrong with a queue, and how to fix it."""

    queue: str
    reason: QueueProblemReason
    message: str
    fix: str

    @property
    def is_blocking(self) -> bool:
        """Whether gangs of the queue stay pending until it is fixed."""
        return self.reason in _BLOCKING_REASONS

    def __str__(self) -> str:
        return f"{self.message}: {self.fix}"


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue of the forest. Deserved amounts never exceed the limit; where a queue with children
    does not declare them, they are the sum of the children's. Minimum run times are the effective
    ones."""

    name: str
    path: tuple[str, ...]
    children: tuple[str, ...]
    deserved: ResourceAmounts
    limit: ResourceAmounts
    weight: int
    priority: int
    preempt_min_runtime: float
    reclaim_min_runtime: float


@dataclass(frozen=True, slots=True)
class QueueForest:
    """All queues, parents before their children, as built by `forest.build_queue_forest`."""

    queues: Mapping[str, Queue]
    roots: tuple[str, ...]
    """Top-level queues."""
    problems: tuple[QueueProblem, ...]
    """All problems, by queue."""
    blocking_problems: Mapping[str, QueueProblem]
    """The first blocking problem of each queue."""

    def path(self, name: str) -> tuple[str, ...]:
        """The queue and its ancestors; a deleted queue is a tree of its own."""
        queue = self.queues.get(name)
        return queue.path if queue else (name,)

    def blocking_problem(self, name: str) -> QueueProblem | None:
        """Why no gang of the queue, or of one below it, can be scheduled."""
        for each in self.path(name):
            found = self.blocking_problems.get(each)
            if found and each == name:
                return found
            if found:
                message = f'queue "{name}" is below "{each}", and {found.message}'
                return QueueProblem(name, "QueueParentNotReady", message, found.fix)
        return None

    def admission_problem(self, name: str) -> QueueProblem | None:
        """Why a gang of this queue cannot be scheduled, regardless of capacity."""
        queue = self.queues.get(name)
        if queue is None:
            fix = "create it, or name another queue"
            return QueueProblem(name, "QueueNotFound", f'there is no queue "{name}"', fix)
        if queue.children:
            message = f'queue "{name}" has child queues'
            fix = f"name one of them: {', '.join(queue.children)}"
            return QueueProblem(name, "QueueHasChildren", message, fix)
        return self.blocking_problem(name)
