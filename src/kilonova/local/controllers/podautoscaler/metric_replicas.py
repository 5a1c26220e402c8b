"""The number of replicas for one metric, and the metric's current status."""

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from datetime import datetime

from kilonova.api.json import JsonObject
from kilonova.api.quantity import Format, Quantity
from kilonova.local.controllers.podautoscaler.metrics_client import MetricsReader, format_selector
from kilonova.local.controllers.podautoscaler.objects import (
    Metric,
    MetricSource,
    ResourceSource,
    to_milli,
)
from kilonova.local.controllers.podautoscaler.replica_calculator import (
    MetricError,
    ReplicaProposal,
    Tolerances,
    propose_by_average_value,
    propose_by_utilization,
    propose_by_value,
    propose_by_value_per_pod,
)
from kilonova.local.objects.core import Pod


@dataclass(frozen=True, slots=True)
class ScaleTarget:
    """The scaled workload: its pods, and desired and current replicas."""

    namespace: str
    selector: str
    pods: Sequence[Pod]
    spec_replicas: int
    status_replicas: int
    tolerances: Tolerances
    now: datetime


@dataclass(frozen=True, slots=True)
class MetricResult:
    """The replicas for a metric, its name in messages, and its status."""

    replicas: int
    title: str
    status: JsonObject


@dataclass(eq=False)
class MetricUnavailable(Exception):
    """A metric that is not available: the reason of the condition, and both messages."""

    reason: str
    detail: str
    message: str

    def __str__(self) -> str:
        return self.message


class MetricReplicaCalculator:
    """Computes numbers of replicas from metrics."""

    def __init__(self, reader: MetricsReader) -> None:
        self._reader = reader

    async def compute(self, metric: Metric, target: ScaleTarget) -> MetricResult:
        """The replicas for one metric; `MetricUnavailable` if it cannot be read."""
        if metric.resource is not None:
            source = metric.resource
            message = f"failed to get {source.name} resource metric value"
            return await _raise_unavailable(
                self._compute_from_resource(source, target, "Resource"),
                "FailedGetResourceMetric",
                message,
            )
        if metric.container_resource is not None:
            source = metric.container_resource
            message = f"failed to get {source.container} container metric value"
            return await _raise_unavailable(
                self._compute_from_resource(source, target, "ContainerResource"),
                "FailedGetContainerResourceMetric",
                message,
            )
        if metric.pods is not None:
            message = "failed to get pods metric value"
            return await _raise_unavailable(
                self._compute_from_pods(metric.pods, target), "FailedGetPodsMetric", message
            )
        if metric.object is not None:
            message = "failed to get object metric value"
            return await _raise_unavailable(
                self._compute_from_object(metric.object, target), "FailedGetObjectMetric", message
            )
        if metric.external is not None:
            message = f"failed to get {metric.external.metric.name} external metric value"
            return await _raise_unavailable(
                self._compute_from_external(metric.external, target),
                "FailedGetExternalMetric",
                message,
            )
        text = f'unknown metric source type "{metric.type}"'
        raise MetricUnavailable("InvalidMetricSourceType", text, text)

    async def _compute_from_resource(
        self, source: ResourceSource, situation: ScaleTarget, kind: str
    ) -> MetricResult:
        name, container, target = source.name, source.container, source.target
        field = kind[:1].lower() + kind[1:]
        words = "usage" if target.average_value is not None else "utilization"
        at = situation
        try:
            if target.average_value is None and target.average_utilization is None:
                raise MetricError(_NO_RESOURCE_TARGET)
            samples = await self._reader.read_resource_metric(
                name, container, at.namespace, at.selector
            )
            if target.average_value is not None:
                bound = to_milli(target.average_value)
                found = propose_by_average_value(
                    at.pods, samples, name, bound, at.spec_replicas, at.tolerances, at.now
                )
                title = f"{name} resource"
            else:
                percent = target.average_utilization or 0
                found = propose_by_utilization(
                    at.pods,
                    samples,
                    name,
                    container,
                    percent,
                    at.spec_replicas,
                    at.tolerances,
                    at.now,
                )
                between = "container resource" if kind == "ContainerResource" else "resource"
                title = f"{name} {between} utilization (percentage of request)"
        except MetricError as problem:
            if str(problem) == _NO_RESOURCE_TARGET:
                raise
            raise MetricError(f"failed to get {name} {words}: {problem}") from None
        current: JsonObject = {"averageValue": _format_quantity(found.value, name)}
        if found.utilization is not None:
            current["averageUtilization"] = found.utilization
        described: JsonObject = {"name": name, "current": current}
        if container:
            described["container"] = container
        return MetricResult(found.replicas, title, {"type": kind, field: described})

    async def _compute_from_pods(self, source: MetricSource, at: ScaleTarget) -> MetricResult:
        metric, target = source.metric, to_milli(source.target.average_value or 0)
        samples = await self._reader.read_pods_metric(metric, at.namespace, at.selector)
        found = propose_by_average_value(
            at.pods, samples, "", target, at.spec_replicas, at.tolerances, at.now
        )
        current = {"averageValue": _format_quantity(found.value)}
        status: JsonObject = {"metric": _metric_identifier(source), "current": current}
        return MetricResult(
            found.replicas, f"pods metric {metric.name}", {"type": "Pods", "pods": status}
        )

    async def _compute_from_object(self, source: MetricSource, at: ScaleTarget) -> MetricResult:
        metric, target, described = source.metric, source.target, source.described_object
        if target.type == "Value" and target.value is not None:
            value = await self._reader.read_object_metric(metric, at.namespace, described)
            found = propose_by_value(
                at.pods, value, to_milli(target.value), at.spec_replicas, at.tolerances
            )
            field, title = "value", f"{described.kind} metric {metric.name}"
        elif target.type == "AverageValue" and target.average_value is not None:
            try:
                value = await self._reader.read_object_metric(metric, at.namespace, described)
            except MetricError as problem:
                raise MetricError(f"failed to get {metric.name} object metric: {problem}") from None
            found = propose_by_value_per_pod(
                value, to_milli(target.average_value), at.status_replicas, at.tolerances
            )
            field, title = "averageValue", f"external metric {_metric_title(source)}"
        else:
            raise MetricError(
                "invalid object metric source: neither a value target nor an average value "
                "target was set"
            )
        reference = {
            "kind": described.kind,
            "name": described.name,
            "apiVersion": described.api_version,
        }
        status: JsonObject = {
            "metric": _metric_identifier(source),
            "current": {field: _format_quantity(found.value)},
            "describedObject": {key: value for key, value in reference.items() if value},
        }
        return MetricResult(found.replicas, title, {"type": "Object", "object": status})

    async def _compute_from_external(self, source: MetricSource, at: ScaleTarget) -> MetricResult:
        metric, target = source.metric, source.target
        found: ReplicaProposal
        if target.average_value is not None:
            try:
                value = await self._reader.read_external_metric(metric, at.namespace)
            except MetricError as problem:
                text = f"failed to get {metric.name} external metric: {problem}"
                raise MetricError(text) from None
            found = propose_by_value_per_pod(
                value, to_milli(target.average_value), at.status_replicas, at.tolerances
            )
            field = "averageValue"
        elif target.value is not None:
            try:
                value = await self._reader.read_external_metric(metric, at.namespace)
                found = propose_by_value(
                    at.pods, value, to_milli(target.value), at.spec_replicas, at.tolerances
                )
            except MetricError as problem:
                text = f"failed to get external metric {metric.name}: {problem}"
                raise MetricError(text) from None
            field = "value"
        else:
            raise MetricError(
                "invalid external metric source: neither a value target nor an average value "
                "target was set"
            )
        status: JsonObject = {
            "metric": _metric_identifier(source),
            "current": {field: _format_quantity(found.value)},
        }
        title = f"external metric {_metric_title(source)}"
        return MetricResult(found.replicas, title, {"type": "External", "external": status})


_NO_RESOURCE_TARGET = (
    "invalid resource metric source: neither an average utilization target nor an average value "
    "(usage) target was set"
)


async def _raise_unavailable(
    computation: Awaitable[MetricResult], reason: str, message: str
) -> MetricResult:
    try:
        return await computation
    except MetricError as problem:
        raise MetricUnavailable(reason, str(problem), f"{message}: {problem}") from None


def _metric_identifier(source: MetricSource) -> JsonObject:
    metric = source.metric
    if metric.selector is None:
        return {"name": metric.name}
    return {"name": metric.name, "selector": metric.selector}


def _metric_title(source: MetricSource) -> str:
    return f"{source.metric.name}({format_selector(source.metric.selector)})"


def _format_quantity(thousandths: int, resource: str = "") -> str:
    shape = Format.BINARY if resource == "memory" else Format.DECIMAL
    return str(Quantity(thousandths * 10**6, shape))
