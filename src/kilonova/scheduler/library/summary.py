"""A summary of a snapshot: free and used GPUs by model, gangs, fragmentation. The fields are the
JSON output."""

from dataclasses import dataclass

from kilonova.catalog.resource_names import GPU
from kilonova.scheduler.convert.reservations.reserved_gangs import is_reservation_gang
from kilonova.scheduler.core.gpu.layout import MILLI_PER_GPU
from kilonova.scheduler.core.model.cluster import Cluster
from kilonova.scheduler.library.snapshots.snapshot import ClusterSnapshot

_POD_GPU_COUNTS = (1, 2, 4, 8)


@dataclass(frozen=True, slots=True)
class GpuModelSummary:
    """All devices of one model; `partly_used` ones are shared or have MIG instances."""

    model: str
    nodes: int
    devices: int
    free: int
    partly_used: int
    used: int
    unhealthy: int


@dataclass(frozen=True, slots=True)
class FragmentationSummary:
    """How fragmented the free capacity is."""

    fits: dict[int, int]
    """How many pods with this many whole GPUs each fit, by that number."""
    free_milli: int
    """Free milli-GPUs of all devices together."""
    fragmented_milli: int
    """Free milli-GPUs on partly used devices, which cannot be allocated whole."""


@dataclass(frozen=True, slots=True)
class PendingGangSummary:
    """A pending gang and the number of its pending pods."""

    gang: str
    queue: str
    priority: int
    pods: int
    since: float


@dataclass(frozen=True, slots=True)
class SnapshotSummary:
    """The content of a snapshot."""

    now: float
    nodes: int
    pods: int
    placed_gangs: int
    reservations: int
    """Reservations that hold capacity."""
    pending_gangs: tuple[PendingGangSummary, ...]
    not_ready: int
    gpus: tuple[GpuModelSummary, ...]
    fragments: FragmentationSummary


def summarize_snapshot(cluster_snapshot: ClusterSnapshot) -> SnapshotSummary:
    """Summarize a snapshot without scheduling anything."""
    cluster = cluster_snapshot.to_cluster()
    reservations = sum(
        is_reservation_gang(running_gang.gang.name)
        for running_gang in cluster_snapshot.running_gangs
    )
    pending = (
        PendingGangSummary(
            gang.name,
            gang.queue,
            gang.priority,
            sum(len(group.members) for group in gang.groups),
            gang.created,
        )
        for gang in cluster_snapshot.pending_gangs
    )
    return SnapshotSummary(
        cluster_snapshot.now,
        len(cluster_snapshot.nodes),
        sum(not is_reservation_gang(each.gang) for each in cluster_snapshot.placements),
        len(cluster_snapshot.running_gangs) - reservations,
        reservations,
        tuple(sorted(pending, key=lambda each: (-each.priority, each.since, each.gang))),
        len(cluster_snapshot.not_ready),
        _summarize_gpu_models(cluster),
        _summarize_fragmentation(cluster),
    )


def _summarize_gpu_models(cluster: Cluster) -> tuple[GpuModelSummary, ...]:
    snapshot = cluster.snapshot
    counted: dict[str, dict[str, int]] = {}
    for node in snapshot.nodes():
        row = snapshot.row(node.name)
        seen: set[str] = set()
        for gpu in snapshot.layout(row).gpus:
            model = counted.setdefault(gpu.model, dict.fromkeys(_GPU_MODEL_FIELDS, 0))
            model["devices"] += 1
            milli, mask = int(snapshot.gpu_free[row, gpu.index]), snapshot.gpu_mask[row, gpu.index]
            model[_gpu_state(gpu.healthy, milli, bool(mask))] += 1
            if gpu.model not in seen:
                seen.add(gpu.model)
                model["nodes"] += 1
    return tuple(GpuModelSummary(model, **counts) for model, counts in sorted(counted.items()))


_GPU_MODEL_FIELDS = ("nodes", "devices", "free", "partly_used", "used", "unhealthy")


def _gpu_state(healthy: bool, milli: int, split: bool) -> str:
    if not healthy:
        return "unhealthy"
    if milli == MILLI_PER_GPU and not split:
        return "free"
    return "partly_used" if milli > 0 else "used"


def _summarize_fragmentation(cluster: Cluster) -> FragmentationSummary:
    snapshot = cluster.snapshot
    rows = snapshot.alive[: snapshot.size]
    whole = snapshot.free[snapshot.resources[GPU], : snapshot.size][rows]
    milli = snapshot.gpu_free[: snapshot.size][rows]
    masks = snapshot.gpu_mask[: snapshot.size][rows]
    split = milli[(milli < MILLI_PER_GPU) & (milli > 0) & (masks == 0)]
    free = milli[masks == 0]
    return FragmentationSummary(
        {size: int((whole.clip(0) // size).sum()) for size in _POD_GPU_COUNTS},
        int(free[free > 0].sum()),
        int(split.sum()),
    )
