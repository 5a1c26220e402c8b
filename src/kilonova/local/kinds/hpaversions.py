"""HorizontalPodAutoscalers between autoscaling/v1 and v2.

What v1 has no field for travels in annotations, so that writing v1 loses nothing.
"""

from typing import Any

import msgspec

from kilonova.api.json import JsonObject
from kilonova.local.kinds.walk import at, part

DEFAULT_UTILIZATION = 80
_PREFIX = "autoscaling.alpha.kubernetes.io/"
_METRICS = _PREFIX + "metrics"
_CURRENT = _PREFIX + "current-metrics"
_CONDITIONS = _PREFIX + "conditions"
_BEHAVIOR = _PREFIX + "behavior"


def cpu_metric(utilization: int) -> JsonObject:
    """The demand that v1 can express."""
    target = {"type": "Utilization", "averageUtilization": utilization}
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


def to_v2(obj: JsonObject) -> JsonObject:
    """From v1."""
    spec, status = dict(part(obj, "spec")), dict(part(obj, "status"))
    metadata, kept = _taken_annotations(part(obj, "metadata"))
    metrics: list[JsonObject] = list(kept.get(_METRICS) or ())
    utilization = spec.pop("targetCPUUtilizationPercentage", None)
    if utilization is not None:
        metrics.append(cpu_metric(utilization))
    spec["metrics"] = metrics or [cpu_metric(DEFAULT_UTILIZATION)]
    if _BEHAVIOR in kept:
        spec["behavior"] = kept[_BEHAVIOR]
    current = status.pop("currentCPUUtilizationPercentage", None)
    if _CURRENT in kept:
        status["currentMetrics"] = kept[_CURRENT]
    elif current is not None:
        resource = {"name": "cpu", "current": {"averageUtilization": current}}
        status["currentMetrics"] = [{"type": "Resource", "resource": resource}]
    if _CONDITIONS in kept:
        status["conditions"] = kept[_CONDITIONS]
    return {**obj, "metadata": metadata, "spec": spec, "status": status}


def from_v2(obj: JsonObject) -> JsonObject:
    """To v1."""
    spec, status = dict(part(obj, "spec")), dict(part(obj, "status"))
    metadata, _ = _taken_annotations(part(obj, "metadata"))
    others: list[JsonObject] = []
    for metric in spec.pop("metrics", None) or ():
        utilization = _cpu(metric, "target")
        if utilization is None:
            others.append(metric)
        else:
            spec.setdefault("targetCPUUtilizationPercentage", utilization)
    current = status.pop("currentMetrics", None)
    for metric in current or ():
        if (reached := _cpu(metric, "current")) is not None:
            status["currentCPUUtilizationPercentage"] = reached
    kept: JsonObject = {
        _METRICS: others,
        _CURRENT: current,
        _BEHAVIOR: spec.pop("behavior", None),
        _CONDITIONS: status.pop("conditions", None),
    }
    annotations = {
        name: msgspec.json.encode(value).decode() for name, value in kept.items() if value
    }
    if annotations:
        metadata["annotations"] = {**part(metadata, "annotations"), **annotations}
    return {**obj, "metadata": metadata, "spec": spec, "status": status}


def _cpu(metric: JsonObject, field: str) -> int | None:
    if metric.get("type") != "Resource" or at(metric, "resource", "name") != "cpu":
        return None
    return at(metric, "resource", field, "averageUtilization")


def _taken_annotations(metadata: JsonObject) -> tuple[JsonObject, dict[str, Any]]:
    """The metadata without the annotations of this conversion, and what those held."""
    ours = (_METRICS, _CURRENT, _CONDITIONS, _BEHAVIOR)
    annotations: JsonObject = dict(part(metadata, "annotations"))
    kept: dict[str, Any] = {}
    for name in ours:
        written = annotations.pop(name, None)
        if written is None:
            continue
        try:
            kept[name] = msgspec.json.decode(written)
        except msgspec.DecodeError:
            continue
    metadata = {**metadata, "annotations": annotations}
    if not annotations:
        del metadata["annotations"]
    return metadata, kept
