"""The `preferences` score plugin: soft constraints of pods and nodes."""

import numpy as np

from kilonova.scheduler.core.filters.feasibility import Scores
from kilonova.scheduler.core.filters.inter_pod_rules import (
    affinity_preference_scores,
    spread_preference_scores,
)
from kilonova.scheduler.core.filters.node_filters import count_prefer_no_schedule
from kilonova.scheduler.core.model.label_columns import Rows
from kilonova.scheduler.core.model.requests import Shape
from kilonova.scheduler.core.model.snapshot import Snapshot

_BEST = 100.0


def preference_score(snapshot: Snapshot, shape: Shape, rows: Rows) -> Scores:
    """The mean over the kinds of soft constraints: PreferNoSchedule taints, preferred node
    affinity, preferred pod affinity and anti-affinity, preferred topology spread. 100 without any
    of them."""
    found = [_taint_preference_score(snapshot, shape, rows)]
    if shape.preferred_node_terms:
        found.append(_node_affinity_score(snapshot, shape, rows))
    if shape.pod_rules is not None and shape.pod_rules.preferred:
        found.append(affinity_preference_scores(snapshot, shape, rows))
    if shape.pod_rules is not None and not all(
        each.required for each in shape.pod_rules.topology_spread
    ):
        found.append(spread_preference_scores(snapshot, shape, rows))
    total = found[0]
    for each in found[1:]:
        total = total + each
    return total / len(found)


def _taint_preference_score(snapshot: Snapshot, shape: Shape, rows: Rows) -> Scores:
    """Decreases with the number of PreferNoSchedule taints that the pod does not tolerate."""
    if not any(each.effect == "PreferNoSchedule" for some in snapshot.taint_sets for each in some):
        return np.full(len(rows), _BEST)
    return _BEST / (1.0 + count_prefer_no_schedule(snapshot, shape, rows).astype(np.float64))


def _node_affinity_score(snapshot: Snapshot, shape: Shape, rows: Rows) -> Scores:
    """The fraction of the preferred node affinity that matches, by weight."""
    held = np.zeros(len(rows))
    for weight, term in shape.preferred_node_terms:
        held += weight * snapshot.labels.matches(term, rows)
    return _BEST * held / max(1, sum(weight for weight, _ in shape.preferred_node_terms))
