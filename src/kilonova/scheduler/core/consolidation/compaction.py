"""Migrations without a pending gang: they empty nodes and domains, and reduce fragmentation.

Progress is measured by two numbers: the nodes and domains with GPUs that are empty and, if that
does not change, the usable milli of what is free (see `scoring.fragmentation`). A migration must
gain a minimum, and never uses an empty node. So each one increases the pair: no two of them undo
each other, and the process terminates.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from kilonova.catalog.resource_names import GPU
from kilonova.scheduler.core.consolidation.migration import (
    GangMigration,
    MigrationBudget,
    MigrationCandidates,
)
from kilonova.scheduler.core.consolidation.pod_migration import EquivalentPods, find_best_migration
from kilonova.scheduler.core.filters.feasibility import Counts, FeasibilityCache
from kilonova.scheduler.core.model.cluster import Cluster
from kilonova.scheduler.core.model.label_columns import Flags, Rows
from kilonova.scheduler.core.model.pod_placement import PodPlacement
from kilonova.scheduler.core.model.requests import Shape
from kilonova.scheduler.core.model.snapshot import Snapshot
from kilonova.scheduler.core.placement.placer import Placer
from kilonova.scheduler.core.scoring.fragmentation import FragmentationModel
from kilonova.scheduler.core.scoring.packing_fit import free_resources_on, packing_request

_MAX_CANDIDATE_NODES = 24
"""Number of nodes considered for each that is emptied, the least used first."""


@dataclass(frozen=True, slots=True)
class ConsolidationGoals:
    """What is worth a migration."""

    levels: tuple[str, ...] = ()
    """Levels whose domains should become empty."""
    min_freed_per_migration: float = 0.5
    """Empty nodes and domains that each migration must gain on average."""
    fragmentation: FragmentationModel | None = None
    """The model that rates fragmentation; without it fractions are not migrated."""
    min_gain_milli: float = 100.0
    """Usable milli that the migration of a fraction must gain."""


class NodeConsolidator:
    """Finds migrations one by one, and applies them to the snapshot."""

    def __init__(
        self,
        cluster: Cluster,
        feasibility: FeasibilityCache,
        placer: Placer,
        candidates: MigrationCandidates,
        goals: ConsolidationGoals,
    ) -> None:
        self._cluster = cluster
        self._snapshot = cluster.snapshot
        self._feasibility = feasibility
        self._placer = placer
        self._candidates = candidates
        self._goals = goals

    def find_migrations(self, budget: MigrationBudget, now: float) -> tuple[GangMigration, ...]:
        """All worthwhile migrations within the budget."""
        migrations: list[GangMigration] = []
        while more := self._find_node_emptying(
            migrations, budget, now
        ) or self._find_share_migration(migrations, budget, now):
            for migration in more:
                self._snapshot.remove_pods(migration.pods)
            for migration in more:
                self._snapshot.add_pods(migration.targets)
                self._candidates.exclude(migration.gang.name)
            migrations.extend(more)
        return tuple(migrations)

    # Emptying nodes

    def _find_node_emptying(
        self, chosen: Sequence[GangMigration], budget: MigrationBudget, now: float
    ) -> list[GangMigration]:
        """Of the migrations that empty a node, those that gain most for the work lost."""
        used = find_used_rows(self._cluster)
        empty = count_empty_nodes_and_domains(self._cluster, self._goals.levels, used)
        best: list[GangMigration] = []
        best_key: tuple[float, float] | None = None
        for row in self._list_underused_rows(used):
            trial = self._snapshot.begin_trial()
            migrations = self._migrate_from_row(row, used)
            after = find_used_rows(self._cluster, used, migrations)
            self._snapshot.rollback(trial)
            if not migrations or not self._is_allowed([*chosen, *migrations], budget, now):
                continue
            gained = count_empty_nodes_and_domains(self._cluster, self._goals.levels, after) - empty
            work = sum(migration.lost_gpu_seconds for migration in migrations)
            key = -gained / work, work
            worth_it = gained > 0 and gained >= self._goals.min_freed_per_migration * len(
                migrations
            )
            if worth_it and (best_key is None or key < best_key):
                best, best_key = migrations, key
        return best

    def _list_underused_rows(self, used: Flags) -> list[int]:
        """Rows that could be emptied: those with few GPUs in use first, then those in domains with
        few other used nodes."""
        snapshot = self._snapshot
        column = snapshot.column(GPU)
        rows = np.flatnonzero(used & (snapshot.allocatable[column, : snapshot.size] > 0))
        busy = snapshot.allocatable[column, rows] - snapshot.free[column, rows]
        around = [_count_used_in_domain(snapshot, level, rows) for level in self._goals.levels]
        order = np.lexsort((snapshot.ranks[rows], *around, busy))
        feasible = (row for row in rows[order].tolist() if self._pods_to_migrate(row) is not None)
        return list(islice(feasible, _MAX_CANDIDATE_NODES))

    def _pods_to_migrate(self, row: int) -> dict[str, tuple[str, ...]] | None:
        """The pods to migrate to empty a row, by gang; None if a pod cannot be migrated."""
        here: dict[str, set[str]] = {}
        for pod, placement in self._snapshot.pods_on[row].items():
            if placement.gang in self._cluster.running_gangs:
                here.setdefault(placement.gang, set()).add(pod)
            elif placement.shape.gpu is not None:
                return None
        migrated_pods = {
            gang: self._candidates.pods_to_migrate(gang, pods)
            for gang, pods in sorted(here.items())
        }
        return migrated_pods if migrated_pods and all(migrated_pods.values()) else None

    def _migrate_from_row(self, row: int, used: Flags) -> list[GangMigration]:
        """Places the pods of a row elsewhere, on nodes in use; empty if a gang does not fit."""
        candidates, migrated_pods = self._candidates, self._pods_to_migrate(row)
        assert migrated_pods is not None
        left = {gang: self._snapshot.remove_pods(pods) for gang, pods in migrated_pods.items()}
        targets = np.flatnonzero(used)
        targets = targets[targets != row]
        migrations: list[GangMigration] = []
        for gang in sorted(
            left, key=lambda one: (-candidates.gpu_weight(one, migrated_pods[one]), one)
        ):
            placements = self._placer.place(
                candidates.build_pending_gang(gang, migrated_pods[gang]), targets
            )
            if placements is None:
                return []
            migrations.append(candidates.build_migration(left[gang], placements))
        return migrations

    def _is_allowed(
        self, migrations: Sequence[GangMigration], budget: MigrationBudget, now: float
    ) -> bool:
        evicted = [placement for migration in migrations for placement in migration.sources]
        return budget.allows(migrations, now) and self._candidates.is_within_disruption_budgets(
            evicted
        )

    # Reducing fragmentation

    def _find_share_migration(
        self, chosen: Sequence[GangMigration], budget: MigrationBudget, now: float
    ) -> list[GangMigration]:
        """The migration of a fraction that gains most."""
        model = self._goals.fragmentation
        if model is None:
            return []
        # Rows in order of names: the first of equals is taken.
        ranks, by_name = self._snapshot.ranks, np.argsort(self._snapshot.ranks, kind="stable")
        left = free_resources_on(self._snapshot, by_name)
        used = find_used_rows(self._cluster)
        best: tuple[float, PodPlacement, int] | None = None
        for shape, placements in self._iter_movable_shares():
            group = EquivalentPods(
                packing_request(shape),
                np.array([ranks[placement.row] for placement in placements], np.intp),
                np.array([[one.index for one in placement.devices] for placement in placements]),
            )
            targets = (used & (self._feasibility.free_capacity(shape) > 0))[by_name]
            found = find_best_migration(
                model, left, [group], lambda _, t=targets: t, self._goals.min_gain_milli
            )
            if found is not None and (best is None or found.gain > best[0]):
                best = found.gain, placements[found.index], int(by_name[found.row])
        if best is None:
            return []
        migration = self._verify_share_migration(model, best[1], np.array([best[2]], np.intp))
        return (
            [migration] if migration and self._is_allowed([*chosen, migration], budget, now) else []
        )

    def _iter_movable_shares(self) -> Iterator[tuple[Shape, list[PodPlacement]]]:
        """Single-pod gangs with fractions that may be migrated, by shape."""
        found: dict[Shape, list[PodPlacement]] = {}
        for name, running_gang in sorted(self._cluster.running_gangs.items()):
            pods = tuple(running_gang.pods)
            placement = self._snapshot.placements[pods[0]]
            request = placement.shape.gpu
            if (
                len(pods) > 1
                or request is None
                or request.is_whole
                or request.profile
                or not request.milli
                or request.share_memory
            ):
                continue
            if len(placement.devices) == request.count and self._candidates.pods_to_migrate(
                name, pods
            ):
                found.setdefault(placement.shape, []).append(placement)
        yield from found.items()

    def _verify_share_migration(
        self, model: FragmentationModel, source: PodPlacement, target: Rows
    ) -> GangMigration | None:
        """The migration as it would really be: inter-pod rules may reject it, and devices are
        selected by more than what is left of them."""
        rows = np.append(target, source.row)
        before = model.usable_milli(free_resources_on(self._snapshot, rows)).sum()
        trial = self._snapshot.begin_trial()
        self._snapshot.remove_pod(source.pod)
        pending_gang = self._candidates.build_pending_gang(source.gang, [source.pod])
        placements = self._placer.place(pending_gang, target)
        after = model.usable_milli(free_resources_on(self._snapshot, rows)).sum()
        self._snapshot.rollback(trial)
        if placements is None or after - before < self._goals.min_gain_milli:
            return None
        return self._candidates.build_migration([source], placements)


def find_used_rows(
    cluster: Cluster, before: Flags | None = None, migrations: Sequence[GangMigration] = ()
) -> Flags:
    """Rows with gangs, or with other pods that use GPUs; from `before`, only the rows of the
    migrations are recomputed."""
    snapshot = cluster.snapshot
    changed = {
        placement.row
        for migration in migrations
        for placement in (*migration.sources, *migration.targets)
    }
    used = np.zeros(snapshot.size, np.bool_) if before is None else before.copy()
    for row in range(snapshot.size) if before is None else changed:
        used[row] = any(
            placement.gang in cluster.running_gangs or placement.shape.gpu is not None
            for placement in snapshot.pods_on[row].values()
        )
    return used


def count_empty_nodes_and_domains(cluster: Cluster, levels: Sequence[str], used: Flags) -> int:
    """Number of nodes with GPUs, and of domains of such nodes, that are not used."""
    snapshot = cluster.snapshot
    rows = np.flatnonzero(snapshot.alive[: snapshot.size])
    rows = rows[snapshot.allocatable[snapshot.column(GPU), rows] > 0]
    total = int((~used[rows]).sum())
    for level in levels:
        domains = snapshot.labels.domains(level, rows)
        inside = domains >= 0
        there, busy = np.unique(domains[inside]), np.unique(domains[inside & used[rows]])
        total += len(there) - len(busy)
    return total


def _count_used_in_domain(snapshot: Snapshot, level: str, used: Rows) -> Counts:
    """For each used row, the number of used rows in its domain."""
    domains = snapshot.labels.domains(level, used) + 1
    return np.bincount(domains)[domains] if len(used) else np.zeros(0, np.int64)
