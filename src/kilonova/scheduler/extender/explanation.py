"""The result of scheduling a pod now, with the score of every plugin; nothing is changed.

{"pod": "default/train", "nodes": [{"node": "gpu-3", "priority": 10, "score": 81.2,
 "pluginScores": {"topology": 100.0, "fit": 62.5, "balance": 77.0}, "devices": "0,1"}],
 "feasible": 12, "failed": {"Insufficient nvidia.com/gpu": 7},
 "unresolvable": {"node(s) had untolerated …": 1}}
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from kilonova.api.gpu.annotations import DEVICES
from kilonova.scheduler.convert.gangs.podgangs import GangNotReady
from kilonova.scheduler.convert.gpus import encode_devices
from kilonova.scheduler.core.filters.feasibility import FeasibilityCache
from kilonova.scheduler.core.gpu.assignment import assign_devices
from kilonova.scheduler.core.model.snapshot import Snapshot
from kilonova.scheduler.core.scoring.plugins import Scoring
from kilonova.scheduler.extender.node_filter import convert_requested_pod, filter_nodes, known_rows
from kilonova.scheduler.extender.priorities import prioritize_nodes
from kilonova.scheduler.objects.core_v1 import Pod


def explain(
    snapshot: Snapshot, feasibility: FeasibilityCache, scoring: Scoring, pod: Pod, limit: int
) -> dict[str, Any]:
    """The best nodes for a pod, at most `limit`, with their plugin scores, and the number of
    rejected nodes by reason."""
    report: dict[str, Any] = {"pod": pod.key}
    if pod.spec.node_name:
        report["boundTo"] = pod.spec.node_name
        report["devices"] = pod.metadata.annotations.get(DEVICES, "")
        return report
    member = convert_requested_pod(pod)
    if isinstance(member, GangNotReady):
        return {**report, "problem": member.message}
    shape = member.shape
    result = filter_nodes(snapshot, feasibility, shape, [node.name for node in snapshot.nodes()])
    _, rows = known_rows(snapshot, result.feasible)
    scores = dict(zip(result.feasible, scoring(snapshot, shape, rows).tolist(), strict=True))
    priorities = prioritize_nodes(snapshot, feasibility, scoring, shape, result.feasible)
    best = sorted(result.feasible, key=lambda name: (-scores[name], name))[:limit]
    return {
        **report,
        "nodes": [
            {
                "node": name,
                "priority": priorities[name],
                "score": round(scores[name], 2),
                "pluginScores": _round_scores(
                    scoring.scores_by_plugin(snapshot, shape, snapshot.row(name))
                ),
                "devices": encode_devices(
                    assign_devices(snapshot, snapshot.row(name), shape, 1)[0]
                ),
            }
            for name in best
        ],
        "feasible": len(result.feasible),
        "failed": dict(Counter(result.failed.values())),
        "unresolvable": dict(Counter(result.unresolvable.values())),
        "failedPlugins": dict(scoring.failed_plugins),
    }


def _round_scores(scores: Mapping[str, float]) -> dict[str, float]:
    return {name: round(score, 2) for name, score in scores.items()}
