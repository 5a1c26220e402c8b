"""Migrations proposed for a snapshot, by name instead of row. The fields are the JSON output."""

from dataclasses import dataclass

from kilonova.scheduler.consolidation.limits import remaining_budget
from kilonova.scheduler.consolidation.search import order_candidates, search_consolidation
from kilonova.scheduler.convert.gpus import encode_devices
from kilonova.scheduler.core.decisions import InsufficientCapacity
from kilonova.scheduler.core.scoring.packing_fit import PackingFit
from kilonova.scheduler.library.snapshots.snapshot import ClusterSnapshot
from kilonova.scheduler.settings import ConsolidationLimits


@dataclass(frozen=True, slots=True)
class ProposedPodMigration:
    """A pod to migrate, and the devices that its replacement would get."""

    pod: str
    gang: str
    from_node: str
    to_node: str
    devices: str


@dataclass(frozen=True, slots=True)
class ConsolidationProposal:
    """Migrations that are executed together."""

    pods: tuple[ProposedPodMigration, ...]
    target_gang: str
    emptied_nodes: tuple[str, ...]
    """Nodes without pods that use GPUs after the migrations."""
    lost_gpu_seconds: float


def propose_consolidation(
    cluster_snapshot: ClusterSnapshot, limits: ConsolidationLimits | None = None
) -> ConsolidationProposal:
    """The first migrations of a scheduler that starts now, within the given or default limits."""
    cluster = cluster_snapshot.to_cluster()
    planner, snapshot = cluster_snapshot.build_planner(cluster), cluster.snapshot
    rejections = planner.plan(cluster_snapshot.pending_gangs, cluster_snapshot.now).unschedulable
    pending = order_candidates(
        each.gang for each in rejections if isinstance(each.reason, InsufficientCapacity)
    )
    budget = remaining_budget(
        limits or ConsolidationLimits(), [], 0, _UNLIMITED_ARRIVALS, cluster_snapshot.now
    )
    fragmentation, excluded = (
        PackingFit.from_snapshot(snapshot).fragmentation,
        cluster_snapshot.not_ready.keys(),
    )
    plan = search_consolidation(
        cluster,
        planner,
        pending,
        budget,
        cluster_snapshot.now,
        fragmentation=fragmentation,
        excluded_gangs=excluded,
    )
    migrations, names = plan.consolidation.migrations, snapshot.names
    pods = [
        ProposedPodMigration(
            source.pod,
            migration.gang.name,
            names[source.row],
            names[target.row],
            encode_devices(target.devices),
        )
        for migration in migrations
        for source in migration.sources
        for target in migration.targets
        if target.pod == source.pod
    ]
    migrated_pods = {source.pod for migration in migrations for source in migration.sources}
    rows = {source.row for migration in migrations for source in migration.sources}
    rows -= {target.row for migration in migrations for target in migration.targets}
    emptied = [
        names[row]
        for row in rows
        if all(
            pod in migrated_pods or pod_placement.shape.gpu is None
            for pod, pod_placement in snapshot.pods_on[row].items()
        )
    ]
    return ConsolidationProposal(
        tuple(sorted(pods, key=lambda each: each.pod)),
        plan.gang.name if plan.gang is not None else "",
        tuple(sorted(emptied)),
        sum(migration.lost_gpu_seconds for migration in migrations),
    )


_UNLIMITED_ARRIVALS = 1 << 40
"""Number of created pods to assume: a snapshot does not contain it."""
