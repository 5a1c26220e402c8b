"""Which gangs may be migrated, what that costs, and how they are placed again.

A **migration** evicts pods of one gang and places them on other nodes in one step: the whole gang,
or some surplus pods. No pod is evicted that could not be placed again.

Not migrated are: gangs that are not preemptible or within their minimum run time; gangs below their
minimum, or with terminating pods; pods that no controller recreates; pods with claims, which keep
their devices; gangs with anti-affinity, and base gangs of others, because the placement of the
others depends on theirs.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from kilonova.catalog.resource_names import GPU
from kilonova.scheduler.core.gpu.layout import MILLI_PER_GPU
from kilonova.scheduler.core.model.cluster import Cluster, RunningGang
from kilonova.scheduler.core.model.gangs import Gang
from kilonova.scheduler.core.model.pod_placement import PodPlacement
from kilonova.scheduler.core.preemption.rules import (
    PotentialVictim,
    Preemptor,
    find_preemption_protection,
)

_RESTART_COST_SECONDS = 300.0
"""Seconds of work lost by a restart, in addition to the work done so far."""
_GPUS_PER_CPU_POD = 0.1
"""GPUs that a pod without any counts as."""


@dataclass(frozen=True, slots=True)
class GangMigration:
    """Pods of a gang, their current and new placements, and the GPU-seconds lost."""

    gang: Gang
    sources: tuple[PodPlacement, ...]
    targets: tuple[PodPlacement, ...]
    lost_gpu_seconds: float

    @property
    def pods(self) -> tuple[str, ...]:
        return tuple(placement.pod for placement in self.sources)


@dataclass(frozen=True, slots=True)
class MigrationBudget:
    """How much may be migrated within any period of a given length."""

    max_migrations: int
    max_lost_gpu_seconds: float = float("inf")
    """Maximum of lost GPU-seconds."""
    period: float = 3600.0
    spent: tuple[tuple[float, float], ...] = ()
    """Time and lost GPU-seconds of each migration that still counts."""

    def allows(self, migrations: Sequence[GangMigration], now: float) -> bool:
        """Whether all of some migrations are allowed now."""
        counted = self._list_recent(now)
        work = sum(work for _, work in counted) + sum(
            migration.lost_gpu_seconds for migration in migrations
        )
        return (
            len(counted) + len(migrations) <= self.max_migrations
            and work <= self.max_lost_gpu_seconds
        )

    def record(self, migrations: Sequence[GangMigration], now: float) -> "MigrationBudget":
        """The budget after migrations."""
        return replace(
            self,
            spent=(
                *self._list_recent(now),
                *((now, migration.lost_gpu_seconds) for migration in migrations),
            ),
        )

    def _list_recent(self, now: float) -> tuple[tuple[float, float], ...]:
        return tuple(each for each in self.spent if each[0] > now - self.period)


@dataclass(frozen=True, slots=True)
class RestartCosts:
    """What is known of pods about what their restart costs, beyond their requests."""

    stateless_pods: Collection[str] = frozenset()
    """Pods that lose no work, only the time that a restart takes."""
    gpus: Mapping[str, float] = field(default_factory=dict[str, float])
    """GPUs of pods with MIG instances, which requests do not show."""


class MigrationCandidates:
    """The gangs of a cluster that may be migrated. Valid for one plan, in which each migrates at
    most once."""

    def __init__(
        self,
        cluster: Cluster,
        now: float,
        excluded: Iterable[str] = (),
        pending: Gang | None = None,
        restart_costs: RestartCosts | None = None,
    ) -> None:
        self._cluster = cluster
        self._restart_costs = restart_costs or RestartCosts()
        self._now = now
        self._movable: dict[str, bool] = dict.fromkeys(excluded, False)
        gangs = [running_gang.gang for running_gang in cluster.running_gangs.values()]
        if pending is not None:
            gangs.append(pending)
        self._base_node_sets = {frozenset(gang.base_nodes) for gang in gangs if gang.base_nodes}

    def exclude(self, gang: str) -> None:
        """Excludes a gang from further migrations."""
        self._movable[gang] = False

    def pods_to_migrate(self, gang: str, pods: Collection[str]) -> tuple[str, ...]:
        """The pods of a gang that migrate when some of them have to: only these if they are surplus
        pods, else all. Empty if the gang may not be migrated."""
        running_gang = self._cluster.running_gangs.get(gang)
        if running_gang is None or not self._can_migrate(running_gang):
            return ()
        if self._surplus_pods(running_gang).issuperset(pods):
            return tuple(pod for pod in running_gang.pods if pod in pods)
        return tuple(running_gang.pods)

    def are_surplus(self, gang: str, pods: Collection[str]) -> bool:
        """Whether all of some pods are surplus pods."""
        return self._surplus_pods(self._cluster.running_gangs[gang]).issuperset(pods)

    def is_within_disruption_budgets(self, placements: Iterable[PodPlacement]) -> bool:
        """Whether disruption budgets allow all of these pods to be evicted."""
        pods_by_budget = Counter(budget for each in placements for budget in each.member.budgets)
        budgets = self._cluster.budgets
        return all(budgets.get(name, 0) >= count for name, count in pods_by_budget.items())

    def gpu_weight(self, gang: str, pods: Collection[str]) -> float:
        """GPUs of pods; pods without any count a little."""
        amounts, known = self._cluster.running_gangs[gang].pods, self._restart_costs.gpus
        gpus = sum(
            known[pod] if pod in known else amounts[pod].get(GPU, 0) / MILLI_PER_GPU for pod in pods
        )
        return max(gpus, _GPUS_PER_CPU_POD * len(pods))

    def lost_gpu_seconds(self, gang: str, pods: Collection[str]) -> float:
        """GPU-seconds lost by a restart of pods."""
        return self.lost_seconds(gang, pods) * self.gpu_weight(gang, pods)

    def lost_seconds(self, gang: str, pods: Collection[str]) -> float:
        """Seconds of work that each of some pods loses by a restart."""
        if all(pod in self._restart_costs.stateless_pods for pod in pods):
            return _RESTART_COST_SECONDS
        age = max(0.0, self._now - self._cluster.running_gangs[gang].since)
        return age + _RESTART_COST_SECONDS

    def build_pending_gang(self, gang: str, pods: Collection[str]) -> Gang:
        """The gang with some of its pods pending again, all of them required."""
        running_gang = self._cluster.running_gangs[gang]
        snapshot = self._cluster.snapshot
        groups = list(running_gang.gang.groups)
        for index, group in enumerate(groups):
            known = [
                m for m in (*group.placed_members, *group.members) if m.pod in running_gang.pods
            ]
            staying = tuple(member for member in known if member.pod not in pods)
            groups[index] = replace(
                group,
                members=tuple(member for member in known if member.pod in pods),
                minimum=len(known),
                placed_members=staying,
                placed_nodes=tuple(snapshot.names[snapshot.placements[m.pod].row] for m in staying),
            )
        return replace(running_gang.gang, groups=tuple(groups))

    def build_migration(
        self, sources: Sequence[PodPlacement], targets: Sequence[PodPlacement]
    ) -> GangMigration:
        """The migration of some pods of one gang."""
        gang = sources[0].gang
        work = self.lost_gpu_seconds(gang, [placement.pod for placement in sources])
        return GangMigration(
            self._cluster.running_gangs[gang].gang, tuple(sources), tuple(targets), work
        )

    def _surplus_pods(self, running_gang: RunningGang) -> set[str]:
        """Surplus pods; none of a group with segments, which would be split."""
        surplus: set[str] = set()
        for group in running_gang.gang.groups:
            if group.segments is None:
                members = (*group.placed_members, *group.members)
                placed = [member.pod for member in members if member.pod in running_gang.pods]
                surplus.update(placed[group.minimum :])
        return surplus

    def _can_migrate(self, running_gang: RunningGang) -> bool:
        name = running_gang.gang.name
        if name not in self._movable:
            self._movable[name] = not self._is_protected(running_gang) and self._is_complete(
                running_gang
            )
        return self._movable[name]

    def _is_protected(self, running_gang: RunningGang) -> bool:
        gang = running_gang.gang
        if gang.anti_affinity is not None:
            return True
        preemptor = Preemptor(gang.queue, {}, gang.priority + 1)
        victim = PotentialVictim(
            gang.queue, {}, running_gang.since, gang.priority, gang.preemptible
        )
        used = self._cluster.used
        return find_preemption_protection(used, preemptor, victim, self._now) is not None

    def _is_complete(self, running_gang: RunningGang) -> bool:
        """Whether the gang has its minimum, and all its pods are known and can be recreated."""
        snapshot, known = self._cluster.snapshot, 0
        for group in running_gang.gang.groups:
            members = [
                m for m in (*group.placed_members, *group.members) if m.pod in running_gang.pods
            ]
            known += len(members)
            if len(members) < group.minimum:
                return False
            if any(m.terminating or not m.has_controller or m.shape.claims for m in members):
                return False
        rows = {snapshot.placements[pod].row for pod in running_gang.pods}
        nodes = frozenset(snapshot.names[row] for row in rows)
        return known == len(running_gang.pods) and nodes not in self._base_node_sets
