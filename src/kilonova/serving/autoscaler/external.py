"""The objects of other scalers: a HorizontalPodAutoscaler, or a ScaledObject of KEDA. Pure.

They decide by metrics of Prometheus. Requests in flight and held are metrics of our own process,
which knows of requests before there is a server: by them a ScaledObject leaves zero, which metrics
of servers never make it do.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil
from typing import Any

from kilonova.api.durations import parse_duration
from kilonova.api.json import JsonObject
from kilonova.api.serving import (
    Autoscaling,
    DemandTarget,
    ScalingRate,
    ServerGroup,
    SlaTarget,
    names,
)
from kilonova.api.serving.autoscaling import DEFAULT_SCALE_DOWN_STABILIZATION
from kilonova.kube import Resource
from kilonova.serving import resources
from kilonova.serving.autoscaler.metrics import HELD_METRIC, IN_FLIGHT_METRIC
from kilonova.serving.autoscaler.modes.sla import list_targets
from kilonova.serving.builders.identity import Identity
from kilonova.serving.gateway.stat_names import build_server_cluster

POLLING_SECONDS = 30
"""How often KEDA looks whether to leave zero: its default, and SuperSONIC's."""
_MAX_STABILIZATION_SECONDS = 3600
_MAX_PERIOD_SECONDS = 1800
"""Limits of the API of the HorizontalPodAutoscaler."""
_RATE_WINDOW = "1m"
_metric_name = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")


@dataclass(frozen=True, slots=True)
class ScalerObject:
    """The object of another scaler, and what of the declaration it cannot do."""

    resource: Resource[Any]
    body: JsonObject | None
    """None if nothing is left that it could decide by."""
    problems: tuple[str, ...] = ()


def build_scaler_object(
    identity: Identity, group: ServerGroup, target: Resource[Any], prometheus_url: str
) -> ScalerObject | None:
    """The object for a group, if another scaler decides; `target` is the kind of its servers."""
    scaling = group.autoscaling
    if scaling is None or scaling.scaler == "Builtin":
        return None
    name = names.build_server_set(identity.name, group.name)
    reference = {"apiVersion": target.api_version, "kind": target.kind, "name": name}
    metadata = identity.build_metadata(name, {names.SERVER: group.name})
    context = _Context(identity, group, scaling, prometheus_url)
    if scaling.scaler == "HorizontalPodAutoscaler":
        return _build_autoscaler(context, metadata, reference)
    return _build_scaled_object(context, metadata, reference)


@dataclass(frozen=True, slots=True)
class _Context:
    identity: Identity
    group: ServerGroup
    scaling: Autoscaling
    prometheus_url: str

    @property
    def field(self) -> str:
        return f"spec.servers[{self.group.name}].autoscaling"

    @property
    def labels(self) -> dict[str, str]:
        """The labels of our metrics of the group."""
        return {
            "namespace": self.identity.namespace,
            "service": self.identity.name,
            "server": self.group.name,
        }

    @property
    def demand(self) -> DemandTarget | None:
        """The target of demand, which is the default."""
        scaling = self.scaling
        is_default = scaling.metric is None and scaling.sla is None
        return scaling.demand or (DemandTarget() if is_default else None)


def _build_autoscaler(
    context: _Context, metadata: JsonObject, reference: JsonObject
) -> ScalerObject:
    scaling, problems = context.scaling, [*_list_unsupported(context)]
    metrics: list[JsonObject] = []
    if context.demand is not None:
        metrics.append(
            _build_external_metric(
                IN_FLIGHT_METRIC, context.labels, "averageValue", _find_capacity(context.demand)
            )
        )
    if scaling.metric is not None:
        kind = "averageValue" if scaling.metric.per_replica else "value"
        if _metric_name.fullmatch(scaling.metric.query):
            metrics.append(
                _build_external_metric(scaling.metric.query, {}, kind, scaling.metric.threshold)
            )
        else:
            problems.append(
                f"{context.field}.metric.query: a HorizontalPodAutoscaler takes the name of a "
                "metric and no expression: use the scaler ScaledObject"
            )
    if scaling.sla is not None:
        problems.append(f"{context.field}.sla: not possible with a HorizontalPodAutoscaler")
    if not scaling.min_replicas:
        problems.append(
            f"{context.field}.minReplicas: a HorizontalPodAutoscaler keeps one server: use the "
            "scaler ScaledObject or Builtin"
        )
    spec = {
        "scaleTargetRef": reference,
        "minReplicas": max(1, scaling.min_replicas),
        "maxReplicas": scaling.max_replicas,
        "behavior": _build_behavior(scaling),
        "metrics": metrics,
    }
    # Without metrics it would decide by CPU.
    body = {"metadata": metadata, "spec": spec} if metrics else None
    return ScalerObject(resources.HORIZONTAL_POD_AUTOSCALERS, body, tuple(problems))


def _build_external_metric(
    name: str, labels: dict[str, str], kind: str, threshold: float
) -> JsonObject:
    selector = {"selector": {"matchLabels": labels}} if labels else {}
    target = {
        "type": kind[0].upper() + kind[1:],
        kind: _format_quantity(threshold),
    }
    return {
        "type": "External",
        "external": {"metric": {"name": name, **selector}, "target": target},
    }


def _build_scaled_object(
    context: _Context, metadata: JsonObject, reference: JsonObject
) -> ScalerObject:
    scaling, problems = context.scaling, [*_list_unsupported(context)]
    triggers = [*_list_triggers(context)]
    addresses = [each["metadata"]["serverAddress"] for each in triggers]
    if not all(addresses):
        problems.append(
            f"{context.field}.metric.prometheus: name a Prometheus here or in the settings of the "
            "installation: a ScaledObject reads its metrics"
        )
    spec: JsonObject = {
        "scaleTargetRef": reference,
        "pollingInterval": POLLING_SECONDS,
        "cooldownPeriod": ceil(parse_duration(scaling.scale_to_zero.idle_after)),
        "minReplicaCount": max(1, scaling.min_replicas),
        "maxReplicaCount": scaling.max_replicas,
        # KEDA leaves zero, or goes there, beside the HorizontalPodAutoscaler that it makes.
        **({} if scaling.min_replicas else {"idleReplicaCount": 0}),
        "advanced": {"horizontalPodAutoscalerConfig": {"behavior": _build_behavior(scaling)}},
        "triggers": triggers,
    }
    body = {"metadata": metadata, "spec": spec} if all(addresses) else None
    return ScalerObject(resources.SCALED_OBJECTS, body, tuple(problems))


def _list_triggers(context: _Context) -> Iterator[JsonObject]:
    scaling, url = context.scaling, context.prometheus_url
    if context.demand is not None:
        labels = ",".join(f'{name}="{value}"' for name, value in context.labels.items())
        query = (
            f"(sum({IN_FLIGHT_METRIC}{{{labels}}}) or vector(0)) + "
            f"(sum({HELD_METRIC}{{{labels}}}) or vector(0))"
        )
        yield _build_trigger(url, query, _find_capacity(context.demand), "AverageValue")
    if scaling.metric is not None:
        metric = scaling.metric
        kind = "AverageValue" if metric.per_replica else "Value"
        yield _build_trigger(metric.prometheus or url, metric.query, metric.threshold, kind)
    if scaling.sla is not None:
        for query, threshold in _list_quantiles(context, scaling.sla):
            yield _build_trigger(url, query, threshold, "Value")


def _list_quantiles(context: _Context, sla: SlaTarget) -> Iterator[tuple[str, float]]:
    """The expressions of latencies, and their targets in the same unit."""
    service, group = context.identity.name, context.group.name
    servers = names.build_server_set(service, group)
    selectors = {
        "latency": f'envoy_cluster_name="{build_server_cluster(group)}",'
        f'pod=~"{names.build_gateway(service)}-.*"',
    }
    series = {
        "latency": ("envoy_cluster_upstream_rq_time_bucket", 1000.0),
        "queue": ("vllm:request_queue_time_seconds_bucket", 1.0),
        "first_token": ("vllm:time_to_first_token_seconds_bucket", 1.0),
        "inter_token": ("vllm:inter_token_latency_seconds_bucket", 1.0),
    }
    for objective, seconds in list_targets(sla):
        name, scale = series[objective]
        selector = selectors.get(objective, f'pod=~"{servers}-.*"')
        selector = f'namespace="{context.identity.namespace}",{selector}'
        rate = f"sum by (le) (rate({name}{{{selector}}}[{_RATE_WINDOW}]))"
        yield f"histogram_quantile({sla.percentile / 100:g}, {rate})", seconds * scale


def _build_trigger(url: str, query: str, threshold: float, kind: str) -> JsonObject:
    metadata = {"serverAddress": url, "query": query, "threshold": f"{threshold:g}"}
    return {"type": "prometheus", "metricType": kind, "metadata": metadata}


def _list_unsupported(context: _Context) -> Iterator[str]:
    if context.scaling.schedule:
        yield f"{context.field}.schedule: only the scaler Builtin follows a schedule"


def _build_behavior(scaling: Autoscaling) -> JsonObject:
    return {
        "scaleUp": _build_rules(scaling.scale_up, "0s"),
        "scaleDown": _build_rules(scaling.scale_down, DEFAULT_SCALE_DOWN_STABILIZATION),
    }


def _build_rules(rate: ScalingRate, default: str) -> JsonObject:
    """Without a rate there is no limit, as with our scaler."""
    policy = (
        {"type": "Percent", "value": 1000, "periodSeconds": 15}
        if rate.max_replicas is None
        else {
            "type": "Pods",
            "value": rate.max_replicas,
            "periodSeconds": min(_MAX_PERIOD_SECONDS, max(1, ceil(parse_duration(rate.period)))),
        }
    )
    seconds = ceil(parse_duration(rate.stabilization or default))
    return {
        "stabilizationWindowSeconds": min(_MAX_STABILIZATION_SECONDS, seconds),
        "policies": [policy],
    }


def _find_capacity(demand: DemandTarget) -> float:
    return demand.in_flight_per_replica * demand.utilization


def _format_quantity(value: float) -> str:
    """A quantity of Kubernetes: whole, or in thousandths."""
    return f"{value:.0f}" if value == round(value) else f"{round(value * 1000)}m"
