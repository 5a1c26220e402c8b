"""One attempt to place a gang: all required pods, or none.

Parts are placed from the outside in. A part that requires one domain tries its candidate domains,
the tightest first, and rolls back where a child cannot be placed. Surplus pods follow into the same
domains as far as they fit.

This is fast, and succeeds in most cases. Where it fails although a placement may exist, a complete
search follows (see `backtracking_search`).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby, product
from typing import TypeVar

import numpy as np

from kilonova.scheduler.core.filters.feasibility import Counts, FeasibilityCache
from kilonova.scheduler.core.filters.inter_pod_rules import inter_pod_rejections
from kilonova.scheduler.core.gpu.assignment import assign_shares, make_placements
from kilonova.scheduler.core.model.gangs import Gang, GangAntiAffinity, Group, Member
from kilonova.scheduler.core.model.label_columns import Rows
from kilonova.scheduler.core.model.requests import Shape
from kilonova.scheduler.core.model.snapshot import PodPlacement, Snapshot
from kilonova.scheduler.core.placement import distribution
from kilonova.scheduler.core.placement.anti_affinity import (
    find_exclusive_level,
    limit_to_one_per_domain,
)
from kilonova.scheduler.core.placement.backtracking_search import (
    NodeChoice,
    claim_search_cost,
    search_placement,
)
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
        self._levels = levels
        self._gang = gang
        self._budget = budget
        self._trial_budget = SearchBudget(_TRIALS + _TRIALS_PER_PART * _count_domain_choices(gang))
        self._sequential = SequentialPlacer(
            snapshot, feasibility, gang.name, self._reachable_rows, self._trial_budget
        )
        self._group_rows: dict[str, Rows] = {}
        """Rows among which the minimum of a group was placed."""
        self._claim_pins: Mapping[str, int] = {}
        """Row on which each unallocated shared claim is to be allocated."""

    def place(self, rows: Rows, *, search_exhaustively: bool) -> list[PodPlacement] | None:
        root = build_gang_tree(self._gang)
        if not can_hold(self._snapshot, self._feasibility, root, rows):
            return None
        trial = self._snapshot.begin_trial()
        for allowed in self._candidate_rows(root, rows):
            for pins in self._claim_pin_options(root, allowed):
                self._claim_pins = pins
                if self._try_within(self._place, root, allowed):
                    for leaf in root.leaves():
                        self._add_surplus(leaf)
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
                self._group_rows[part.group.name] = rows
            self._add_surplus(part)

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

    def _claim_pin_options(self, root: GangPart, rows: Rows) -> Iterator[Mapping[str, int]]:
        """Rows on which shared claims may be allocated: all users of a claim must fit from there.
        Claims of one pod are allocated on the same node."""
        sharers: dict[str, dict[Shape, int]] = {}
        joined: dict[str, set[str]] = {}
        for leaf in root.leaves():
            for shape, number in leaf.required_shapes:
                claims = self._snapshot.claims.unallocated_shared_claims(shape.claims)
                together = set[str]().union(claims, *(joined.get(claim, ()) for claim in claims))
                joined.update((claim, together) for claim in sorted(together))
                for claim in claims:
                    shapes = sharers.setdefault(claim, {})
                    shapes[shape] = shapes.get(shape, 0) + number
        parts = list({id(together): together for together in joined.values()}.values())
        choices: list[list[int]] = []
        for together in parts:
            shapes = {shape: n for claim in sorted(together) for shape, n in sharers[claim].items()}
            choices.append(self._pin_rows(shapes, rows))
        for number, chosen in enumerate(product(*choices)):
            # Each option recomputes all nodes. Options left out are covered by the complete search.
            if number and not self._budget.spend(2 * claim_search_cost(len(rows))):
                return
            pins = zip(parts, chosen, strict=True)
            yield {claim: row for together, row in pins for claim in together}

    def _pin_rows(self, shapes: Mapping[Shape, int], rows: Rows) -> list[int]:
        """Rows where a pod of each shape fits; rows where all of their pods fit come first."""
        capacities = [self._feasibility.free_capacity(shape)[rows] for shape in shapes]
        least = np.minimum.reduce(capacities)
        enough = least >= sum(shapes.values())
        keys = self._feasibility.ranking_keys(next(iter(shapes)))[rows]
        order = np.lexsort((-keys, ~enough))
        return rows[order][least[order] > 0].tolist()

    def _reachable_rows(self, member: Member, rows: Rows) -> Rows:
        """Rows from which a pod reaches the devices of its shared claims."""
        for claim in self._snapshot.claims.unallocated_shared_claims(member.shape.claims):
            if claim in self._claim_pins:
                rows = rows[rows == self._claim_pins[claim]]
        return rows

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
            return self._place_group(part, part.group, part.group.needed, rows)
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

    def _place_group(self, leaf: GangPart, group: Group, number: int, rows: Rows) -> bool:
        self._group_rows[group.name] = rows
        members = list(group.members[:number])
        if group.segments is not None and len({member.shape for member in members}) > 1:
            return self._sequential.place_all(group, members, rows)
        return all(
            self._place_same_shape(leaf, group, same_shape[0].shape, same_shape, rows)
            for same_shape in self._scarcest_first(members, rows)
        )

    def _scarcest_first(self, members: list[Member], rows: Rows) -> list[list[Member]]:
        """Pods grouped by shape, the shape with least free capacity per pod first."""
        kinds: dict[Shape, list[Member]] = {}
        for member in members:
            kinds.setdefault(member.shape, []).append(member)
        if len(kinds) < 2:
            return list(kinds.values())

        def capacity_per_pod(same_shape: list[Member]) -> float:
            return float(self._feasibility.free_capacity(same_shape[0].shape)[rows].sum()) / len(
                same_shape
            )

        return sorted(kinds.values(), key=capacity_per_pod)

    def _place_same_shape(
        self, leaf: GangPart, group: Group, shape: Shape, members: list[Member], rows: Rows
    ) -> bool:
        if self._must_place_sequentially(members):
            return self._sequential.place_all(group, members, rows)
        capacity = self._free_capacity(members, rows)
        taken = self._distribute(leaf, group, shape, rows, capacity, len(members))
        if int(taken.sum()) < len(members):
            return False
        self._add_members(group, shape, members, rows, taken)
        return True

    def _must_place_sequentially(self, members: list[Member]) -> bool:
        """Whether each of some pods of one shape changes where the next may be placed, or
        anti-affinity of placed pods matches only some of them."""
        pod_counts, shape = self._snapshot.pod_counts, members[0].shape
        if find_exclusive_level(members) is None or self._snapshot.claims.affects_other_nodes(
            shape.claims
        ):
            return True
        if not pod_counts.has_anti_affinity:
            return False
        return len({pod_counts.anti_affinity_against(member) for member in members}) > 1

    def _free_capacity(self, members: list[Member], rows: Rows) -> Counts:
        shape = members[0].shape
        capacity = self._feasibility.free_capacity(shape)[rows]
        rejections = inter_pod_rejections(self._snapshot, members[0])
        if rejections is not None:
            capacity = np.where(rejections[rows] == 0, capacity, 0)
        level = find_exclusive_level(members)
        if level:
            capacity = limit_to_one_per_domain(
                self._snapshot, level, rows, capacity, self._feasibility.ranking_keys(shape)[rows]
            )
        return capacity

    def _distribute(
        self,
        leaf: GangPart,
        group: Group,
        shape: Shape,
        rows: Rows,
        free_capacity: Counts,
        number: int,
    ) -> Counts:
        ranks = self._snapshot.ranks[rows]
        if group.segments is not None:
            domains = self._snapshot.labels.domains(group.segments.level, rows)
            return distribution.fill_whole_segments(
                free_capacity, domains, ranks, group.segments.size, number
            )
        near = leaf.pack.preferred or self._gang.pack.preferred
        if near:
            domains = self._snapshot.labels.domains(near, rows)
            return distribution.fill_fewest_domains(free_capacity, domains, ranks, number)
        if leaf.pack or self._gang.pack:
            return distribution.fill_fewest_nodes(free_capacity, ranks, number)
        return distribution.fill_best_nodes(
            free_capacity, self._feasibility.ranking_keys(shape)[rows], number
        )

    def _add_members(
        self, group: Group, shape: Shape, members: list[Member], rows: Rows, taken: Counts
    ) -> None:
        """Places members in order of rank on the rows in order of the topology."""
        used = np.flatnonzero(taken)
        order = self._topology_order(rows[used])
        if group.segments is not None:
            domains = self._snapshot.labels.domains(group.segments.level, rows[used])
            order = order[
                distribution.order_by_segments(
                    domains[order], taken[used][order], group.segments.size
                )
            ]
        placements: list[PodPlacement] = []
        for row, count in zip(rows[used][order].tolist(), taken[used][order].tolist(), strict=True):
            some = members[len(placements) : len(placements) + count]
            placements.extend(make_placements(self._snapshot, row, some, self._gang.name))
        self._snapshot.add_pods(placements)

    def _topology_order(self, rows: Rows) -> Rows:
        columns = [self._snapshot.labels.domain_ranks(level, rows) for level in self._levels]
        return np.lexsort((self._snapshot.ranks[rows], *reversed(columns)))

    def _add_surplus(self, leaf: GangPart) -> None:
        """Places the surplus pods of a group as far as they fit."""
        group = leaf.group
        assert group is not None
        rows = self._group_rows.get(group.name)
        surplus = list(group.members[group.needed :])
        if rows is None or not surplus:
            return
        if group.segments is not None:
            surplus = self._complete_segment(group, surplus, rows)
            if len({member.shape for member in surplus}) > 1:
                self._sequential.place_as_many_as_fit(group, surplus, rows)
                return
        for shape, same in groupby(surplus, key=lambda member: member.shape):
            members = list(same)
            if self._must_place_sequentially(members):
                self._sequential.place_as_many_as_fit(group, members, rows)
                continue
            capacity = self._free_capacity(members, rows)
            taken = self._distribute(leaf, group, shape, rows, capacity, len(members))
            self._add_members(group, shape, members[: int(taken.sum())], rows, taken)

    def _complete_segment(self, group: Group, surplus: list[Member], rows: Rows) -> list[Member]:
        """Completes the segment in which the minimum ends; the remaining pods begin a new one."""
        assert group.segments is not None
        begun = group.needed % group.segments.size
        if not begun:
            return surplus
        last = self._snapshot.placements[group.members[group.needed - 1].pod].row
        domains = self._snapshot.labels.domains(group.segments.level, np.append(rows, last))
        missing = group.segments.size - begun
        self._sequential.place_in_order(surplus[:missing], rows[domains[:-1] == domains[-1]])
        return surplus[missing:]


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
