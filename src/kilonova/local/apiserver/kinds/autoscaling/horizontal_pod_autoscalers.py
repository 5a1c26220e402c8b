"""HorizontalPodAutoscalers: stored as autoscaling/v2, also served as v1."""

from typing import Any

from kilonova.api.json import JsonObject
from kilonova.local.apimachinery.errors import FieldError, invalid_value, required_value
from kilonova.local.apimachinery.unstructured import (
    ensure_object,
    nested_object,
    nested_objects,
    nested_value,
)
from kilonova.local.apiserver.kinds.autoscaling.conversion import (
    DEFAULT_UTILIZATION,
    convert_v1_to_v2,
    convert_v2_to_v1,
    cpu_metric,
)
from kilonova.local.apiserver.kinds.columns import AGE, NAME, number_column, text_column
from kilonova.local.apiserver.kinds.kind import PrinterColumn
from kilonova.local.apiserver.kinds.strategy import (
    BuiltinStrategy,
    StorageVersion,
    register_strategy,
)

_UNKNOWN = "<unknown>"


def _format_percent(value: Any) -> str | None:
    return None if value is None else f"{value}%"


def _format_metric(metric: JsonObject, status: JsonObject) -> str:
    """One metric as `current/target`, a resource metric with its name."""
    source = metric.get("type", "")
    field = source[:1].lower() + source[1:]
    spec = metric.get(field)
    if spec is None:
        return "<unknown type>"
    target: JsonObject = nested_object(spec, "target")
    current: JsonObject = nested_object(status, field, "current")
    if source in ("Resource", "ContainerResource"):
        if target.get("averageValue") is not None:
            pair = f"{current.get('averageValue', _UNKNOWN)}/{target['averageValue']}"
        else:
            observed = _format_percent(current.get("averageUtilization")) or _UNKNOWN
            pair = f"{observed}/{_format_percent(target.get('averageUtilization')) or '<auto>'}"
        return f"{spec.get('name')}: {pair}"
    if source == "Pods":
        return f"{current.get('averageValue', _UNKNOWN)}/{target.get('averageValue')}"
    if target.get("averageValue") is not None:
        return f"{current.get('averageValue', _UNKNOWN)}/{target['averageValue']} (avg)"
    return f"{current.get('value', _UNKNOWN)}/{target.get('value')}"


def _targets(obj: JsonObject) -> str:
    metrics = nested_objects(obj, "spec", "metrics")
    if not metrics:
        return "<none>"
    statuses = nested_objects(obj, "status", "currentMetrics")
    formatted = [
        _format_metric(metric, statuses[index] if index < len(statuses) else {})
        for index, metric in enumerate(metrics[:2])
    ]
    suffix = f" + {len(metrics) - 2} more..." if len(metrics) > 2 else ""
    return ", ".join(formatted) + suffix


def _reference(obj: JsonObject) -> str:
    target = nested_object(obj, "spec", "scaleTargetRef")
    return f"{target.get('kind', '')}/{target.get('name', '')}"


_COLUMNS = (
    NAME,
    PrinterColumn("Reference", "string", lambda obj, _: _reference(obj)),
    PrinterColumn("Targets", "string", lambda obj, _: _targets(obj)),
    text_column("MinPods", "spec", "minReplicas", missing="<unset>"),
    number_column("MaxPods", "spec", "maxReplicas", type="string"),
    number_column("Replicas", "status", "currentReplicas", type="string"),
    AGE,
)


@register_strategy("autoscaling", "HorizontalPodAutoscaler", "v2")
class HorizontalPodAutoscalerStrategy(BuiltinStrategy):
    """Scales a target by metrics."""

    columns = _COLUMNS

    def set_defaults(self, obj: JsonObject) -> None:
        spec = ensure_object(obj, "spec")
        spec.setdefault("minReplicas", 1)
        if not spec.get("metrics"):
            spec["metrics"] = [cpu_metric(DEFAULT_UTILIZATION)]
        if (behavior := spec.get("behavior")) is not None:
            _set_scaling_rule_defaults(ensure_object(behavior, "scaleUp"), scale_up=True)
            _set_scaling_rule_defaults(ensure_object(behavior, "scaleDown"), scale_up=False)

    def validate_fields(self, obj: JsonObject) -> list[FieldError]:
        spec = nested_object(obj, "spec")
        problems: list[FieldError] = []
        for field in ("kind", "name"):
            if not nested_value(spec, "scaleTargetRef", field):
                problems.append(required_value(f"spec.scaleTargetRef.{field}"))
        target = nested_value(spec, "scaleTargetRef", "apiVersion") or ""
        if "/" not in target:
            detail = "apiVersion must specify API group"
            problems.append(invalid_value("spec.scaleTargetRef.apiVersion", target, detail))
        minimum, maximum = spec.get("minReplicas"), spec.get("maxReplicas") or 0
        if minimum is not None and minimum < 1:
            detail = "must be greater than or equal to 1"
            problems.append(invalid_value("spec.minReplicas", minimum, detail))
        if maximum < 1:
            problems.append(required_value("spec.maxReplicas", "must be set and greater than 0"))
        if minimum is not None and maximum < minimum:
            detail = "must be greater than or equal to `minReplicas`"
            problems.append(invalid_value("spec.maxReplicas", maximum, detail))
        return problems


@register_strategy("autoscaling", "HorizontalPodAutoscaler", "v1")
class HorizontalPodAutoscalerV1Strategy(HorizontalPodAutoscalerStrategy):
    """The v1 version, which has CPU utilization only."""

    storage = StorageVersion("autoscaling", convert_v1_to_v2, convert_v2_to_v1)
    columns = tuple(
        PrinterColumn(
            column.name,
            column.type,
            (lambda value: lambda obj, now: value(convert_v1_to_v2(obj), now))(column.value),
            column.format,
        )
        for column in _COLUMNS
    )

    def set_defaults(self, obj: JsonObject) -> None:
        ensure_object(obj, "spec").setdefault("minReplicas", 1)


def _set_scaling_rule_defaults(rules: JsonObject, *, scale_up: bool) -> None:
    percent = {"type": "Percent", "value": 100, "periodSeconds": 15}
    if scale_up:
        rules.setdefault("stabilizationWindowSeconds", 0)
        policies = [{"type": "Pods", "value": 4, "periodSeconds": 15}, percent]
    else:
        policies = [percent]
    rules.setdefault("selectPolicy", "Max")
    rules.setdefault("policies", policies)
