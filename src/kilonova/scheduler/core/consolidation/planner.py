"""Migrations that free capacity for a pending gang or, without one, empty nodes.

Everything is simulated: a migrated pod has its new placement before anything is proposed. For a
pending gang, domains are compared by the work lost there. Nodes are emptied, the cheapest first,
until the gang fits; pods that turn out not to be in the way are restored, and all others must be
placed elsewhere.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from itertools import islice

from kilonova.scheduler.core.consolidation.compaction import ConsolidationGoals, NodeConsolidator
from kilonova.scheduler.core.consolidation.mig_rebalancing import (
    MigPool,
    MigRebalancer,
    count_gpus,
    estimate_restart_costs,
    list_gangs_outside,
)
from kilonova.scheduler.core.consolidation.migration import (
    GangMigration,
    MigrationBudget,
    MigrationCandidates,
)
from kilonova.scheduler.core.filters.feasibility import FeasibilityCache
from kilonova.scheduler.core.model.cluster import Cluster, gang_charges
from kilonova.scheduler.core.model.gang_validation import validate_gang
from kilonova.scheduler.core.model.gangs import Gang
from kilonova.scheduler.core.model.label_columns import Rows
from kilonova.scheduler.core.model.pod_placement import PodPlacement
from kilonova.scheduler.core.placement.placer import Placer
from kilonova.scheduler.core.preemption.candidate_domains import iter_likely_domains
from kilonova.scheduler.core.preemption.trial import can_restore

_MAX_ATTEMPTS = 8
"""How often a domain is tried, each time without one more gang that could not be placed
elsewhere."""
_MAX_REPLACEMENTS = 128
"""How often, at most, another placement is tried in a domain so that pods need not migrate."""


@dataclass(frozen=True, slots=True)
class Consolidation:
    """Migrations to be made together or not at all, and the placement that they free for the
    pending gang: the caller holds it, and the new placements, until all pods are bound."""

    migrations: tuple[GangMigration, ...] = ()
    placements: tuple[PodPlacement, ...] = ()


def plan_consolidation(
    cluster: Cluster,
    feasibility: FeasibilityCache,
    placer: Placer,
    pending: Gang | None,
    budget: MigrationBudget,
    now: float,
    *,
    goals: ConsolidationGoals | None = None,
    excluded: Collection[str] = (),
) -> Consolidation:
    """The worthwhile migrations now; nothing changes. With a pending gang, only those after which
    it fits. Gangs in `excluded` are not migrated."""
    candidates = MigrationCandidates(cluster, now, excluded, pending)
    trial = cluster.snapshot.begin_trial()
    try:
        if pending is None:
            consolidator = NodeConsolidator(
                cluster, feasibility, placer, candidates, goals or ConsolidationGoals()
            )
            return Consolidation(consolidator.find_migrations(budget, now))
        return _CapacitySearch(
            cluster, feasibility, placer, candidates, pending.only_required_members()
        ).find_cheapest(budget, now)
    finally:
        cluster.snapshot.rollback(trial)


def plan_mig_rebalancing(
    cluster: Cluster,
    feasibility: FeasibilityCache,
    placer: Placer,
    pending: Gang | None,
    pool: MigPool,
    budget: MigrationBudget,
    now: float,
    *,
    excluded: Collection[str] = (),
) -> Consolidation:
    """The worthwhile migrations of pods with MIG instances of a pool; nothing changes. With a
    pending gang, only those after which it fits."""
    excluded = {*excluded, *list_gangs_outside(cluster, pool, now)}
    costs = estimate_restart_costs(cluster, pool)
    candidates = MigrationCandidates(cluster, now, excluded, pending, costs)
    trial = cluster.snapshot.begin_trial()
    try:
        if pending is None:
            rebalancer = MigRebalancer(cluster, placer, candidates, pool)
            return Consolidation(rebalancer.find_migrations(budget, now))
        found = _CapacitySearch(
            cluster, feasibility, placer, candidates, pending.only_required_members()
        ).find_cheapest(budget, now)
        gpus = sum(count_gpus(cluster, placement) for placement in found.placements)
        cost = sum(migration.lost_gpu_seconds for migration in found.migrations)
        return found if pool.settings.is_worth_it(gpus, cost) else Consolidation()
    finally:
        cluster.snapshot.rollback(trial)


@dataclass(frozen=True, slots=True)
class _Unplaceable:
    """A gang that could not be placed beside the pending one."""

    gang: str


@dataclass(slots=True)
class _Attempt:
    """One attempt to empty nodes."""

    fixed_gangs: frozenset[str]
    removed: dict[str, dict[str, PodPlacement]] = field(
        default_factory=dict[str, dict[str, PodPlacement]]
    )
    """Pods removed so far, by gang and pod."""
    placement: list[PodPlacement] = field(default_factory=list[PodPlacement])
    """The placement of the pending gang."""
    replacements: int = 0
    """How often another placement was tried so that pods need not migrate."""


class _CapacitySearch:
    """Searches the migrations after which one gang fits."""

    def __init__(
        self,
        cluster: Cluster,
        feasibility: FeasibilityCache,
        placer: Placer,
        candidates: MigrationCandidates,
        gang: Gang,
    ) -> None:
        self._cluster = cluster
        self._snapshot = cluster.snapshot
        self._feasibility = feasibility
        self._placer = placer
        self._candidates = candidates
        self._gang = gang

    def find_cheapest(self, budget: MigrationBudget, now: float) -> Consolidation:
        """The migrations in the domain where least work is lost; empty if none helps."""
        best = Consolidation()
        if not self._lacks_only_capacity() or self._placer.can_place(self._gang):
            return best
        for rows in iter_likely_domains(self._snapshot, self._feasibility, self._gang):
            found = self._search_domain(rows)
            if found is None or not budget.allows(found.migrations, now):
                continue
            if not best.migrations or _migration_cost(found) < _migration_cost(best):
                best = found
        return best

    def _lacks_only_capacity(self) -> bool:
        """Whether the gang is pending only for lack of capacity."""
        gang, cluster = self._gang, self._cluster
        return (
            bool(gang.needed)
            and cluster.forest.admission_problem(gang.queue) is None
            and validate_gang(gang, self._snapshot.placements) is None
            and cluster.used.first_exceeded_limit(gang.queue, gang_charges(gang)) is None
        )

    def _search_domain(self, rows: Rows) -> Consolidation | None:
        staying: frozenset[str] = frozenset()
        for _ in range(_MAX_ATTEMPTS):
            trial = self._snapshot.begin_trial()
            found = self._try_attempt(rows, _Attempt(staying))
            self._snapshot.rollback(trial)
            if not isinstance(found, _Unplaceable):
                return found
            staying |= {found.gang}
        return None

    def _try_attempt(self, rows: Rows, attempt: _Attempt) -> Consolidation | _Unplaceable | None:
        order = iter(self._order_rows_by_cost(rows, attempt))
        step = 1
        while not attempt.placement:
            more = list(islice(order, step))
            if not more:
                return None
            for row in more:
                self._empty_row(row, attempt)
            attempt.placement = self._placer.place(self._gang, rows) or []
            step *= 2
        self._restore_unneeded(rows, attempt)
        migrations = self._place_removed(attempt)
        return (
            migrations
            if isinstance(migrations, _Unplaceable)
            else Consolidation(migrations, tuple(attempt.placement))
        )

    def _order_rows_by_cost(self, rows: Rows, attempt: _Attempt) -> list[int]:
        """Rows with pods that may be migrated; those that would be wholly empty come first, then
        those with less work lost."""
        costs: list[tuple[bool, float, int, int]] = []
        ranks, listed = self._snapshot.ranks, [int(row) for row in rows]
        for row in listed:
            movable = list(self._iter_movable_gangs(row, attempt))
            if movable:
                gangs = {placement.gang for placement in self._snapshot.pods_on[row].values()}
                cost = sum(self._candidates.lost_gpu_seconds(gang, pods) for gang, pods in movable)
                costs.append((len(gangs - {""}) > len(movable), cost, int(ranks[row]), row))
        return [row for *_, row in sorted(costs)]

    def _iter_movable_gangs(
        self, row: int, attempt: _Attempt
    ) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Gangs that may leave a row, and the pods of each that are removed then."""
        here: dict[str, set[str]] = {}
        for pod, placement in self._snapshot.pods_on[row].items():
            if placement.gang not in attempt.fixed_gangs:
                here.setdefault(placement.gang, set()).add(pod)
        for gang, pods in sorted(here.items()):
            migrated_pods = self._candidates.pods_to_migrate(
                gang, pods | attempt.removed.get(gang, {}).keys()
            )
            if migrated_pods:
                yield gang, migrated_pods

    def _empty_row(self, row: int, attempt: _Attempt) -> None:
        for gang, pods in list(self._iter_movable_gangs(row, attempt)):
            placements = [self._snapshot.placements[pod] for pod in pods if self._is_placed(pod)]
            removed = [each for left in attempt.removed.values() for each in left.values()]
            if self._candidates.is_within_disruption_budgets([*removed, *placements]):
                self._snapshot.remove_pods([placement.pod for placement in placements])
                left = attempt.removed.setdefault(gang, {})
                left.update((placement.pod, placement) for placement in placements)

    def _is_placed(self, pod: str) -> bool:
        return pod in self._snapshot.placements

    def _restore_unneeded(self, rows: Rows, attempt: _Attempt) -> None:
        """Restores pods that the gang fits beside, the most expensive first."""
        candidates = self._candidates
        for gang in sorted(
            attempt.removed,
            key=lambda one: (-candidates.lost_gpu_seconds(one, attempt.removed[one]), one),
        ):
            left = attempt.removed[gang]
            singly = candidates.are_surplus(gang, left)
            for pods in [[pod] for pod in left] if singly else [list(left)]:
                if self._try_restore(rows, attempt, [left[pod] for pod in pods]):
                    for pod in pods:
                        del left[pod]
            if not left:
                del attempt.removed[gang]

    def _try_restore(self, rows: Rows, attempt: _Attempt, placements: list[PodPlacement]) -> bool:
        """Restores pods if the pending gang fits beside them, if necessary with another
        placement."""
        snapshot = self._snapshot
        if can_restore(snapshot, placements):
            snapshot.add_pods(placements)
            return True
        if attempt.replacements == _MAX_REPLACEMENTS:
            return False
        attempt.replacements += 1
        trial = snapshot.begin_trial()
        snapshot.remove_pods([placement.pod for placement in attempt.placement])
        if can_restore(snapshot, placements):
            snapshot.add_pods(placements)
            replacement = self._placer.place(self._gang, rows)
            if replacement is not None:
                snapshot.commit(trial)
                attempt.placement = replacement
                return True
        snapshot.rollback(trial)
        return False

    def _place_removed(self, attempt: _Attempt) -> tuple[GangMigration, ...] | _Unplaceable:
        """Places all removed pods elsewhere, the largest gang first."""
        migrations: list[GangMigration] = []
        candidates = self._candidates
        for gang in sorted(
            attempt.removed,
            key=lambda one: (-candidates.gpu_weight(one, attempt.removed[one]), one),
        ):
            left = attempt.removed[gang]
            placements = self._placer.place(candidates.build_pending_gang(gang, left))
            if placements is None:
                return _Unplaceable(gang)
            migrations.append(candidates.build_migration(list(left.values()), placements))
        return tuple(migrations)


def _migration_cost(found: Consolidation) -> tuple[float, int, list[str]]:
    """Lost GPU-seconds, number of pods, and their gangs."""
    return (
        sum(migration.lost_gpu_seconds for migration in found.migrations),
        sum(len(migration.sources) for migration in found.migrations),
        [migration.gang.name for migration in found.migrations],
    )
