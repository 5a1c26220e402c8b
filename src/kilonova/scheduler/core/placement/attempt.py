"""One attempt to place a gang: all required pods, or none.

Parts are placed from the outside in. A part that requires one domain tries its candidate domains,
the tightest first, and rolls back where a child cannot be placed. Surplus pods follow into the same
domains as far as they fit.

This is fast, and succeeds in most cases. Where it fails although a placement may exist, a complete
search follows (see `backtracking_search`).
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import numpy as np

from kilonova.scheduler.core.filters.feasibility import FeasibilityCache
from kilonova.scheduler.core.gpu.assignment import assign_shares, make_placements
from kilonova.scheduler.core.model.gangs import Gang, GangAntiAffinity
from kilonova.scheduler.core.model.label_columns import Rows
from kilonova.scheduler.core.model.pod_placement import PodPlacement
from kilonova.scheduler.core.model.snapshot import Snapshot
from kilonova.scheduler.core.placement.backtracking_search import (
    NodeChoice,
    search_placement,
)
from kilonova.scheduler.core.placement.claim_pins import ClaimPins
from kilonova.scheduler.core.placement.group_placer import GroupPlacer
from kilonova.scheduler.core.placement.sequential import SequentialPlacer
from kilonova.scheduler.core.search_budget import SearchBudget
from kilonova.scheduler.core.topology.domains import can_hold, candidate_domains
from kilonova.scheduler.core.topology.gang_tree import GangPart, build_gang_tree

_TRIALS, _TRIALS_PER_PART = 256, 3
"""Number of domains tried for one gang, growing with the number of domains it has to choose. The
bound on candidate domains leaves few that fail."""

_MAX_DOMAINS = 16
"""Number of domains tried for pods with required affinity to each other."""

T = TypeVar("T")


class PlacementAttempt:
    """One attempt to place one gang. `budget` limits the complete search."""

    def __init__(
        self,
        snapshot: Snapshot,
        feasibility: FeasibilityCache,
        levels: tuple[str, ...],
        gang: Gang,
        budget: SearchBudget,
    ) -> None:
        self._snapshot = snapshot
        self._feasibility = feasibility
        self._gang = gang
        self._budget = budget
        self._trial_budget = SearchBudget(_TRIALS + _TRIALS_PER_PART * _count_domain_choices(gang))
        self._claim_pins = ClaimPins(snapshot, feasibility, budget)
        sequential = SequentialPlacer(
            snapshot, feasibility, gang.name, self._claim_pins.reachable_rows, self._trial_budget
        )
        self._groups = GroupPlacer(snapshot, feasibility, levels, gang, sequential)

    def place(self, rows: Rows, *, search_exhaustively: bool) -> list[PodPlacement] | None:
        root = build_gang_tree(self._gang)
        if not can_hold(self._snapshot, self._feasibility, root, rows):
            return None
        trial = self._snapshot.begin_trial()
        for allowed in self._candidate_rows(root, rows):
            for pins in self._claim_pins.find_options(root, allowed):
                self._claim_pins.pins = pins
                if self._try_within(self._place, root, allowed):
                    for leaf in root.leaves():
                        self._groups.place_surplus(leaf)
                    return self._sort_by_rank(root, self._snapshot.commit(trial))
        self._snapshot.rollback(trial)
        return self._place_by_search(root, rows) if search_exhaustively else None

    def _place_by_search(self, root: GangPart, rows: Rows) -> list[PodPlacement] | None:
        """A complete search for the required pods; surplus pods are added to its result."""
        *_, allowed = self._rows_avoiding_gangs(self._gang.anti_affinity, rows)
        places = search_placement(
            self._snapshot, self._feasibility, root, allowed, self._gang.name, self._budget
        )
        if places is None:
            return None
        trial = self._snapshot.begin_trial()
        if not self._add_searched_pods(places):
            self._snapshot.rollback(trial)
            return None
        self._add_surplus_around(root, allowed)
        return self._sort_by_rank(root, self._snapshot.commit(trial))

    def _add_searched_pods(self, choices: list[NodeChoice]) -> bool:
        """Pods with whole devices first: for fractions the search has decided which devices they
        use."""
        for place in sorted(choices, key=lambda each: bool(each.shares)):
            if self._feasibility.free_capacity(place.member.shape)[place.row] < 1:
                return False  # the shadow of a reservation has no capacity here
            devices = assign_shares(self._snapshot, place.row, place.member.shape, place.shares)
            if devices is None:
                one = make_placements(self._snapshot, place.row, [place.member], self._gang.name)
            else:
                one = [PodPlacement(place.member, place.row, devices, self._gang.name)]
            self._snapshot.add_pods(one)
        return True

    def _add_surplus_around(self, part: GangPart, rows: Rows) -> None:
        """Surplus pods of groups, in the domains of their required pods."""
        level = part.pack.required
        if level:
            at = [self._snapshot.row(node) for node in part.anchor_nodes if node in self._snapshot]
            for leaf in part.leaves():
                pods = leaf.group.members[: leaf.group.needed] if leaf.group is not None else ()
                at += [self._snapshot.placements[member.pod].row for member in pods]
            if at:
                here = self._snapshot.labels.domains(level, np.array(at[-1:], np.intp))
                rows = rows[self._snapshot.labels.domains(level, rows) == here[0]]
        for child in part.children:
            self._add_surplus_around(child, rows)
        if part.group is not None and (part.needs_pods or self._place(part, rows)):
            if part.needs_pods:
                self._groups.rows[part.group.name] = rows
            self._groups.place_surplus(part)

    def _candidate_rows(self, root: GangPart, rows: Rows) -> Iterator[Rows]:
        """Rows to try. Pods with affinity to other pods of the gang follow the first of them; where
        that fails, single domains are tried."""
        for allowed in self._rows_avoiding_gangs(self._gang.anti_affinity, rows):
            yield allowed
            for level in _affinity_levels(root):
                domains = candidate_domains(self._snapshot, self._feasibility, root, level, allowed)
                yield from domains[:_MAX_DOMAINS]

    def _sort_by_rank(self, root: GangPart, placements: list[PodPlacement]) -> list[PodPlacement]:
        """In order of rank, whatever the order of placing."""
        if all(len(leaf.required_shapes) < 2 for leaf in root.leaves()):
            return placements
        members = (member for group in self._gang.groups for member in group.members)
        ranks = {member.pod: rank for rank, member in enumerate(members)}
        return sorted(placements, key=lambda placement: ranks[placement.pod])

    def _rows_avoiding_gangs(
        self, anti_affinity: GangAntiAffinity | None, rows: Rows
    ) -> Iterator[Rows]:
        """Rows in domains with fewest pods of gangs to avoid; if the anti-affinity is required,
        only rows in domains without any."""
        if anti_affinity is None:
            yield rows
            return
        domains = self._snapshot.labels.domains(anti_affinity.level, rows)
        taken = np.zeros(
            len(self._snapshot.labels.column(anti_affinity.level).values) + 1, np.int64
        )
        for node in anti_affinity.avoided_nodes:
            if node in self._snapshot:
                row = np.array([self._snapshot.row(node)], np.intp)
                taken[self._snapshot.labels.domains(anti_affinity.level, row)[0]] += 1
        met = taken[domains]
        for most in [0] if anti_affinity.required else np.unique(met).tolist():
            yield (
                rows[(met <= most) & (domains >= 0)]
                if anti_affinity.required
                else rows[met <= most]
            )

    def _place(self, part: GangPart, rows: Rows) -> bool:
        # A part without required pods does not fail the gang; its surplus pods follow if they fit.
        return self._place_packed(part, rows) or not part.needs_pods

    def _place_packed(self, part: GangPart, rows: Rows) -> bool:
        if not part.pack.required:
            return self._place_preferred(part, rows)
        for domain in candidate_domains(
            self._snapshot, self._feasibility, part, part.pack.required, rows
        ):
            if self._try_within(self._place_preferred, part, domain):
                return True
        return False

    def _place_preferred(self, part: GangPart, rows: Rows) -> bool:
        """Within one domain of the preferred level, else in few domains."""
        if part.pack.preferred:
            for domain in candidate_domains(
                self._snapshot, self._feasibility, part, part.pack.preferred, rows
            ):
                if self._try_within(self._place_inside, part, domain):
                    return True
        return self._place_inside(part, rows)

    def _try_within(self, place: Callable[[T, Rows], bool], target: T, rows: Rows) -> bool:
        if not self._trial_budget.spend():
            return False
        trial = self._snapshot.begin_trial()
        if place(target, rows):
            self._snapshot.commit(trial)
            return True
        self._snapshot.rollback(trial)
        return False

    def _place_inside(self, part: GangPart, rows: Rows) -> bool:
        if part.group is not None:
            return self._groups.place_required(part, part.group, rows)
        if len(part.children) < 2:
            return self._place_all(part.children, rows)
        if self._try_within(self._place_all, part.children, rows):
            return True
        scarcest = tuple(
            sorted(part.children, key=lambda child: self._scarcity(child, rows), reverse=True)
        )
        return scarcest != part.children and self._place_all(scarcest, rows)

    def _place_all(self, parts: Sequence[GangPart], rows: Rows) -> bool:
        return all(self._place(part, rows) for part in parts)

    def _scarcity(self, part: GangPart, rows: Rows) -> float:
        """The largest fraction of the free capacity for any of its shapes that a part requires."""
        shares = (
            number / max(1, int(self._feasibility.free_capacity(shape)[rows].sum()))
            for leaf in part.leaves()
            for shape, number in leaf.required_shapes
        )
        return max(shares, default=0.0)


def _count_domain_choices(gang: Gang) -> int:
    """Maximum number of domains to choose for a gang."""
    segments = sum(
        len(group.members) // max(1, group.segments.size) + 1
        for group in gang.groups
        if group.segments is not None
    )
    return len(gang.groups) + len(gang.bundles) + segments


def _affinity_levels(root: GangPart) -> list[str]:
    """Levels of the required pod affinity of a gang's pods."""
    shapes = [shape for leaf in root.leaves() for shape, _ in leaf.required_shapes]
    peers = [shape.pod_rules for shape in shapes if shape.pod_rules is not None]
    return list(dict.fromkeys(term.level for each in peers for term in each.affinity))
