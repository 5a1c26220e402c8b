"""Node scores on the extender protocol's scale from 0 to 10. Pure.

kube-scheduler adds them to its own scores, so only differences count. The best node gets 10, and
the others lose one level for every few points of score: a small difference stays small, and a
relevant one is not rounded away.
"""

from collections.abc import Sequence

import numpy as np

from kilonova.scheduler.core.filters.feasibility import FeasibilityCache, ScoreFunction
from kilonova.scheduler.core.model.requests import Shape
from kilonova.scheduler.core.model.snapshot import Snapshot
from kilonova.scheduler.extender.messages import MAX_PRIORITY
from kilonova.scheduler.extender.node_filter import known_rows

_POINTS_PER_LEVEL = 2.5
"""Points of our scores (0 to 100) per level."""


def prioritize_nodes(
    snapshot: Snapshot,
    feasibility: FeasibilityCache,
    score: ScoreFunction,
    shape: Shape,
    node_names: Sequence[str],
) -> dict[str, int]:
    """A priority from 0 to 10 for each node; 0 if it is infeasible or unknown."""
    priorities = dict.fromkeys(node_names, 0)
    known, rows = known_rows(snapshot, node_names)
    feasible = np.flatnonzero(feasibility.free_capacity(shape)[rows] > 0)
    if len(feasible):
        scores = score(snapshot, shape, rows[feasible])
        levels_lost = np.rint((scores.max() - scores) / _POINTS_PER_LEVEL)
        levels = np.clip(MAX_PRIORITY - levels_lost, 0, MAX_PRIORITY).astype(np.int64)
        for at, level in zip(feasible.tolist(), levels.tolist(), strict=True):
            priorities[known[at]] = level
    return priorities
