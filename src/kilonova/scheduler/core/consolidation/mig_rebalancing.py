"""Migrations of pods with MIG instances among the GPUs of a pool.

For a pending gang they free its place; without one they raise the **remaining value** of the GPUs,
which is what the demand still finds there (`core.gpu.mig`). Both must be worth it: the benefit,
seconds of a whole GPU, must exceed the cost, what is lost by the restarts, by the hysteresis. The
planner of `core.gpu.rebalancing` proposes the pods and their nodes; each is placed there as its
replacement would be, and what that really gains is what counts. While the demand stays the same
every rebalancing raises the value, so no two undo each other.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from msgspec.structs import replace

from kilonova.catalog.mig import MigGeometry, Slot
from kilonova.scheduler.core.consolidation.migration import (
    GangMigration,
    MigrationBudget,
    MigrationCandidates,
    RestartCosts,
)
from kilonova.scheduler.core.gpu.layout import MILLI_PER_GPU
from kilonova.scheduler.core.gpu.mig import remaining_value
from kilonova.scheduler.core.gpu.rebalancing.plan import RebalanceSettings, plan_rebalance
from kilonova.scheduler.core.gpu.rebalancing.repack_state import (
    FleetGpu,
    HeldInstance,
    Migration,
)
from kilonova.scheduler.core.model.cluster import Cluster
from kilonova.scheduler.core.model.pod_placement import PodPlacement
from kilonova.scheduler.core.placement.placer import Placer

_MIN_GAIN = 1e-9


@dataclass(frozen=True, slots=True)
class MigPool:
    """GPUs among which the pods with MIG instances may be migrated."""

    name: str
    gpus: Mapping[str, frozenset[int] | None]
    """By node, the indices of the GPUs; None is all with MIG."""
    settings: RebalanceSettings = field(default_factory=RebalanceSettings)
    stateless_pods: Collection[str] = field(default=frozenset[str](), compare=False)
    """Pods that lose no work by a restart, only the time that it takes."""

    def includes(self, node: str, index: int) -> bool:
        """Whether a GPU belongs to the pool."""
        indices = self.gpus.get(node, frozenset())
        return indices is None or index in indices


def estimate_restart_costs(cluster: Cluster, pool: MigPool) -> RestartCosts:
    """What restarts of the pods of a pool cost."""
    snapshot = cluster.snapshot
    placements = (
        placement
        for node in pool.gpus
        if node in snapshot
        for placement in snapshot.pods_on[snapshot.row(node)].values()
    )
    gpus = {each.pod: count_gpus(cluster, each) for each in placements if each.devices}
    return RestartCosts(pool.stateless_pods, gpus)


def count_gpus(cluster: Cluster, placement: PodPlacement) -> float:
    """The GPUs that a pod has, MIG instances by their part of a device."""
    gpus = cluster.snapshot.layout(placement.row).gpus
    total = 0.0
    for share in placement.devices:
        geometry = gpus[share.index].mig if share.index < len(gpus) else None
        if share.mask and geometry is not None:
            total += geometry.device_share(share.profile) or 0.0
        else:
            total += share.milli / MILLI_PER_GPU
    return total


def list_gangs_outside(cluster: Cluster, pool: MigPool, now: float) -> set[str]:
    """Running gangs that are not migrated for a pool: those with pods that have anything but one
    MIG instance of its GPUs, and those that started within its interval."""
    snapshot = cluster.snapshot
    return {
        name
        for name, running in cluster.running_gangs.items()
        if now - running.since < pool.settings.min_interval
        or not all(_is_in_pool(cluster, snapshot.placements[pod], pool) for pod in running.pods)
    }


class MigRebalancer:
    """Finds the migrations of one pool, and applies them to the snapshot."""

    def __init__(
        self, cluster: Cluster, placer: Placer, candidates: MigrationCandidates, pool: MigPool
    ) -> None:
        self._cluster = cluster
        self._snapshot = cluster.snapshot
        self._placer = placer
        self._candidates = candidates
        self._pool = pool

    def find_migrations(self, budget: MigrationBudget, now: float) -> tuple[GangMigration, ...]:
        """The worthwhile migrations within the budget: all that leave one GPU, or none of them."""
        places = dict(self._iter_gpus())
        fleet = [
            self._describe_gpu(name, row, index, geometry)
            for name, (row, index, geometry) in places.items()
        ]
        plan = plan_rebalance(
            fleet,
            replace(self._pool.settings, max_migrations=budget.max_migrations),
            demand=self._snapshot.mig_demand,
            now=now,
        )
        by_source: dict[str, list[Migration]] = {}
        for move in plan.migrations:
            by_source.setdefault(move.source, []).append(move)
        chosen: list[GangMigration] = []
        for moves in by_source.values():
            trial = self._snapshot.begin_trial()
            before = self._measure_value(places.values())
            found = [self._migrate(each, places[each.target][0]) for each in moves]
            gain = self._measure_value(places.values()) - before
            together = [*chosen, *(each for each in found if each is not None)]
            if None not in found and self._is_allowed(together, len(chosen), gain, budget, now):
                self._snapshot.commit(trial)
                chosen = together
            else:
                self._snapshot.rollback(trial)
        return tuple(chosen)

    def _iter_gpus(self) -> Iterator[tuple[str, tuple[int, int, MigGeometry]]]:
        """The GPUs of the pool that have nothing but MIG instances: row and index."""
        snapshot = self._snapshot
        for node in sorted(self._pool.gpus):
            if node not in snapshot:
                continue
            row = snapshot.row(node)
            for gpu in snapshot.layout(row).gpus:
                if (
                    gpu.mig is not None
                    and self._pool.includes(node, gpu.index)
                    and snapshot.gpu_free[row, gpu.index] == MILLI_PER_GPU
                    and not snapshot.gpu_claimed[row, gpu.index]
                ):
                    yield f"{node}:{gpu.index}", (row, gpu.index, gpu.mig)

    def _describe_gpu(self, name: str, row: int, index: int, geometry: MigGeometry) -> FleetGpu:
        held: list[HeldInstance] = []
        mask = 0
        for pod, placement in sorted(self._snapshot.pods_on[row].items()):
            for share in placement.devices:
                if share.index == index and share.mask:
                    slot = Slot(share.profile, share.start)
                    is_movable = self._candidates.pods_to_migrate(placement.gang, {pod}) == (pod,)
                    seconds = (
                        self._candidates.lost_seconds(placement.gang, [pod]) if is_movable else 0.0
                    )
                    held.append(HeldInstance(slot, pod, is_movable, seconds))
                    mask |= share.mask
        is_known = mask == int(self._snapshot.gpu_mask[row, index])
        return FleetGpu(name, geometry, tuple(held), is_frozen=not is_known)

    def _migrate(self, move: Migration, row: int) -> GangMigration | None:
        """Place a pod again, on the node of its target; None where that is not possible."""
        source = self._snapshot.placements[move.holder]
        self._snapshot.remove_pod(source.pod)
        pending = self._candidates.build_pending_gang(source.gang, [source.pod])
        targets = self._placer.place(pending, np.array([row], np.intp))
        if targets is None:
            return None
        return self._candidates.build_migration([source], targets)

    def _is_allowed(
        self,
        migrations: Sequence[GangMigration],
        chosen_before: int,
        gain: float,
        budget: MigrationBudget,
        now: float,
    ) -> bool:
        """Whether the last migrations are worth it, and all may be made together."""
        settings = self._pool.settings
        cost = sum(each.lost_gpu_seconds for each in migrations[chosen_before:])
        evicted = [source for each in migrations for source in each.sources]
        return (
            gain > _MIN_GAIN
            and settings.is_worth_it(gain, cost)
            and len({each.gang.name for each in migrations}) == len(migrations)
            and budget.allows(migrations, now)
            and self._candidates.is_within_disruption_budgets(evicted)
        )

    def _measure_value(self, gpus: Collection[tuple[int, int, MigGeometry]]) -> float:
        """The remaining value of GPUs, in empty ones."""
        demand, masks = self._snapshot.mig_demand, self._snapshot.gpu_mask
        return sum(
            float(remaining_value(geometry, demand)[int(masks[row, index])])
            for row, index, geometry in gpus
        )


def _is_in_pool(cluster: Cluster, placement: PodPlacement, pool: MigPool) -> bool:
    node = cluster.snapshot.names[placement.row]
    return len(placement.devices) == 1 and all(
        each.mask and pool.includes(node, each.index) for each in placement.devices
    )
