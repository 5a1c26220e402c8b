"""Simulates a preemptor in the place of evicted units, to find out which of them can stay."""

from collections.abc import Callable, Sequence

import numpy as np

from kilonova.scheduler.core.filters.inter_pod_rules import has_anti_affinity_conflict
from kilonova.scheduler.core.gpu.assignment import are_free
from kilonova.scheduler.core.model.gangs import Gang
from kilonova.scheduler.core.model.label_columns import Flags
from kilonova.scheduler.core.model.node_table import AmountArray
from kilonova.scheduler.core.model.pod_placement import PodPlacement
from kilonova.scheduler.core.model.snapshot import Snapshot
from kilonova.scheduler.core.placement.placer import Placer
from kilonova.scheduler.core.preemption.entitlement import EvictionUnit

_MAX_ATTEMPTS = 64
"""How often the preemptor is placed again to see whether it fits without evicting a unit."""

ReleasedUnit = tuple[EvictionUnit, list[PodPlacement]]
"""A unit that was released, with those of its pods that were still placed."""


class PreemptionTrial:
    """Adds and removes pods in a snapshot; the caller rolls the changes back."""

    def __init__(
        self,
        snapshot: Snapshot,
        placer: Placer,
        gang: Gang,
        placements: Sequence[PodPlacement],
        useful_rows: Flags | None,
    ) -> None:
        self.placements = placements
        """The current placements of the preemptor."""
        self._snapshot = snapshot
        self._placer = placer
        self._gang = gang
        self._useful_rows = useful_rows
        self._attempts_left = _MAX_ATTEMPTS
        shapes = {member.shape for group in gang.groups for member in group.members}
        names = sorted({name for shape in shapes for name, _ in shape.requests})
        self._columns = np.array([snapshot.column(name) for name in names], np.intp)
        self._free_total = self._sum_free()

    def try_restore(
        self,
        released: Sequence[PodPlacement],
        accepts: Callable[[Sequence[PodPlacement]], bool] = lambda _: True,
    ) -> bool:
        """Restores the exact placements of pods, if the preemptor keeps its placement beside them
        or gets another that is accepted; otherwise returns False and changes nothing."""
        total = self._sum_requests(released)
        if can_restore(self._snapshot, released):
            self._snapshot.add_pods(released)
            self._free_total -= total
            return True
        if not self._attempts_left or (total > self._free_total).any():
            return False
        self._attempts_left -= 1
        trial = self._snapshot.begin_trial()
        self._snapshot.remove_pods([placement.pod for placement in self.placements])
        if can_restore(self._snapshot, released):
            self._snapshot.add_pods(released)
            placements = self._placer.place(self._gang)
            if placements is not None and accepts(placements):
                self.placements = placements
                self._free_total -= total
                self._snapshot.commit(trial)
                return True
            accepts(self.placements)
        self._snapshot.rollback(trial)
        return False

    def _sum_requests(self, released: Sequence[PodPlacement]) -> AmountArray:
        """The requests of pods on rows useful to the gang, for the resources it requests."""
        total = np.zeros(len(self._snapshot.resources), np.int64)
        for placement in released:
            if self._useful_rows is None or self._useful_rows[placement.row]:
                columns, amounts = self._snapshot.request_columns(placement.shape)
                np.add.at(total, columns, amounts)
        return total[self._columns]

    def _sum_free(self) -> AmountArray:
        """What is free on rows useful to the gang, for the resources it requests."""
        free = self._snapshot.free[self._columns, : self._snapshot.size]
        return np.maximum(free if self._useful_rows is None else free[:, self._useful_rows], 0).sum(
            axis=1
        )


def can_restore(snapshot: Snapshot, placements: Sequence[PodPlacement]) -> bool:
    """Whether pods can have their previous nodes and devices again."""
    if not all(are_free(snapshot, b.row, b.devices) for b in placements):
        return False
    if any(
        has_anti_affinity_conflict(snapshot, placement.member, placement.row)
        for placement in placements
    ):
        return False
    trial = snapshot.begin_trial()
    snapshot.add_pods(placements)
    rows = sorted({placement.row for placement in placements})
    fits = bool(
        (snapshot.free[:, rows] >= 0).all()
        and (snapshot.gpu_free[rows] >= 0).all()
        and not any(
            snapshot.claims.is_overallocated(placement.row, placement.claims)
            for placement in placements
            if placement.claims
        )
    )
    snapshot.rollback(trial)
    return fits
