"""A picture at a glance: GPUs free and used by model, who stands, who waits, how broken up what is
free is. Plain values, whose fields are their JSON."""

from dataclasses import dataclass

from kilonova.scheduler.core.cluster import Cluster
from kilonova.scheduler.core.devices import WHOLE
from kilonova.scheduler.core.snapshot import GPU
from kilonova.scheduler.picture import Picture
from kilonova.scheduler.reading.reservations import is_reservation

_SIZES = (1, 2, 4, 8)


@dataclass(frozen=True, slots=True)
class GpuModel:
    """All devices of one model; `part_used` are those that several pods share, or could."""

    model: str
    nodes: int
    devices: int
    free: int
    part_used: int
    used: int
    unhealthy: int


@dataclass(frozen=True, slots=True)
class Fragments:
    """How broken up what is free is."""

    fits: dict[int, int]
    """How many pods with so many whole GPUs each the nodes have devices for."""
    free_milli: int
    """What is free of all devices together, in thousandths of one."""
    split_milli: int
    """What of it is on devices of which something is used: nobody gets them whole."""


@dataclass(frozen=True, slots=True)
class WaitingGang:
    """A gang that wants a place, and how many of its pods do."""

    gang: str
    queue: str
    priority: int
    pods: int
    since: float


@dataclass(frozen=True, slots=True)
class Summary:
    """What is in a picture."""

    now: float
    nodes: int
    pods: int
    standing: int
    reservations: int
    """Of those that keep room now."""
    waiting: tuple[WaitingGang, ...]
    not_yet: int
    gpus: tuple[GpuModel, ...]
    fragments: Fragments


def summary_of(picture: Picture) -> Summary:
    """What there is to say of a picture before anything is decided."""
    cluster = picture.cluster()
    kept = sum(is_reservation(one.gang.name) for one in picture.standing)
    waiting = (
        WaitingGang(
            gang.name,
            gang.queue,
            gang.priority,
            sum(len(group.members) for group in gang.groups),
            gang.created,
        )
        for gang in picture.waiting
    )
    return Summary(
        picture.now,
        len(picture.nodes),
        sum(not is_reservation(each.gang) for each in picture.bookings),
        len(picture.standing) - kept,
        kept,
        tuple(sorted(waiting, key=lambda each: (-each.priority, each.since, each.gang))),
        len(picture.not_yet),
        _models(cluster),
        _fragments(cluster),
    )


def _models(cluster: Cluster) -> tuple[GpuModel, ...]:
    snapshot = cluster.snapshot
    counted: dict[str, dict[str, int]] = {}
    for node in snapshot.nodes():
        row = snapshot.row(node.name)
        seen: set[str] = set()
        for gpu in snapshot.layout(row).gpus:
            model = counted.setdefault(gpu.model, dict.fromkeys(_COUNTS, 0))
            model["devices"] += 1
            milli, mask = int(snapshot.gpu_free[row, gpu.index]), snapshot.gpu_mask[row, gpu.index]
            model[_state(gpu.healthy, milli, bool(mask))] += 1
            if gpu.model not in seen:
                seen.add(gpu.model)
                model["nodes"] += 1
    return tuple(GpuModel(model, **counts) for model, counts in sorted(counted.items()))


_COUNTS = ("nodes", "devices", "free", "part_used", "used", "unhealthy")


def _state(healthy: bool, milli: int, split: bool) -> str:
    if not healthy:
        return "unhealthy"
    if milli == WHOLE and not split:
        return "free"
    return "part_used" if milli > 0 else "used"


def _fragments(cluster: Cluster) -> Fragments:
    snapshot = cluster.snapshot
    rows = snapshot.alive[: snapshot.size]
    whole = snapshot.free[snapshot.resources[GPU], : snapshot.size][rows]
    milli = snapshot.gpu_free[: snapshot.size][rows]
    masks = snapshot.gpu_mask[: snapshot.size][rows]
    split = milli[(milli < WHOLE) & (milli > 0) & (masks == 0)]
    free = milli[masks == 0]
    return Fragments(
        {size: int((whole.clip(0) // size).sum()) for size in _SIZES},
        int(free[free > 0].sum()),
        int(split.sum()),
    )
