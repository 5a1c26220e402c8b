"""The migrations that the limits of consolidation still allow. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from kilonova.scheduler.core.consolidation.migration import MigrationBudget
from kilonova.scheduler.settings import ConsolidationLimits

_HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class StartedMigration:
    """A started migration, and the GPU-seconds of work that it loses."""

    at: float
    lost_gpu_seconds: float


def remaining_budget(
    limits: ConsolidationLimits,
    completed: Sequence[StartedMigration],
    in_progress: int,
    pods_arrived: int,
    now: float,
) -> MigrationBudget:
    """The migrations allowed now, given those so far and the number of pods created."""
    recent = [each for each in completed if each.at > now - _HOUR]
    migrations = min(limits.max_concurrent - in_progress, limits.max_per_hour - len(recent))
    if limits.min_arrivals_per_migration:
        migrations = min(
            migrations, pods_arrived // limits.min_arrivals_per_migration - len(completed)
        )
    gpu_seconds = limits.max_lost_gpu_seconds - sum(each.lost_gpu_seconds for each in recent)
    return MigrationBudget(max(0, migrations), max(0.0, gpu_seconds))
