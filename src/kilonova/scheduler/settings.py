"""Settings of a scheduler."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from kilonova.api.scheduling_names import EMBEDDED_SCHEDULER_NAMES, SCHEDULER_NAME
from kilonova.scheduler.core.scheduling_cycle import PlannerPolicy


@dataclass(frozen=True, slots=True)
class ConsolidationLimits:
    """Limits of consolidation. The migration of a gang counts once, however many pods it has."""

    interval: float = 60.0
    """Seconds between two searches."""
    max_concurrent: int = 4
    """Migrations in progress at the same time."""
    max_per_hour: int = 20
    """Migrations within any hour."""
    max_lost_gpu_seconds: float = 36_000.0
    """GPU-seconds of work that the migrations of any hour may lose."""
    min_arrivals_per_migration: int = 0
    """Pods that must have been created per migration; 0 disables this limit."""
    replacement_timeout: float = 120.0
    """Seconds for which capacity is held for replacements after the migrated pods were deleted."""


@dataclass(frozen=True, slots=True)
class SchedulerSettings:
    """Settings of scheduling, eviction, status and consolidation."""

    scheduler_names: frozenset[str] = frozenset({SCHEDULER_NAME})
    """The scheduler schedules pods whose `schedulerName` is one of these."""
    policy: PlannerPolicy = field(default_factory=PlannerPolicy)
    weights: Mapping[str, float] = field(default_factory=dict[str, float])
    """Weights of score plugins that differ from their defaults, by plugin name."""
    concurrent_bindings: int = 96
    """The maximum number of bindings in flight."""
    node_batch_window: float = 1.0
    """Seconds for which surplus pods (beyond a gang's minimum) wait after a node was added or
    changed while another gang waits for its minimum: nodes that are added together are considered
    together."""
    retry_interval: float = 10.0
    """Seconds after which pending gangs are retried without any event: the right to preempt can
    arise with time, for example after a victim's minimum runtime."""
    eviction_timeout: float = 120.0
    """Seconds to wait for victims to terminate."""
    partial_gang_timeout: float = 60.0
    """Seconds after which the pods of a gang that never reached its minimum are evicted."""
    status_interval: float = 5.0
    """Minimum seconds between two status updates of one gang."""
    consolidation: ConsolidationLimits | None = None
    """Limits of consolidation; None disables it."""
    avoid_failed_nodes_for: float = 3600.0
    """Seconds for which a workload avoids nodes on which it failed, if others are feasible."""


EMBEDDED_SETTINGS = SchedulerSettings(scheduler_names=EMBEDDED_SCHEDULER_NAMES)
"""Settings of the scheduler in the cluster of `kilonova up`."""
