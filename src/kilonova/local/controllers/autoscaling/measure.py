"""Asks for the number of replicas by one metric, and says what the metric is now."""

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from datetime import datetime

from kilonova.api.json import JsonObject
from kilonova.api.quantity import Format, Quantity
from kilonova.local.controllers.autoscaling.metrics import MetricsReader, in_go
from kilonova.local.controllers.autoscaling.objects import (
    Metric,
    MetricSource,
    ResourceSource,
    milli,
)
from kilonova.local.controllers.autoscaling.proposals import (
    NoProposal,
    Proposal,
    Tolerances,
    by_average,
    by_share,
    by_utilization,
    by_value,
)
from kilonova.local.controllers.objects import Pod


@dataclass(frozen=True, slots=True)
class Situation:
    """What is scaled: its pods, how many there should be and are."""

    namespace: str
    selector: str
    pods: Sequence[Pod]
    wanted: int
    present: int
    tolerances: Tolerances
    now: datetime


@dataclass(frozen=True, slots=True)
class Measured:
    """What a metric asks for, its name for people, and its status."""

    replicas: int
    name: str
    status: JsonObject


@dataclass(eq=False)
class Unmeasured(Exception):
    """A metric that cannot be had: the reason for the condition, and both messages."""

    reason: str
    problem: str
    told: str

    def __str__(self) -> str:
        return self.told


class Measure:
    """Turns metrics into numbers of replicas."""

    def __init__(self, reader: MetricsReader) -> None:
        self._reader = reader

    async def of(self, metric: Metric, situation: Situation) -> Measured:
        """What one metric asks for; `Unmeasured` says why it asks for nothing."""
        if metric.resource is not None:
            source = metric.resource
            told = f"failed to get {source.name} resource metric value"
            return await _or_unmeasured(
                self._by_resource(source, situation, "Resource"), "FailedGetResourceMetric", told
            )
        if metric.container_resource is not None:
            source = metric.container_resource
            told = f"failed to get {source.container} container metric value"
            return await _or_unmeasured(
                self._by_resource(source, situation, "ContainerResource"),
                "FailedGetContainerResourceMetric",
                told,
            )
        if metric.pods is not None:
            told = "failed to get pods metric value"
            return await _or_unmeasured(
                self._by_pods(metric.pods, situation), "FailedGetPodsMetric", told
            )
        if metric.object is not None:
            told = "failed to get object metric value"
            return await _or_unmeasured(
                self._by_object(metric.object, situation), "FailedGetObjectMetric", told
            )
        if metric.external is not None:
            told = f"failed to get {metric.external.metric.name} external metric value"
            return await _or_unmeasured(
                self._by_external(metric.external, situation), "FailedGetExternalMetric", told
            )
        text = f'unknown metric source type "{metric.type}"'
        raise Unmeasured("InvalidMetricSourceType", text, text)

    async def _by_resource(
        self, source: ResourceSource, situation: Situation, kind: str
    ) -> Measured:
        name, container, target = source.name, source.container, source.target
        field = kind[:1].lower() + kind[1:]
        words = "usage" if target.average_value is not None else "utilization"
        at = situation
        try:
            if target.average_value is None and target.average_utilization is None:
                raise NoProposal(_NO_RESOURCE_TARGET)
            samples = await self._reader.of_resource(name, container, at.namespace, at.selector)
            if target.average_value is not None:
                bound = milli(target.average_value)
                found = by_average(at.pods, samples, name, bound, at.wanted, at.tolerances, at.now)
                title = f"{name} resource"
            else:
                percent = target.average_utilization or 0
                found = by_utilization(
                    at.pods, samples, name, container, percent, at.wanted, at.tolerances, at.now
                )
                between = "container resource" if kind == "ContainerResource" else "resource"
                title = f"{name} {between} utilization (percentage of request)"
        except NoProposal as problem:
            if str(problem) == _NO_RESOURCE_TARGET:
                raise
            raise NoProposal(f"failed to get {name} {words}: {problem}") from None
        current: JsonObject = {"averageValue": _written(found.value, name)}
        if found.utilization is not None:
            current["averageUtilization"] = found.utilization
        described: JsonObject = {"name": name, "current": current}
        if container:
            described["container"] = container
        return Measured(found.replicas, title, {"type": kind, field: described})

    async def _by_pods(self, source: MetricSource, at: Situation) -> Measured:
        metric, target = source.metric, milli(source.target.average_value or 0)
        samples = await self._reader.of_pods(metric, at.namespace, at.selector)
        found = by_average(at.pods, samples, "", target, at.wanted, at.tolerances, at.now)
        current = {"averageValue": _written(found.value)}
        status: JsonObject = {"metric": _identified(source), "current": current}
        return Measured(
            found.replicas, f"pods metric {metric.name}", {"type": "Pods", "pods": status}
        )

    async def _by_object(self, source: MetricSource, at: Situation) -> Measured:
        metric, target, described = source.metric, source.target, source.described_object
        if target.type == "Value" and target.value is not None:
            value = await self._reader.of_object(metric, at.namespace, described)
            found = by_value(at.pods, value, milli(target.value), at.wanted, at.tolerances)
            field, title = "value", f"{described.kind} metric {metric.name}"
        elif target.type == "AverageValue" and target.average_value is not None:
            try:
                value = await self._reader.of_object(metric, at.namespace, described)
            except NoProposal as problem:
                raise NoProposal(f"failed to get {metric.name} object metric: {problem}") from None
            found = by_share(value, milli(target.average_value), at.present, at.tolerances)
            field, title = "averageValue", f"external metric {_titled(source)}"
        else:
            raise NoProposal(
                "invalid object metric source: neither a value target nor an average value "
                "target was set"
            )
        reference = {
            "kind": described.kind,
            "name": described.name,
            "apiVersion": described.api_version,
        }
        status: JsonObject = {
            "metric": _identified(source),
            "current": {field: _written(found.value)},
            "describedObject": {key: value for key, value in reference.items() if value},
        }
        return Measured(found.replicas, title, {"type": "Object", "object": status})

    async def _by_external(self, source: MetricSource, at: Situation) -> Measured:
        metric, target = source.metric, source.target
        found: Proposal
        if target.average_value is not None:
            try:
                value = await self._reader.of_nobody(metric, at.namespace)
            except NoProposal as problem:
                text = f"failed to get {metric.name} external metric: {problem}"
                raise NoProposal(text) from None
            found = by_share(value, milli(target.average_value), at.present, at.tolerances)
            field = "averageValue"
        elif target.value is not None:
            try:
                value = await self._reader.of_nobody(metric, at.namespace)
                found = by_value(at.pods, value, milli(target.value), at.wanted, at.tolerances)
            except NoProposal as problem:
                text = f"failed to get external metric {metric.name}: {problem}"
                raise NoProposal(text) from None
            field = "value"
        else:
            raise NoProposal(
                "invalid external metric source: neither a value target nor an average value "
                "target was set"
            )
        status: JsonObject = {
            "metric": _identified(source),
            "current": {field: _written(found.value)},
        }
        title = f"external metric {_titled(source)}"
        return Measured(found.replicas, title, {"type": "External", "external": status})


_NO_RESOURCE_TARGET = (
    "invalid resource metric source: neither an average utilization target nor an average value "
    "(usage) target was set"
)


async def _or_unmeasured(measuring: Awaitable[Measured], reason: str, told: str) -> Measured:
    try:
        return await measuring
    except NoProposal as problem:
        raise Unmeasured(reason, str(problem), f"{told}: {problem}") from None


def _identified(source: MetricSource) -> JsonObject:
    metric = source.metric
    if metric.selector is None:
        return {"name": metric.name}
    return {"name": metric.name, "selector": metric.selector}


def _titled(source: MetricSource) -> str:
    return f"{source.metric.name}({in_go(source.metric.selector)})"


def _written(thousandths: int, resource: str = "") -> str:
    shape = Format.BINARY if resource == "memory" else Format.DECIMAL
    return str(Quantity(thousandths * 10**6, shape))
