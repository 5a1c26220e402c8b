"""What would be decided about a pod now, part by part: for people who wonder. Nothing is changed.

{"pod": "default/train", "nodes": [{"node": "gpu-3", "level": 10, "score": 81.2,
 "parts": {"topology": 100.0, "fit": 62.5, "balance": 77.0}, "devices": "0,1"}], "fitting": 12,
 "failed": {"Insufficient nvidia.com/gpu": 7}, "unresolvable": {"node(s) had untolerated …": 1}}
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from kilonova.api.gpus import DEVICES
from kilonova.scheduler.core.giving import devices_for
from kilonova.scheduler.core.rooms import Rooms
from kilonova.scheduler.core.scores import Scoring
from kilonova.scheduler.core.snapshot import Snapshot
from kilonova.scheduler.extender.judging import judge, known_rows, member_asked
from kilonova.scheduler.extender.levels import levels
from kilonova.scheduler.objects import Pod
from kilonova.scheduler.reading.gangs import NotYet
from kilonova.scheduler.reading.gpus import devices_text


def explain(
    snapshot: Snapshot, rooms: Rooms, scoring: Scoring, pod: Pod, most: int
) -> dict[str, Any]:
    """The best nodes for a pod, at most so many, with the parts of their scores; of the others how
    many will not do, by reason."""
    said: dict[str, Any] = {"pod": pod.key}
    if pod.spec.node_name:
        said["boundTo"] = pod.spec.node_name
        said["devices"] = pod.metadata.annotations.get(DEVICES, "")
        return said
    member = member_asked(pod)
    if isinstance(member, NotYet):
        return {**said, "problem": member.message}
    shape = member.shape
    judgement = judge(snapshot, rooms, shape, [node.name for node in snapshot.nodes()])
    _, rows = known_rows(snapshot, judgement.passed)
    scores = dict(zip(judgement.passed, scoring(snapshot, shape, rows).tolist(), strict=True))
    given = levels(snapshot, rooms, scoring, shape, judgement.passed)
    best = sorted(judgement.passed, key=lambda name: (-scores[name], name))[:most]
    return {
        **said,
        "nodes": [
            {
                "node": name,
                "level": given[name],
                "score": round(scores[name], 2),
                "parts": _parts(scoring.by_part(snapshot, shape, snapshot.row(name))),
                "devices": devices_text(devices_for(snapshot, snapshot.row(name), shape, 1)[0]),
            }
            for name in best
        ],
        "fitting": len(judgement.passed),
        "failed": dict(Counter(judgement.failed.values())),
        "unresolvable": dict(Counter(judgement.unresolvable.values())),
        "broken": dict(scoring.broken),
    }


def _parts(parts: Mapping[str, float]) -> dict[str, float]:
    return {name: round(score, 2) for name, score in parts.items()}
