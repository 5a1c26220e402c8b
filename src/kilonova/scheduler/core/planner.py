"""`Planner.plan`: which gangs are placed now, where, and why the others are not.

Gangs are tried in the order of their queues' fair shares, their priority and age. A placement
counts at once, for the queue and on the nodes, before the next gang is tried. `plan` leaves the
cluster unchanged; `schedule` does the same and keeps the placements.
"""

from collections.abc import Collection, Iterable

from kilonova.scheduler.core.consolidation.compaction import ConsolidationGoals
from kilonova.scheduler.core.consolidation.mig_rebalancing import MigPool
from kilonova.scheduler.core.consolidation.migration import MigrationBudget
from kilonova.scheduler.core.consolidation.planner import (
    Consolidation,
    plan_consolidation,
    plan_mig_rebalancing,
)
from kilonova.scheduler.core.decisions import Plan
from kilonova.scheduler.core.filters.feasibility import FeasibilityCache, ScoreFunction
from kilonova.scheduler.core.model.cluster import Cluster
from kilonova.scheduler.core.model.gangs import Gang
from kilonova.scheduler.core.model.pod_placement import PodPlacement
from kilonova.scheduler.core.placement.placer import Placer, search_budget_for
from kilonova.scheduler.core.scheduling_cycle import PlannerPolicy, SchedulingCycle
from kilonova.scheduler.core.scoring.fragmentation import FragmentationModel


class Planner:
    """Schedules gangs on a cluster. Caches vectors between cycles, and has no other state."""

    def __init__(
        self, cluster: Cluster, score: ScoreFunction, policy: PlannerPolicy | None = None
    ) -> None:
        self._cluster = cluster
        self._policy = policy or PlannerPolicy()
        self._feasibility = FeasibilityCache(cluster.snapshot, score)
        self._placer = Placer(cluster.snapshot, self._feasibility, self._policy.levels)

    def plan(self, gangs: Iterable[Gang], now: float) -> Plan:
        """What `schedule` would decide; the cluster does not change."""
        with self._cluster.trial():
            return self.schedule(gangs, now)

    def schedule(self, gangs: Iterable[Gang], now: float) -> Plan:
        """Places the gangs that fit, and returns the reasons of the others."""
        cycle = self.begin_cycle(gangs, now)
        for gang in cycle.gangs_in_order:
            cycle.schedule_gang(gang)
        return Plan(tuple(cycle.placements), tuple(cycle.unschedulable), cycle.backfill_reservation)

    def begin_cycle(self, gangs: Iterable[Gang], now: float) -> SchedulingCycle:
        """A scheduling cycle to be run gang by gang; its placements are kept."""
        return SchedulingCycle(
            self._cluster, self._feasibility, self._placer, self._policy, gangs, now
        )

    def place(self, gang: Gang) -> list[PodPlacement] | None:
        """Places a gang on free capacity regardless of other pending gangs; None if it does not
        fit."""
        return self._placer.place(self._cluster.with_gangs_to_avoid(gang))

    def consolidate(
        self,
        pending: Gang | None,
        budget: MigrationBudget,
        now: float,
        *,
        fragmentation: FragmentationModel | None = None,
        excluded: Collection[str] = (),
    ) -> Consolidation:
        """Migrations that free capacity for a pending gang or, without one, empty nodes; the
        cluster does not change. Gangs in `excluded` are not migrated: their pods are being bound,
        or are not all known."""
        goals = ConsolidationGoals(self._policy.levels, fragmentation=fragmentation)
        gang = None if pending is None else self._cluster.with_gangs_to_avoid(pending)
        placer = self._placer.with_budget(search_budget_for(gang))
        self._cluster.snapshot.claims.renew_budget()
        return plan_consolidation(
            self._cluster,
            self._feasibility,
            placer,
            gang,
            budget,
            now,
            goals=goals,
            excluded=excluded,
        )

    def rebalance_mig(
        self,
        pending: Gang | None,
        pool: MigPool,
        budget: MigrationBudget,
        now: float,
        *,
        excluded: Collection[str] = (),
    ) -> Consolidation:
        """Migrations of pods with MIG instances of a pool that free the place of a pending gang or,
        without one, leave more for the demand; the cluster does not change."""
        gang = None if pending is None else self._cluster.with_gangs_to_avoid(pending)
        placer = self._placer.with_budget(search_budget_for(gang))
        self._cluster.snapshot.claims.renew_budget()
        return plan_mig_rebalancing(
            self._cluster,
            self._feasibility,
            placer,
            gang,
            pool,
            budget,
            now,
            excluded=excluded,
        )
