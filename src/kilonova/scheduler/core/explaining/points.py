"""Why a pod stands where it does: the points that each part of the score gave the node, and those
that it gave the next best."""

from dataclasses import dataclass

import numpy as np

from kilonova.scheduler.core.filters import Reason, reasons
from kilonova.scheduler.core.labels import Rows
from kilonova.scheduler.core.nearness import objections
from kilonova.scheduler.core.rooms import fitting
from kilonova.scheduler.core.scores import Scoring
from kilonova.scheduler.core.snapshot import Booking, Snapshot


@dataclass(frozen=True, slots=True)
class Points:
    """What one part gave, 0 to 100, and its weight."""

    part: str
    weight: float
    points: float


@dataclass(frozen=True, slots=True)
class NodeScore:
    """A node, the mean of its points by their weights, and the points."""

    node: str
    total: float
    points: tuple[Points, ...]


@dataclass(frozen=True, slots=True)
class PlacementScore:
    """The node of a pod, and the best of the others that had room for it then."""

    pod: str
    chosen: NodeScore
    runner_up: NodeScore | None
    left_out: tuple[str, ...]
    """Parts that failed, or gave no numbers, and did not count."""


def explain_placement(snapshot: Snapshot, booking: Booking, scoring: Scoring) -> PlacementScore:
    """Scores a pod where it stands as if it did not yet, and elsewhere. Nothing is changed."""
    mark = snapshot.mark()
    snapshot.release(booking.pod)
    try:
        chosen = _scored(snapshot, booking, scoring, booking.row)
        others = _open_rows(snapshot, booking)
        second: NodeScore | None = None
        if len(others):
            scores = scoring(snapshot, booking.shape, others)
            best = int(np.lexsort((snapshot.ranks[others], -scores))[0])
            second = _scored(snapshot, booking, scoring, int(others[best]))
    finally:
        snapshot.undo(mark)
    given = {points.part for points in chosen.points}
    left_out = tuple(part.name for part in scoring.parts if part.name not in given)
    return PlacementScore(booking.pod, chosen, second, left_out)


def _scored(snapshot: Snapshot, booking: Booking, scoring: Scoring, row: int) -> NodeScore:
    given = scoring.by_part(snapshot, booking.shape, row)
    weights = {part.name: part.weight for part in scoring.parts}
    points = tuple(Points(name, weights[name], each) for name, each in given.items())
    weight = sum(each.weight for each in points) or 1.0
    total = sum(each.weight * each.points for each in points) / weight
    return NodeScore(snapshot.names[row], total, points)


def _open_rows(snapshot: Snapshot, booking: Booking) -> Rows:
    """All rows with room but that on which the pod stands."""
    rows = np.flatnonzero(snapshot.alive[: snapshot.size])
    rows = rows[rows != booking.row]
    rows = rows[reasons(snapshot, booking.shape, rows) == Reason.FITS]
    against = objections(snapshot, booking.member)
    if against is not None:
        rows = rows[against[rows] == Reason.FITS]
    return rows[fitting(snapshot, booking.shape, rows) > 0]
