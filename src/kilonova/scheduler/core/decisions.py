"""The decisions of a scheduling cycle: gangs that are placed, and why the others are not."""

from dataclasses import dataclass

from kilonova.scheduler.core.backfill.shadow import (
    BackfillReservation,
)
from kilonova.scheduler.core.model.gang_validation import InvalidGang
from kilonova.scheduler.core.model.gangs import Gang
from kilonova.scheduler.core.model.pod_placement import PodPlacement
from kilonova.scheduler.core.preemption.victim_candidates import EvictionUnit
from kilonova.scheduler.core.queueing.ledger import LimitExceeded
from kilonova.scheduler.core.queueing.queues import QueueProblem


@dataclass(frozen=True, slots=True)
class GangPlacement:
    """A gang that is placed: its pods, and the victims to evict first."""

    gang: Gang
    pods: tuple[PodPlacement, ...]
    victims: tuple[EvictionUnit, ...] = ()


@dataclass(frozen=True, slots=True)
class InsufficientCapacity:
    """No feasible placement on the nodes, or none was found within the search budget."""

    search_exceeded: bool = False


@dataclass(frozen=True, slots=True)
class SchedulerError:
    """The scheduling of a gang failed with an unexpected error: a defect, not a property of the
    gang."""

    error: str


UnschedulableReason = (
    QueueProblem | InvalidGang | LimitExceeded | InsufficientCapacity | SchedulerError
)
"""The gang's queue or the gang is invalid, a limit of the queue would be exceeded, capacity is
insufficient, or the scheduler failed."""


@dataclass(frozen=True, slots=True)
class UnschedulableGang:
    """A gang that is not placed in this cycle."""

    gang: Gang
    reason: UnschedulableReason


@dataclass(frozen=True, slots=True)
class Plan:
    """The decisions of a cycle, in the order in which they were made."""

    placements: tuple[GangPlacement, ...]
    unschedulable: tuple[UnschedulableGang, ...]
    backfill_reservation: BackfillReservation | None = None
    """The gang for which capacity is held back, and its expected start."""
