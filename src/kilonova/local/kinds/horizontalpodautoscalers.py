"""HorizontalPodAutoscalers: stored as autoscaling/v2, served as v1 as well."""

from typing import Any

from kilonova.api.json import JsonObject
from kilonova.local.errors import Problem, invalid_value, required
from kilonova.local.kinds.base import Column
from kilonova.local.kinds.columns import AGE, NAME, number, text
from kilonova.local.kinds.hpaversions import DEFAULT_UTILIZATION, cpu_metric, from_v2, to_v2
from kilonova.local.kinds.strategy import Storage, Strategy, strategy
from kilonova.local.kinds.walk import at, inside, objects, part

_UNKNOWN = "<unknown>"


def _percent(value: Any) -> str | None:
    return None if value is None else f"{value}%"


def _measured(metric: JsonObject, status: JsonObject) -> str:
    """One metric as `current/target`, resources with their name before it."""
    source = metric.get("type", "")
    field = source[:1].lower() + source[1:]
    spec = metric.get(field)
    if spec is None:
        return "<unknown type>"
    target: JsonObject = part(spec, "target")
    current: JsonObject = part(status, field, "current")
    if source in ("Resource", "ContainerResource"):
        if target.get("averageValue") is not None:
            pair = f"{current.get('averageValue', _UNKNOWN)}/{target['averageValue']}"
        else:
            reached = _percent(current.get("averageUtilization")) or _UNKNOWN
            pair = f"{reached}/{_percent(target.get('averageUtilization')) or '<auto>'}"
        return f"{spec.get('name')}: {pair}"
    if source == "Pods":
        return f"{current.get('averageValue', _UNKNOWN)}/{target.get('averageValue')}"
    if target.get("averageValue") is not None:
        return f"{current.get('averageValue', _UNKNOWN)}/{target['averageValue']} (avg)"
    return f"{current.get('value', _UNKNOWN)}/{target.get('value')}"


def _targets(obj: JsonObject) -> str:
    metrics = objects(obj, "spec", "metrics")
    if not metrics:
        return "<none>"
    statuses = objects(obj, "status", "currentMetrics")
    shown = [
        _measured(metric, statuses[index] if index < len(statuses) else {})
        for index, metric in enumerate(metrics[:2])
    ]
    more = f" + {len(metrics) - 2} more..." if len(metrics) > 2 else ""
    return ", ".join(shown) + more


def _reference(obj: JsonObject) -> str:
    target = part(obj, "spec", "scaleTargetRef")
    return f"{target.get('kind', '')}/{target.get('name', '')}"


_COLUMNS = (
    NAME,
    Column("Reference", "string", lambda obj, _: _reference(obj)),
    Column("Targets", "string", lambda obj, _: _targets(obj)),
    text("MinPods", "spec", "minReplicas", missing="<unset>"),
    number("MaxPods", "spec", "maxReplicas", type="string"),
    number("Replicas", "status", "currentReplicas", type="string"),
    AGE,
)


@strategy("autoscaling", "HorizontalPodAutoscaler", "v2")
class HorizontalPodAutoscalers(Strategy):
    """As many pods as the metrics ask for."""

    columns = _COLUMNS

    def fill(self, obj: JsonObject) -> None:
        spec = inside(obj, "spec")
        spec.setdefault("minReplicas", 1)
        if not spec.get("metrics"):
            spec["metrics"] = [cpu_metric(DEFAULT_UTILIZATION)]
        if (behavior := spec.get("behavior")) is not None:
            _fill_rules(inside(behavior, "scaleUp"), up=True)
            _fill_rules(inside(behavior, "scaleDown"), up=False)

    def problems(self, obj: JsonObject) -> list[Problem]:
        spec = part(obj, "spec")
        problems: list[Problem] = []
        for field in ("kind", "name"):
            if not at(spec, "scaleTargetRef", field):
                problems.append(required(f"spec.scaleTargetRef.{field}"))
        target = at(spec, "scaleTargetRef", "apiVersion") or ""
        if "/" not in target:
            detail = "apiVersion must specify API group"
            problems.append(invalid_value("spec.scaleTargetRef.apiVersion", target, detail))
        least, most = spec.get("minReplicas"), spec.get("maxReplicas") or 0
        if least is not None and least < 1:
            detail = "must be greater than or equal to 1"
            problems.append(invalid_value("spec.minReplicas", least, detail))
        if most < 1:
            problems.append(required("spec.maxReplicas", "must be set and greater than 0"))
        if least is not None and most < least:
            detail = "must be greater than or equal to `minReplicas`"
            problems.append(invalid_value("spec.maxReplicas", most, detail))
        return problems


@strategy("autoscaling", "HorizontalPodAutoscaler", "v1")
class OldHorizontalPodAutoscalers(HorizontalPodAutoscalers):
    """The version that knows CPU only."""

    storage = Storage("autoscaling", to_v2, from_v2)
    columns = tuple(
        Column(
            column.name,
            column.type,
            (lambda value: lambda obj, now: value(to_v2(obj), now))(column.value),
            column.format,
        )
        for column in _COLUMNS
    )

    def fill(self, obj: JsonObject) -> None:
        inside(obj, "spec").setdefault("minReplicas", 1)


def _fill_rules(rules: JsonObject, *, up: bool) -> None:
    percent = {"type": "Percent", "value": 100, "periodSeconds": 15}
    if up:
        rules.setdefault("stabilizationWindowSeconds", 0)
        policies = [{"type": "Pods", "value": 4, "periodSeconds": 15}, percent]
    else:
        policies = [percent]
    rules.setdefault("selectPolicy", "Max")
    rules.setdefault("policies", policies)
