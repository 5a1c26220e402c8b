"""Conversion of HorizontalPodAutoscalers between autoscaling/v1 and v2.

As in Kubernetes, fields that v1 lacks are stored in annotations, so that a write in v1 loses
nothing.
"""

from typing import Any

import msgspec

from kilonova.api.json import JsonObject
from kilonova.local.apimachinery.unstructured import nested_object, nested_value

DEFAULT_UTILIZATION = 80
_PREFIX = "autoscaling.alpha.kubernetes.io/"
_METRICS = _PREFIX + "metrics"
_CURRENT = _PREFIX + "current-metrics"
_CONDITIONS = _PREFIX + "conditions"
_BEHAVIOR = _PREFIX + "behavior"


def cpu_metric(utilization: int) -> JsonObject:
    """The only metric that v1 has."""
    target = {"type": "Utilization", "averageUtilization": utilization}
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


def convert_v1_to_v2(obj: JsonObject) -> JsonObject:
    """Convert from v1."""
    spec, status = dict(nested_object(obj, "spec")), dict(nested_object(obj, "status"))
    metadata, stored = _extract_annotations(nested_object(obj, "metadata"))
    metrics: list[JsonObject] = list(stored.get(_METRICS) or ())
    utilization = spec.pop("targetCPUUtilizationPercentage", None)
    if utilization is not None:
        metrics.append(cpu_metric(utilization))
    spec["metrics"] = metrics or [cpu_metric(DEFAULT_UTILIZATION)]
    if _BEHAVIOR in stored:
        spec["behavior"] = stored[_BEHAVIOR]
    current = status.pop("currentCPUUtilizationPercentage", None)
    if _CURRENT in stored:
        status["currentMetrics"] = stored[_CURRENT]
    elif current is not None:
        resource = {"name": "cpu", "current": {"averageUtilization": current}}
        status["currentMetrics"] = [{"type": "Resource", "resource": resource}]
    if _CONDITIONS in stored:
        status["conditions"] = stored[_CONDITIONS]
    return {**obj, "metadata": metadata, "spec": spec, "status": status}


def convert_v2_to_v1(obj: JsonObject) -> JsonObject:
    """Convert to v1."""
    spec, status = dict(nested_object(obj, "spec")), dict(nested_object(obj, "status"))
    metadata, _ = _extract_annotations(nested_object(obj, "metadata"))
    others: list[JsonObject] = []
    for metric in spec.pop("metrics", None) or ():
        utilization = _cpu_utilization(metric, "target")
        if utilization is None:
            others.append(metric)
        else:
            spec.setdefault("targetCPUUtilizationPercentage", utilization)
    current = status.pop("currentMetrics", None)
    for metric in current or ():
        if (observed := _cpu_utilization(metric, "current")) is not None:
            status["currentCPUUtilizationPercentage"] = observed
    stored: JsonObject = {
        _METRICS: others,
        _CURRENT: current,
        _BEHAVIOR: spec.pop("behavior", None),
        _CONDITIONS: status.pop("conditions", None),
    }
    annotations = {
        name: msgspec.json.encode(value).decode() for name, value in stored.items() if value
    }
    if annotations:
        metadata["annotations"] = {**nested_object(metadata, "annotations"), **annotations}
    return {**obj, "metadata": metadata, "spec": spec, "status": status}


def _cpu_utilization(metric: JsonObject, field: str) -> int | None:
    if metric.get("type") != "Resource" or nested_value(metric, "resource", "name") != "cpu":
        return None
    return nested_value(metric, "resource", field, "averageUtilization")


def _extract_annotations(metadata: JsonObject) -> tuple[JsonObject, dict[str, Any]]:
    """The metadata without this conversion's annotations, and the values of these."""
    names = (_METRICS, _CURRENT, _CONDITIONS, _BEHAVIOR)
    annotations: JsonObject = dict(nested_object(metadata, "annotations"))
    stored: dict[str, Any] = {}
    for name in names:
        text = annotations.pop(name, None)
        if text is None:
            continue
        try:
            stored[name] = msgspec.json.decode(text)
        except msgspec.DecodeError:
            continue
    metadata = {**metadata, "annotations": annotations}
    if not annotations:
        del metadata["annotations"]
    return metadata, stored
