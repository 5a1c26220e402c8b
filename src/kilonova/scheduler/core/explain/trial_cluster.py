"""A copy of the cluster on which changes are verified before they are proposed."""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from kilonova.scheduler.core.explain.placement_constraints import (
    PlacementConstraint,
    relax_constraint,
)
from kilonova.scheduler.core.filters.feasibility import FeasibilityCache, ScoreFunction
from kilonova.scheduler.core.model.cluster import Cluster, gang_charges
from kilonova.scheduler.core.model.gangs import Gang
from kilonova.scheduler.core.model.label_columns import Rows
from kilonova.scheduler.core.model.nodes import Node
from kilonova.scheduler.core.placement.placer import (
    Placer,
    search_budget_for,
    with_one_more_required,
)
from kilonova.scheduler.core.preemption.victim_selection import VictimSelector
from kilonova.scheduler.core.scheduling_cycle import PlannerPolicy
from kilonova.scheduler.core.topology.gang_tree import build_gang_tree

_MAX_PODS = 2048
_MAX_ATTEMPTS = 96
"""After this number of pods, or of attempts, nothing more is tried for one gang."""


class TrialCluster:
    """An independent copy of a cluster."""

    def __init__(self, cluster: Cluster, score: ScoreFunction, policy: PlannerPolicy) -> None:
        self.cluster = cluster.copy()
        self.snapshot = self.cluster.snapshot
        self.policy = policy
        self.score = score
        self.feasibility = FeasibilityCache(self.snapshot, score)
        self.placer = Placer(self.snapshot, self.feasibility, policy.levels)
        self.attempts = self.placed_pods = 0
        self.can_preempt = policy.preemption_enabled
        """Whether other gangs may be preempted: not for surplus pods."""
        self._relaxed_fits: dict[tuple[PlacementConstraint, str], bool] = {}

    def begin(self, gang: Gang) -> None:
        """Resets the counters and budgets for another gang."""
        self.attempts = self.placed_pods = 0
        self.placer.budget = search_budget_for(gang)
        self.snapshot.claims.renew_budget()
        self.can_preempt = self.policy.preemption_enabled and gang.preempts and gang.needed > 0
        self._relaxed_fits.clear()

    def remove_pods_of(self, gang: Gang) -> None:
        """Removes the pods of a gang, wherever they were when the copy was made."""
        pods = [pod for pod in _list_pods(gang) if pod in self.snapshot.placements]
        by_gang: dict[str, list[str]] = {}
        for placement in self.snapshot.remove_pods(pods):
            if placement.gang in self.cluster.running_gangs:
                by_gang.setdefault(placement.gang, []).append(placement.pod)
        for name, left in by_gang.items():
            self.cluster.record_removed(name, left)

    @property
    def is_exhausted(self) -> bool:
        """Whether enough was tried for one gang."""
        return self.attempts >= _MAX_ATTEMPTS or self.placed_pods >= _MAX_PODS

    def live_rows(self) -> Rows:
        """The rows of all nodes."""
        return np.flatnonzero(self.snapshot.alive[: self.snapshot.size])

    def fits(self, gang: Gang) -> bool:
        """Whether a gang fits on the nodes as they are now."""
        self.attempts += 1
        if not self.placer.can_fit(build_gang_tree(gang)):
            return False
        self.placed_pods += gang.needed
        return self.placer.can_place(gang)

    def fits_relaxed(self, gang: Gang, constraint: PlacementConstraint, level: str = "") -> bool:
        """Whether a gang fits with a broader level in a constraint, or without it; cached."""
        found = self._relaxed_fits.get((constraint, level))
        if found is None:
            found = self.fits(relax_constraint(gang, constraint, level))
            self._relaxed_fits[constraint, level] = found
        return found

    def fits_within_limits(self, gang: Gang) -> bool:
        """Whether a gang fits and exceeds no queue limit."""
        return self.cluster.used.first_exceeded_limit(
            gang.queue, gang_charges(gang)
        ) is None and self.fits(gang)

    def fits_by_preemption(self, gang: Gang, now: float, *, enforce_limits: bool = True) -> bool:
        """Whether a gang fits by preemption at a given time, with or without the limits of its
        queue."""
        if not self.can_preempt:
            return False
        self.attempts += 1
        trial = self.snapshot.begin_trial()
        selector = VictimSelector(self.cluster, self.feasibility, self.placer, now, ())
        candidate = selector.place_by_preemption(gang, enforce_limits=enforce_limits)
        self.snapshot.rollback(trial)
        return candidate is not None

    @contextmanager
    def without_pods(self, pods: list[str]) -> Generator[None]:
        """As if pods had ended."""
        trial = self.snapshot.begin_trial()
        self.snapshot.remove_pods(pods)
        try:
            yield
        finally:
            self.snapshot.rollback(trial)

    @contextmanager
    def with_nodes(self, nodes: list[Node]) -> Generator[None]:
        """With additional nodes, or with changed ones."""
        before = [
            self.snapshot.node(self.snapshot.row(node.name))
            for node in nodes
            if node.name in self.snapshot
        ]
        for node in nodes:
            self.snapshot.put_node(node)
        try:
            yield
        finally:
            for node in before:
                self.snapshot.put_node(node)
            for name in {node.name for node in nodes} - {node.name for node in before}:
                self.snapshot.remove_node(name)


def _list_pods(gang: Gang) -> list[str]:
    return [member.pod for group in gang.groups for member in group.members]


def reduce_to_needed(gang: Gang) -> Gang:
    """The gang with its required pods only, or one more where it has its minimum."""
    if not gang.needed:
        gang = next(with_one_more_required(gang), gang)
    groups = (replace(each, members=each.members[: each.needed]) for each in gang.groups)
    return replace(gang, groups=tuple(groups))
