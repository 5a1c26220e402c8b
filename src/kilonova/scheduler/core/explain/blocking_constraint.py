"""The constraint that keeps a gang pending, as a value."""

from dataclasses import dataclass
from typing import Literal

from kilonova.scheduler.core.explain.protected_victims import ProtectedVictim

BlockingKind = Literal[
    "InvalidQueue",
    "InvalidGang",
    "QueueLimitReached",
    "ReservedForBackfill",
    "RetryPending",
    "NoMatchingNode",
    "VictimsProtected",
    "InsufficientCapacity",
    "InsufficientCombinedCapacity",
    "Topology",
    "Segments",
    "GangAntiAffinity",
    "PodAffinity",
    "SearchBudgetExceeded",
]


@dataclass(frozen=True, slots=True)
class BlockingConstraint:
    """A blocking constraint, as a sentence and as facts; facts that do not apply to a kind are
    empty.

    `requested` and `available` count pods (segments, where segments block), `missing` is an amount
    of `resource`, a fraction where pods share GPUs; for a queue limit, `requested` is the amount
    requested and `available` what is left.
    """

    kind: BlockingKind
    text: str
    group: str = ""
    resource: str = ""
    level: str = ""
    domain: str = ""
    queue: str = ""
    requested: int = 0
    available: int = 0
    missing: float = 0
    gangs: tuple[str, ...] = ()
    start_time: float | None = None
    protected_victims: tuple[ProtectedVictim, ...] = ()
