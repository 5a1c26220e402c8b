"""Places gangs: see `attempt`."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from kilonova.scheduler.core.filters.feasibility import (
    NOWHERE,
    FeasibilityCache,
    IntersectedFeasibility,
)
from kilonova.scheduler.core.gpu.assignment import make_placements
from kilonova.scheduler.core.model.gangs import Gang, Member
from kilonova.scheduler.core.model.label_columns import Rows
from kilonova.scheduler.core.model.pod_placement import PodPlacement
from kilonova.scheduler.core.model.snapshot import Snapshot
from kilonova.scheduler.core.placement.attempt import PlacementAttempt
from kilonova.scheduler.core.placement.backtracking_search import MAX_PODS
from kilonova.scheduler.core.placement.expected_size import expected_gangs, remove_expected_pods
from kilonova.scheduler.core.placement.sequential import select_row
from kilonova.scheduler.core.search_budget import SearchBudget
from kilonova.scheduler.core.topology.domains import can_hold
from kilonova.scheduler.core.topology.gang_tree import GangPart

_SEARCH_STEPS, _STEPS_PER_POD = 4_000, 32
"""Steps of the complete searches for one gang, preemption included; and the additional steps for
each pod, as each needs a choice of its own."""


def search_budget_for(gang: Gang | None) -> SearchBudget:
    """The common budget of all searches for one gang."""
    pods = min(gang.needed, MAX_PODS) if gang is not None else 0
    return SearchBudget(_SEARCH_STEPS + _STEPS_PER_POD * pods)


class Placer:
    """Places gangs in a snapshot. `levels` is the topology, broadest first: pods of neighbouring
    rank are placed close to each other in it. A `budget` is shared by all gangs placed until it is
    replaced; without one, each gang has its own."""

    def __init__(
        self,
        snapshot: Snapshot,
        feasibility: FeasibilityCache,
        levels: Sequence[str] = (),
        budget: SearchBudget | None = None,
    ) -> None:
        self._snapshot = snapshot
        self._feasibility = feasibility
        self._levels = tuple(levels)
        self.budget = budget

    def restricted_to(self, feasibility: FeasibilityCache) -> "Placer":
        """A placer restricted to nodes that are feasible in another state of the cluster, too."""
        return Placer(
            self._snapshot,
            IntersectedFeasibility(self._feasibility, feasibility),
            self._levels,
            self.budget,
        )

    def with_budget(self, budget: SearchBudget) -> "Placer":
        """A placer with another search budget."""
        return Placer(self._snapshot, self._feasibility, self._levels, budget)

    def place(self, gang: Gang, rows: Rows | None = None) -> list[PodPlacement] | None:
        """Places a gang and returns its placements; None if it does not fit, and then nothing
        changes.

        With `rows`, only on these.
        """
        if rows is None and (member := single_unconstrained_pod(gang)) is not None:
            row = select_row(self._snapshot, self._feasibility, member)
            return None if row == NOWHERE else self._place_on_row(row, member, gang)
        if rows is None:
            rows = np.flatnonzero(self._snapshot.alive[: self._snapshot.size])
        if self.budget is None:
            self._snapshot.claims.renew_budget()
        budget = self.budget or search_budget_for(gang)
        for led in (*expected_gangs(gang), gang) if gang.needed else with_one_more_required(gang):
            attempt = PlacementAttempt(self._snapshot, self._feasibility, self._levels, led, budget)
            placed = attempt.place(rows, search_exhaustively=led is gang)
            if placed is not None:
                return placed if led is gang else remove_expected_pods(self._snapshot, placed)
        return None

    def can_fit(self, root: GangPart) -> bool:
        """Whether it is worth trying to place a gang: a bound, whose cost does not depend on the
        number of pods."""
        rows = np.flatnonzero(self._snapshot.alive[: self._snapshot.size])
        return can_hold(self._snapshot, self._feasibility, root, rows)

    def can_place(self, gang: Gang) -> bool:
        """Whether a gang fits; nothing changes."""
        trial = self._snapshot.begin_trial()
        placed = self.place(gang) is not None
        self._snapshot.rollback(trial)
        return placed

    def _place_on_row(self, row: int, member: Member, gang: Gang) -> list[PodPlacement]:
        placements = make_placements(self._snapshot, row, [member], gang.name)
        self._snapshot.add_pods(placements)
        return placements


def with_one_more_required(gang: Gang) -> Iterator[Gang]:
    """For a gang that has its minimum, variants in which one group requires one more pod: that pod
    is placed by all constraints of the gang, and the other surplus pods follow it."""
    for index, group in enumerate(gang.groups):
        if group.members:
            lead = replace(group, minimum=len(group.placed_nodes) + 1)
            groups = (*gang.groups[:index], lead, *gang.groups[index + 1 :])
            yield replace(gang, groups=groups)


def single_unconstrained_pod(gang: Gang) -> Member | None:
    """The member of a gang that is a single pod without topology constraints."""
    if (
        len(gang.groups) != 1
        or gang.pack
        or gang.bundles
        or gang.anti_affinity is not None
        or gang.base_nodes
    ):
        return None
    group = gang.groups[0]
    if len(group.members) != 1 or group.needed != 1 or group.pack or group.segments is not None:
        return None
    return group.members[0]
