"""Client of the three metrics APIs: resource, custom and external metrics."""

from urllib.parse import quote

import msgspec

from kilonova.api.durations import parse_duration
from kilonova.api.json import JsonObject
from kilonova.api.times import parse_time
from kilonova.kube import ApiStatusError, Client, NotFound
from kilonova.kube.client.codec import decode
from kilonova.kube.client.transport import Request
from kilonova.local.apimachinery.selectors import selector_from_object
from kilonova.local.controllers.podautoscaler.objects import (
    MetricIdentifier,
    TargetReference,
    to_milli,
)
from kilonova.local.controllers.podautoscaler.replica_calculator import MetricError, Sample
from kilonova.local.controllers.shared.scales import ScaleClient, ScaleUnavailable

_RESOURCE = "/apis/metrics.k8s.io/v1beta1"
_CUSTOM = "custom.metrics.k8s.io"
_EXTERNAL = "external.metrics.k8s.io"
_DEFAULT_WINDOW = 60.0


class _ObjectName(msgspec.Struct, frozen=True):
    name: str = ""


class _ContainerUsage(msgspec.Struct, frozen=True):
    name: str = ""
    usage: dict[str, str | int | float] = {}


class _PodMetrics(msgspec.Struct, frozen=True):
    metadata: _ObjectName
    timestamp: str
    window: str = "60s"
    containers: tuple[_ContainerUsage, ...] = ()


class _PodMetricsList(msgspec.Struct, frozen=True):
    items: tuple[_PodMetrics, ...] = ()


class _MetricValue(msgspec.Struct, frozen=True, rename="camel"):
    value: str | int | float
    timestamp: str = ""
    described_object: _ObjectName = _ObjectName()
    window_seconds: int | None = None


class _MetricValueList(msgspec.Struct, frozen=True):
    items: tuple[_MetricValue, ...] = ()


class _GroupVersion(msgspec.Struct, frozen=True):
    version: str = ""


class _ApiGroup(msgspec.Struct, frozen=True, rename="camel"):
    preferred_version: _GroupVersion = _GroupVersion()


class MetricsReader:
    """Reads metrics through the API. `MetricError` states what is missing."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._scales = ScaleClient(client)

    async def read_resource_metric(
        self, resource: str, container: str, namespace: str, selector: str
    ) -> dict[str, Sample]:
        """The usage of a resource by each pod, or by one container of each."""
        path = f"{_RESOURCE}/namespaces/{namespace}/pods"
        try:
            body = await self._get(path, [("labelSelector", selector)], "pods.metrics.k8s.io")
        except MetricError as problem:
            raise MetricError(
                f"unable to get metrics for resource {resource}: "
                f"unable to fetch metrics from resource metrics API: {problem}"
            ) from None
        items = decode(body, _PodMetricsList).items
        if not items:
            raise MetricError(
                f"unable to get metrics for resource {resource}: "
                "no metrics returned from resource metrics API"
            )
        samples = {item.metadata.name: _build_sample(item, resource, container) for item in items}
        return {name: sample for name, sample in samples.items() if sample is not None}

    async def read_pods_metric(
        self, metric: MetricIdentifier, namespace: str, selector: str
    ) -> dict[str, Sample]:
        """A metric of each pod."""
        path = f"/namespaces/{namespace}/pods/*/{quote(metric.name, safe='')}"
        try:
            values = await self._read_custom_metrics(path, metric, [("labelSelector", selector)])
            if not values:
                raise MetricError("no metrics returned from custom metrics API")
        except MetricError as problem:
            raise MetricError(f"unable to get metric {metric.name}: {problem}") from None
        return {
            each.described_object.name: Sample(
                to_milli(each.value),
                parse_time(each.timestamp),
                each.window_seconds or _DEFAULT_WINDOW,
            )
            for each in values
        }

    async def read_object_metric(
        self, metric: MetricIdentifier, namespace: str, described: TargetReference
    ) -> int:
        """A metric of one object."""
        try:
            path = await self._object_path(described, namespace, metric.name)
            values = await self._read_custom_metrics(path, metric, [])
            if not values:
                raise MetricError("no metrics returned from custom metrics API")
        except MetricError as problem:
            where = f"{described.kind} on {namespace} {described.name}"
            raise MetricError(f"unable to get metric {metric.name}: {where}/{problem}") from None
        return to_milli(values[0].value)

    async def read_external_metric(self, metric: MetricIdentifier, namespace: str) -> int:
        """The sum of an external metric."""
        path = f"/apis/{_EXTERNAL}/v1beta1/namespaces/{namespace}/{quote(metric.name, safe='')}"
        query = [("labelSelector", _selector_query(metric))] if metric.selector else []
        try:
            body = await self._get(path, query, f"{metric.name}.{_EXTERNAL}")
            values = decode(body, _MetricValueList).items
            if not values:
                raise MetricError("no metrics returned from external metrics API")
        except MetricError as problem:
            words = "" if str(problem).startswith("no metrics") else _EXTERNAL_FETCH_ERROR
            what = f"{namespace}/{metric.name}/{format_selector(metric.selector)}"
            raise MetricError(f"unable to get external metric {what}: {words}{problem}") from None
        return sum(to_milli(each.value) for each in values)

    async def _object_path(self, described: TargetReference, namespace: str, metric: str) -> str:
        name = quote(metric, safe="")
        if (described.group, described.kind) == ("", "Namespace"):
            return f"/namespaces/{namespace}/metrics/{name}"
        try:
            resource = await self._scales.find_resource(described.group, described.kind)
        except ScaleUnavailable as problem:
            raise MetricError(str(problem)) from None
        return f"/namespaces/{namespace}/{resource.full_name}/{described.name}/{name}"

    async def _read_custom_metrics(
        self, path: str, metric: MetricIdentifier, query: list[tuple[str, str]]
    ) -> tuple[_MetricValue, ...]:
        fetching = "unable to fetch metrics from custom metrics API: "
        try:
            reply = await self._client.send(Request("GET", f"/apis/{_CUSTOM}"))
        except NotFound:
            text = f"{fetching}no custom metrics API ({_CUSTOM}) registered"
            raise MetricError(text) from None
        version = decode(reply.body, _ApiGroup).preferred_version.version
        if metric.selector:
            query = [*query, ("metricLabelSelector", _selector_query(metric))]
        try:
            body = await self._get(f"/apis/{_CUSTOM}/{version}{path}", query, _CUSTOM)
        except MetricError as problem:
            raise MetricError(f"{fetching}{problem}") from None
        return decode(body, _MetricValueList).items

    async def _get(self, path: str, query: list[tuple[str, str]], what: str) -> bytes:
        request = Request("GET", path, query, {"accept": "application/json"})
        try:
            return (await self._client.send(request)).body
        except ApiStatusError as error:
            if isinstance(error, NotFound) and not error.details.get("name"):
                text = "the server could not find the requested resource"
                raise MetricError(f"{text} (get {what})") from None
            raise MetricError(error.message) from None


_EXTERNAL_FETCH_ERROR = "unable to fetch metrics from external metrics API: "


def format_selector(selector: JsonObject | None) -> str:
    """A selector as in Kubernetes' messages."""
    if selector is None:
        return "nil"
    labels = "".join(f"{key}: {value}," for key, value in sorted(_match_labels(selector).items()))
    return (
        f"&LabelSelector{{MatchLabels:map[string]string{{{labels}}},"
        "MatchExpressions:[]LabelSelectorRequirement{},}"
    )


def _match_labels(selector: JsonObject) -> dict[str, str]:
    return selector.get("matchLabels") or {}


def _selector_query(metric: MetricIdentifier) -> str:
    return str(selector_from_object(metric.selector or {}))


def _build_sample(item: _PodMetrics, resource: str, container: str) -> Sample | None:
    desired = [each for each in item.containers if container in ("", each.name)]
    if not desired or any(resource not in each.usage for each in desired):
        return None
    total = sum(to_milli(each.usage[resource]) for each in desired)
    return Sample(total, parse_time(item.timestamp), parse_duration(item.window))
