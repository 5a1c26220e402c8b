"""What pods and nodes prefer and do not insist on, as one part of a node's score."""

import numpy as np

from kilonova.scheduler.core.asks import Shape
from kilonova.scheduler.core.filters import reluctance
from kilonova.scheduler.core.labels import Rows
from kilonova.scheduler.core.nearness import attraction, evenness
from kilonova.scheduler.core.rooms import Scores
from kilonova.scheduler.core.snapshot import Snapshot

_BEST = 100.0


def wishes(snapshot: Snapshot, shape: Shape, rows: Rows) -> Scores:
    """How far all wishes are fulfilled, each kind of them counting the same: preferred node
    affinity, taints that would rather not have the pod, pods that it likes, soft spreads. 100
    where nobody wishes for anything."""
    found = [_welcome(snapshot, shape, rows)]
    if shape.preferred:
        found.append(_preferred(snapshot, shape, rows))
    if shape.peers is not None and shape.peers.liked:
        found.append(attraction(snapshot, shape, rows))
    if shape.peers is not None and not all(each.required for each in shape.peers.spreads):
        found.append(evenness(snapshot, shape, rows))
    total = found[0]
    for each in found[1:]:
        total = total + each
    return total / len(found)


def _welcome(snapshot: Snapshot, shape: Shape, rows: Rows) -> Scores:
    """How few taints would rather not have the pod."""
    if not any(each.effect == "PreferNoSchedule" for some in snapshot.taint_sets for each in some):
        return np.full(len(rows), _BEST)
    return _BEST / (1.0 + reluctance(snapshot, shape, rows).astype(np.float64))


def _preferred(snapshot: Snapshot, shape: Shape, rows: Rows) -> Scores:
    """Which part of the preferred node affinity holds, by weight."""
    held = np.zeros(len(rows))
    for weight, term in shape.preferred:
        held += weight * snapshot.labels.holds(term, rows)
    return _BEST * held / max(1, sum(weight for weight, _ in shape.preferred))
