"""The placement of one group within given rows: pods of one shape at once, by free capacity."""

from itertools import groupby

import numpy as np

from kilonova.scheduler.core.filters.feasibility import Counts, FeasibilityCache
from kilonova.scheduler.core.filters.inter_pod_rules import inter_pod_rejections
from kilonova.scheduler.core.gpu.assignment import make_placements
from kilonova.scheduler.core.model.gangs import Gang, Group, Member
from kilonova.scheduler.core.model.label_columns import Rows
from kilonova.scheduler.core.model.pod_placement import PodPlacement
from kilonova.scheduler.core.model.requests import Shape
from kilonova.scheduler.core.model.snapshot import Snapshot
from kilonova.scheduler.core.placement import distribution
from kilonova.scheduler.core.placement.anti_affinity import (
    find_exclusive_level,
    limit_to_one_per_domain,
)
from kilonova.scheduler.core.placement.sequential import SequentialPlacer
from kilonova.scheduler.core.topology.gang_tree import GangPart


class GroupPlacer:
    """Places the groups of one gang."""

    def __init__(
        self,
        snapshot: Snapshot,
        feasibility: FeasibilityCache,
        levels: tuple[str, ...],
        gang: Gang,
        sequential: SequentialPlacer,
    ) -> None:
        self._snapshot = snapshot
        self._feasibility = feasibility
        self._levels = levels
        self._gang = gang
        self._sequential = sequential
        self.rows: dict[str, Rows] = {}
        """Rows among which the minimum of a group was placed."""

    def place_required(self, leaf: GangPart, group: Group, rows: Rows) -> bool:
        """Places the pods that a group requires."""
        self.rows[group.name] = rows
        members = list(group.members[: group.needed])
        if group.segments is not None and len({member.shape for member in members}) > 1:
            return self._sequential.place_all(group, members, rows)
        return all(
            self._place_same_shape(leaf, group, same_shape[0].shape, same_shape, rows)
            for same_shape in self._scarcest_first(members, rows)
        )

    def place_surplus(self, leaf: GangPart) -> None:
        """Places the surplus pods of a group as far as they fit."""
        group = leaf.group
        assert group is not None
        rows = self.rows.get(group.name)
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
