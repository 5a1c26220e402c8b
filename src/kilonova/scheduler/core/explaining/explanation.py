"""Why a gang waits: what binds, what the nodes say, what would let it in, when it should start."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from kilonova.scheduler.core.cluster import Cluster
from kilonova.scheduler.core.explaining import wording
from kilonova.scheduler.core.explaining.binding import Binding
from kilonova.scheduler.core.explaining.changes import Proposal, Wait
from kilonova.scheduler.core.explaining.contention import contended
from kilonova.scheduler.core.explaining.judging import binding_constraint
from kilonova.scheduler.core.explaining.proposing import proposals
from kilonova.scheduler.core.explaining.starting import expected_start
from kilonova.scheduler.core.explaining.tallies import Tally, tally
from kilonova.scheduler.core.explaining.trial import Trial, in_need
from kilonova.scheduler.core.gangs import Gang
from kilonova.scheduler.core.plan import Policy, Why
from kilonova.scheduler.core.reserving import Reservation
from kilonova.scheduler.core.rooms import Score

_MOST_TALLIES = 4
_MOST_BYTES = 1000
_FINEST, _STEPS = 60, 4
"""Seconds to which the expected start is told, and into how many parts at least it cuts a wait."""
_BEFORE_NODES = ("QueueFault", "QueueLimit", "Reserved", "RoomNow")
"""What binds before nodes are asked: their tally says nothing about it."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a gang has no place. All of it is plain values: its fields are its JSON."""

    gang: str
    binding: Binding
    tallies: tuple[Tally, ...]
    """What nodes say, for the first few shapes; that of the group that binds first."""
    changes: tuple[Proposal, ...]
    """The smallest change that lets it in, and some others. None were found where this is empty."""
    expected_start: float | None
    """When it should start if no pending gang takes the capacity first."""
    message: str
    """One line for conditions and events, of at most a thousand bytes."""


class Explainer:
    """Explains refusals on one copy of a cluster.

    The cluster is that in which the gangs were refused: after `decide`, with what was booked.
    Pods of gangs that are refused later have no place in it any more.
    """

    def __init__(self, cluster: Cluster, score: Score, policy: Policy) -> None:
        self._trial = Trial(cluster, score, policy)

    def explain(
        self,
        gang: Gang,
        why: Why,
        now: float,
        reservation: Reservation | None = None,
        pending: Sequence[Gang] = (),
    ) -> Explanation:
        """Why a gang was refused; `reservation` is the one of the plan that refused it. With all
        that are `pending`, changes say whether others would take the capacity first: that costs a
        scheduling cycle for each."""
        trial = self._trial
        trial.begin(gang)
        # The copy may be from before a node of theirs went, or a binding failed.
        trial.forget_places_of(gang)
        wanted = in_need(trial.cluster.apart(gang))
        binding = binding_constraint(trial, wanted, why, now, reservation)
        wait = expected_start(trial, wanted, binding, now, reservation)
        found = proposals(trial, wanted, binding, now, wait)
        if len(pending) > 1:
            found = contended(trial, gang, found, pending, now)
        tallies = () if binding.kind == "GangFault" else _tallies(trial, wanted, binding)
        start = None if wait is None else wait.until
        message = _message(binding, tallies, found, None if start is None else _about(start, now))
        return Explanation(gang.name, binding, tallies, found, start, message)


def explain(
    cluster: Cluster,
    score: Score,
    policy: Policy,
    gang: Gang,
    why: Why,
    now: float,
    reservation: Reservation | None = None,
    pending: Sequence[Gang] = (),
) -> Explanation:
    """Why one gang was refused."""
    return Explainer(cluster, score, policy).explain(gang, why, now, reservation, pending)


def _tallies(trial: Trial, gang: Gang, binding: Binding) -> tuple[Tally, ...]:
    asked = {
        (group.name, member.shape): member for group in gang.groups for member in group.members
    }
    order = sorted(asked, key=lambda one: one[0] != binding.group)
    return tuple(tally(trial, one[0], asked[one]) for one in order[:_MOST_TALLIES])


def _about(start: float, now: float) -> float:
    """A time to the minute if it is near, and less exactly the farther it is: a guess that moves on
    with the clock would be another message every time, and each is written to the cluster."""
    step = _FINEST
    while step * _STEPS < start - now:
        step *= 2
    return math.ceil(start / step) * step


def _message(
    binding: Binding,
    tallies: tuple[Tally, ...],
    found: tuple[Proposal, ...],
    start: float | None,
) -> str:
    parts = [f"{binding.text}."]
    if tallies and binding.kind not in _BEFORE_NODES:
        parts.append(tallies[0].line)
    done = next((each for each in found if not isinstance(each.change, Wait)), None)
    if done is not None:
        parts.append(f"Smallest change: {done.text}.")
    if start is not None and binding.kind != "RoomNow":
        delayed = any(each.taken_by for each in found if isinstance(each.change, Wait))
        parts.append(f"Expected start: {'not before ' * delayed}{wording.moment(start)}.")
    text = " ".join(parts)
    if len(text.encode()) > _MOST_BYTES:
        text = text.encode()[: _MOST_BYTES - 3].decode(errors="ignore") + "…"
    return text
