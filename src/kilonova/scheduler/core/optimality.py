"""How near to each other the pods of a gang stand, beside the best that the cluster allows."""

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from kilonova.scheduler.core.asks import Shape
from kilonova.scheduler.core.devices import WHOLE
from kilonova.scheduler.core.filters import Reason, reasons
from kilonova.scheduler.core.labels import NAME, Codes, Rows
from kilonova.scheduler.core.rooms import Counts
from kilonova.scheduler.core.snapshot import GPU, Booking, Snapshot


def placement_score(
    snapshot: Snapshot, bookings: Iterable[Booking], levels: Sequence[str]
) -> float | None:
    """1 if pods stand in as few domains of each level, and on as few nodes, as they would on empty
    nodes; else by how many more they are, the mean of all levels. None where nobody can tell: pods
    with rules about others, with claims, or with parts of devices that differ from node to node."""
    stands = list(bookings)
    shapes = Counter(booking.shape for booking in stands)
    if not stands or not all(_is_plain(shape) for shape in shapes):
        return None
    rows = np.flatnonzero(snapshot.alive[: snapshot.size])
    places = np.array([booking.row for booking in stands], np.intp)
    room = {shape: _room(snapshot, shape, rows) for shape in shapes}
    shares = [
        _least(snapshot, shapes, room, level, rows) / used
        for level in (*levels, NAME)
        if (used := _domains(snapshot, level, places)) > 0
    ]
    return round(float(np.mean(np.minimum(shares, 1.0))), 3)


def _is_plain(shape: Shape) -> bool:
    in_parts = shape.gpu is not None and (shape.gpu.profile or not shape.gpu.milli)
    return shape.peers is None and not shape.claims and not in_parts


def _room(snapshot: Snapshot, shape: Shape, rows: Rows) -> Counts:
    """How many pods of a shape each node could take if it were empty."""
    room = np.full(len(rows), np.iinfo(np.int64).max, np.int64)
    for name, amount in shape.requests:
        if amount > 0:
            room = np.minimum(room, snapshot.allocatable[snapshot.column(name), rows] // amount)
    if shape.gpu is not None and not shape.gpu.whole:
        slots = snapshot.allocatable[snapshot.resources[GPU], rows] * (WHOLE // shape.gpu.milli)
        room = np.minimum(room, slots // shape.gpu.count)
    return np.where(reasons(snapshot, shape, rows) == Reason.FITS, room, 0)


def _domains(snapshot: Snapshot, level: str, places: Rows) -> int:
    """In how many domains pods stand; a node that is in none is one of its own. 0 if all are."""
    domains = snapshot.labels.domains(level, places)
    if (domains < 0).all():
        return 0
    return len(np.unique(domains[domains >= 0])) + len(np.unique(places[domains < 0]))


def _least(
    snapshot: Snapshot,
    shapes: Counter[Shape],
    room: dict[Shape, Counts],
    level: str,
    rows: Rows,
) -> int:
    """The fewest domains that could hold all pods: each kind by itself, and all resources."""
    domains = snapshot.labels.domains(level, rows) + 1
    needs: Counter[str] = Counter()
    able = np.zeros(len(rows), np.bool_)
    least = 1
    for shape, count in shapes.items():
        able |= room[shape] > 0
        least = max(least, _fewest(domains, np.minimum(room[shape], count), count))
        needs.update({name: amount * count for name, amount in shape.requests})
    for name, need in needs.items():
        had = np.where(able, snapshot.allocatable[snapshot.column(name), rows], 0)
        least = max(least, _fewest(domains, had, need))
    return least


def _fewest(domains: Codes, amounts: Counts, need: int) -> int:
    """How many of the largest domains have so much together; of what is in none, nothing counts."""
    sums = np.bincount(domains, weights=amounts)[1:]
    total = np.cumsum(-np.sort(-sums))
    return min(int(np.searchsorted(total, need * _ROUNDING)) + 1, len(total))


_ROUNDING = 1 - 1e-9
"""Sums of bytes over many nodes are not exact."""
