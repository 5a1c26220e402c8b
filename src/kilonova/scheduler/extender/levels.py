"""How good nodes are, in the eleven levels that the protocol knows. Pure.

What kube-scheduler adds to its own scores are differences. So the best node gets all of them, and
the others lose one for every few points of their score: a small difference stays small, and one
that matters is not rounded away.
"""

from collections.abc import Sequence

import numpy as np

from kilonova.scheduler.core.asks import Shape
from kilonova.scheduler.core.rooms import Rooms, Score
from kilonova.scheduler.core.snapshot import Snapshot
from kilonova.scheduler.extender.judging import known_rows
from kilonova.scheduler.extender.wire import MOST

_POINTS = 2.5
"""Of our scores, 0 to 100, in one level."""


def levels(
    snapshot: Snapshot, rooms: Rooms, score: Score, shape: Shape, names: Sequence[str]
) -> dict[str, int]:
    """0 to 10 for each node; 0 where there is no room, or nobody knows the node."""
    found = dict.fromkeys(names, 0)
    known, rows = known_rows(snapshot, names)
    able = np.flatnonzero(rooms.room(shape)[rows] > 0)
    if len(able):
        scores = score(snapshot, shape, rows[able])
        lost = np.rint((scores.max() - scores) / _POINTS)
        given = np.clip(MOST - lost, 0, MOST).astype(np.int64)
        for at, level in zip(able.tolist(), given.tolist(), strict=True):
            found[known[at]] = level
    return found
