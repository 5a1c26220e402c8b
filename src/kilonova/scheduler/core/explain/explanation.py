"""The explanation of a pending gang: blocking constraint, diagnosis, changes, expected start."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from kilonova.scheduler.core.backfill.shadow import BackfillReservation
from kilonova.scheduler.core.decisions import UnschedulableReason
from kilonova.scheduler.core.explain import formatting
from kilonova.scheduler.core.explain.blocking_constraint import BlockingConstraint
from kilonova.scheduler.core.explain.changes.change import ProposedChange, Wait
from kilonova.scheduler.core.explain.changes.contention import annotate_contention
from kilonova.scheduler.core.explain.changes.proposals import find_proposals
from kilonova.scheduler.core.explain.constraint_search import find_blocking_constraint
from kilonova.scheduler.core.explain.diagnosis import NodeDiagnosis, diagnose_nodes
from kilonova.scheduler.core.explain.expected_start import estimate_start
from kilonova.scheduler.core.explain.trial_cluster import TrialCluster, reduce_to_needed
from kilonova.scheduler.core.filters.feasibility import ScoreFunction
from kilonova.scheduler.core.model.cluster import Cluster
from kilonova.scheduler.core.model.gangs import Gang
from kilonova.scheduler.core.scheduling_cycle import PlannerPolicy

_MAX_DIAGNOSES = 4
_MAX_MESSAGE_BYTES = 1000
_MIN_STEP_SECONDS, _MIN_STEPS = 60, 4
"""The expected start in messages is rounded to at least this many seconds, and to at most this
fraction of the wait."""
_KINDS_BEFORE_NODES = ("InvalidQueue", "QueueLimitReached", "ReservedForBackfill", "RetryPending")
"""Constraints checked before nodes: the diagnosis has no information about them."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a gang is pending. All of it is plain values: its fields are its JSON."""

    gang: str
    blocking_constraint: BlockingConstraint
    diagnoses: tuple[NodeDiagnosis, ...]
    """Diagnoses of the first few shapes; that of the blocking group comes first."""
    changes: tuple[ProposedChange, ...]
    """The smallest change that makes it schedulable, and some others. Empty if none was found."""
    expected_start: float | None
    """When it should start if no pending gang takes the capacity first."""
    message: str
    """One line for conditions and events, of at most a thousand bytes."""


class Explainer:
    """Explains unschedulable gangs on one copy of a cluster.

    The cluster is the one on which the gangs were unschedulable: after `Planner.schedule`, with its
    placements. Pods of gangs explained later are removed from it.
    """

    def __init__(self, cluster: Cluster, score: ScoreFunction, policy: PlannerPolicy) -> None:
        self._trial = TrialCluster(cluster, score, policy)

    def explain(
        self,
        gang: Gang,
        reason: UnschedulableReason,
        now: float,
        reservation: BackfillReservation | None = None,
        pending: Sequence[Gang] = (),
    ) -> Explanation:
        """Why a gang is unschedulable; `reservation` is that of the same plan. With all gangs that
        are `pending`, changes report whether others would take the capacity first: that costs a
        scheduling cycle for each."""
        trial = self._trial
        trial.begin(gang)
        # The copy may predate the removal of their node, or a failed binding.
        trial.remove_pods_of(gang)
        needed = reduce_to_needed(trial.cluster.with_gangs_to_avoid(gang))
        blocking = find_blocking_constraint(trial, needed, reason, now, reservation)
        wait = estimate_start(trial, needed, blocking, now, reservation)
        found = find_proposals(trial, needed, blocking, now, wait)
        if len(pending) > 1:
            found = annotate_contention(trial, gang, found, pending, now)
        diagnoses = (
            () if blocking.kind == "InvalidGang" else _diagnose_groups(trial, needed, blocking)
        )
        start = None if wait is None else wait.until
        message = _format_message(
            blocking, diagnoses, found, None if start is None else _round_start(start, now)
        )
        return Explanation(gang.name, blocking, diagnoses, found, start, message)


def explain(
    cluster: Cluster,
    score: ScoreFunction,
    policy: PlannerPolicy,
    gang: Gang,
    reason: UnschedulableReason,
    now: float,
    reservation: BackfillReservation | None = None,
    pending: Sequence[Gang] = (),
) -> Explanation:
    """Why one gang is unschedulable."""
    return Explainer(cluster, score, policy).explain(gang, reason, now, reservation, pending)


def _diagnose_groups(
    trial: TrialCluster, gang: Gang, blocking: BlockingConstraint
) -> tuple[NodeDiagnosis, ...]:
    members = {
        (group.name, member.shape): member for group in gang.groups for member in group.members
    }
    order = sorted(members, key=lambda one: one[0] != blocking.group)
    return tuple(diagnose_nodes(trial, one[0], members[one]) for one in order[:_MAX_DIAGNOSES])


def _round_start(start: float, now: float) -> float:
    """A time rounded to the minute if it is near, coarser the farther it is: an estimate that moves
    with the clock would change the message every time, and each change is a write to the API."""
    step = _MIN_STEP_SECONDS
    while step * _MIN_STEPS < start - now:
        step *= 2
    return math.ceil(start / step) * step


def _format_message(
    blocking: BlockingConstraint,
    diagnoses: tuple[NodeDiagnosis, ...],
    proposals: tuple[ProposedChange, ...],
    start: float | None,
) -> str:
    parts = [f"{blocking.text}."]
    if diagnoses and blocking.kind not in _KINDS_BEFORE_NODES:
        parts.append(diagnoses[0].summary)
    done = next((each for each in proposals if not isinstance(each.change, Wait)), None)
    if done is not None:
        parts.append(f"Smallest change: {done.text}.")
    if start is not None and blocking.kind != "RetryPending":
        delayed = any(each.taken_by for each in proposals if isinstance(each.change, Wait))
        parts.append(f"Expected start: {'not before ' * delayed}{formatting.format_time(start)}.")
    text = " ".join(parts)
    if len(text.encode()) > _MAX_MESSAGE_BYTES:
        text = text.encode()[: _MAX_MESSAGE_BYTES - 3].decode(errors="ignore") + "…"
    return text
