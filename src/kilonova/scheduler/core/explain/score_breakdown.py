"""Why a pod is on its node: the score of the node by plugin, and that of the next best node."""

from dataclasses import dataclass

import numpy as np

from kilonova.scheduler.core.filters.feasibility import count_fitting
from kilonova.scheduler.core.filters.inter_pod_rules import inter_pod_rejections
from kilonova.scheduler.core.filters.node_filters import FilterReason, filter_nodes
from kilonova.scheduler.core.model.label_columns import Rows
from kilonova.scheduler.core.model.pod_placement import PodPlacement
from kilonova.scheduler.core.model.snapshot import Snapshot
from kilonova.scheduler.core.scoring.plugins import Scoring


@dataclass(frozen=True, slots=True)
class PluginScore:
    """The score of one plugin, 0 to 100, and its weight."""

    plugin: str
    weight: float
    score: float


@dataclass(frozen=True, slots=True)
class NodeScore:
    """A node, the weighted mean of its scores, and the scores."""

    node: str
    total: float
    plugin_scores: tuple[PluginScore, ...]


@dataclass(frozen=True, slots=True)
class PodPlacementScore:
    """The node of a pod, and the best other node that was feasible for it."""

    pod: str
    chosen: NodeScore
    runner_up: NodeScore | None
    failed_plugins: tuple[str, ...]
    """Plugins that failed, or returned no numbers, and did not count."""


def explain_placement(
    snapshot: Snapshot, placement: PodPlacement, scoring: Scoring
) -> PodPlacementScore:
    """Scores the node of a pod as if the pod were not placed yet, and the next best one. Nothing
    changes."""
    trial = snapshot.begin_trial()
    snapshot.remove_pod(placement.pod)
    try:
        chosen = _score_node(snapshot, placement, scoring, placement.row)
        others = _find_feasible_rows(snapshot, placement)
        second: NodeScore | None = None
        if len(others):
            scores = scoring(snapshot, placement.shape, others)
            best = int(np.lexsort((snapshot.ranks[others], -scores))[0])
            second = _score_node(snapshot, placement, scoring, int(others[best]))
    finally:
        snapshot.rollback(trial)
    given = {plugin_score.plugin for plugin_score in chosen.plugin_scores}
    failed = tuple(plugin.name for plugin in scoring.plugins if plugin.name not in given)
    return PodPlacementScore(placement.pod, chosen, second, failed)


def _score_node(
    snapshot: Snapshot, placement: PodPlacement, scoring: Scoring, row: int
) -> NodeScore:
    given = scoring.scores_by_plugin(snapshot, placement.shape, row)
    weights = {plugin.name: plugin.weight for plugin in scoring.plugins}
    scores = tuple(PluginScore(name, weights[name], each) for name, each in given.items())
    weight = sum(each.weight for each in scores) or 1.0
    total = sum(each.weight * each.score for each in scores) / weight
    return NodeScore(snapshot.names[row], total, scores)


def _find_feasible_rows(snapshot: Snapshot, placement: PodPlacement) -> Rows:
    """All feasible rows except that of the pod."""
    rows = np.flatnonzero(snapshot.alive[: snapshot.size])
    rows = rows[rows != placement.row]
    rows = rows[filter_nodes(snapshot, placement.shape, rows) == FilterReason.FITS]
    rejections = inter_pod_rejections(snapshot, placement.member)
    if rejections is not None:
        rows = rows[rejections[rows] == FilterReason.FITS]
    return rows[count_fitting(snapshot, placement.shape, rows) > 0]
