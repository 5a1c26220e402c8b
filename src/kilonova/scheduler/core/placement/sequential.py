"""Pods of a gang that are placed one by one, because each changes where the next is feasible; and
segments of them, each in one domain. Each domain tried costs a step of the budget."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from kilonova.scheduler.core.filters.feasibility import NOWHERE, FeasibilityCache
from kilonova.scheduler.core.filters.inter_pod_rules import inter_pod_rejections
from kilonova.scheduler.core.gpu.assignment import make_placements
from kilonova.scheduler.core.model.gangs import Group, Member, SegmentConstraint
from kilonova.scheduler.core.model.label_columns import Rows
from kilonova.scheduler.core.model.snapshot import Snapshot
from kilonova.scheduler.core.search_budget import SearchBudget


def select_row(
    snapshot: Snapshot, feasibility: FeasibilityCache, member: Member, rows: Rows | None = None
) -> int:
    """The best feasible row for one more pod, including inter-pod rules; `NOWHERE` if there is
    none. With `rows`, one of these."""
    rejections = inter_pod_rejections(snapshot, member)
    if rows is None and rejections is None:
        return feasibility.best_row(member.shape)
    keys = feasibility.ranking_keys(member.shape)
    if rejections is not None:
        keys = np.where(rejections == 0, keys, NOWHERE)
    if rows is None:
        rows = np.arange(len(keys))
    if not len(rows):
        return NOWHERE
    row = int(rows[keys[rows].argmax()])
    return row if keys[row] >= 0 else NOWHERE


class SequentialPlacer:
    """Places pods of one gang one by one. `reachable_rows` restricts rows to those from which a pod
    reaches the devices of its shared claims."""

    def __init__(
        self,
        snapshot: Snapshot,
        feasibility: FeasibilityCache,
        gang: str,
        reachable_rows: Callable[[Member, Rows], Rows],
        budget: SearchBudget,
    ) -> None:
        self._snapshot = snapshot
        self._feasibility = feasibility
        self._gang = gang
        self._reachable_rows = reachable_rows
        self._budget = budget

    def place_all(self, group: Group, members: list[Member], rows: Rows) -> bool:
        """Places one pod, or one segment, after the other; False if not all of them fit."""
        if group.segments is None:
            return self._place_every(members, rows)
        return self._place_segments(
            _split_segments(group.segments, members), group.segments.level, rows
        )

    def _place_segments(self, segments: Sequence[list[Member]], level: str, rows: Rows) -> bool:
        """Each segment in the first domain with which the others fit, too: where one does not fit,
        the previous one moves to its next domain."""
        snapshot = self._snapshot
        untried = [self._domains_for(segments[0], level, rows)]
        marks: list[int] = []
        """The trial of each segment placed so far."""
        while len(marks) < len(segments):
            domain = next(untried[-1], None)
            if domain is None or not self._budget.spend():
                untried.pop()
                if not marks:
                    return False
                snapshot.rollback(marks.pop())
                continue
            trial = snapshot.begin_trial()
            if not self._place_every(segments[len(marks)], domain):
                snapshot.rollback(trial)
                continue
            marks.append(trial)
            if len(marks) < len(segments):
                untried.append(self._domains_for(segments[len(marks)], level, rows))
        snapshot.commit(marks[0])
        return True

    def place_as_many_as_fit(self, group: Group, members: list[Member], rows: Rows) -> int:
        """Places as many pods, or segments, as fit one by one; returns the number of pods."""
        if group.segments is None:
            return self.place_in_order(members, rows)
        seated, level = 0, group.segments.level
        for segment in _split_segments(group.segments, members):
            domains = self._domains_for(segment, level, rows)
            if not any(self._try_segment(segment, domain) for domain in domains):
                break
            seated += len(segment)
        return seated

    def _try_segment(self, segment: list[Member], domain: Rows) -> bool:
        """Places a segment in a domain, or nothing."""
        if not self._budget.spend():
            return False
        trial = self._snapshot.begin_trial()
        if self._place_every(segment, domain):
            self._snapshot.commit(trial)
            return True
        self._snapshot.rollback(trial)
        return False

    def _domains_for(self, segment: list[Member], level: str, rows: Rows) -> Iterator[Rows]:
        """Domains that may hold a segment, those with most free capacity first."""
        domains = self._snapshot.labels.domains(level, rows)
        capacity = np.bincount(
            domains + 1, weights=self._feasibility.free_capacity(segment[0].shape)[rows]
        )[1:]
        names = self._snapshot.labels.column(level).values
        count = sum(member.shape == segment[0].shape for member in segment)
        feasible = np.flatnonzero(capacity >= count).tolist()
        for domain in sorted(feasible, key=lambda one: (-capacity[one], names[one])):
            yield rows[domains == domain]

    def _place_every(self, members: list[Member], rows: Rows) -> bool:
        return self.place_in_order(members, rows) == len(members)

    def place_in_order(self, members: list[Member], rows: Rows) -> int:
        """Places each pod on its best row, until one does not fit; returns how many were placed."""
        for seated, member in enumerate(members):
            row = select_row(
                self._snapshot, self._feasibility, member, self._reachable_rows(member, rows)
            )
            if row == NOWHERE:
                return seated
            self._snapshot.add_pods(make_placements(self._snapshot, row, [member], self._gang))
        return len(members)


def _split_segments(segments: SegmentConstraint, members: list[Member]) -> list[list[Member]]:
    size = segments.size
    return [members[first : first + size] for first in range(0, len(members), size)]
