"""Where an autoscaler gets its numbers: the three metrics APIs, where they are served."""

from urllib.parse import quote

import msgspec

from kilonova.api.durations import parse_duration
from kilonova.api.json import JsonObject
from kilonova.api.times import parse_time
from kilonova.kube import ApiStatusError, Client, NotFound
from kilonova.kube.codec import decode
from kilonova.kube.transport import Request
from kilonova.local.controllers.autoscaling.objects import MetricIdentifier, TargetReference, milli
from kilonova.local.controllers.autoscaling.proposals import NoProposal, Sample
from kilonova.local.controllers.scales import NoScale, ScaleReader
from kilonova.local.selectors import label_selector

_RESOURCE = "/apis/metrics.k8s.io/v1beta1"
_CUSTOM = "custom.metrics.k8s.io"
_EXTERNAL = "external.metrics.k8s.io"
_WINDOW = 60.0


class _Named(msgspec.Struct, frozen=True):
    name: str = ""


class _Used(msgspec.Struct, frozen=True):
    name: str = ""
    usage: dict[str, str | int | float] = {}


class _PodMetrics(msgspec.Struct, frozen=True):
    metadata: _Named
    timestamp: str
    window: str = "60s"
    containers: tuple[_Used, ...] = ()


class _PodMetricsList(msgspec.Struct, frozen=True):
    items: tuple[_PodMetrics, ...] = ()


class _Value(msgspec.Struct, frozen=True, rename="camel"):
    value: str | int | float
    timestamp: str = ""
    described_object: _Named = _Named()
    window_seconds: int | None = None


class _Values(msgspec.Struct, frozen=True):
    items: tuple[_Value, ...] = ()


class _Version(msgspec.Struct, frozen=True):
    version: str = ""


class _Group(msgspec.Struct, frozen=True, rename="camel"):
    preferred_version: _Version = _Version()


class MetricsReader:
    """Reads metrics through the ordinary API. `NoProposal` says what is missing."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._scales = ScaleReader(client)

    async def of_resource(
        self, resource: str, container: str, namespace: str, selector: str
    ) -> dict[str, Sample]:
        """What each pod, or one container of each, uses of a resource."""
        path = f"{_RESOURCE}/namespaces/{namespace}/pods"
        try:
            body = await self._get(path, [("labelSelector", selector)], "pods.metrics.k8s.io")
        except NoProposal as problem:
            raise NoProposal(
                f"unable to get metrics for resource {resource}: "
                f"unable to fetch metrics from resource metrics API: {problem}"
            ) from None
        items = decode(body, _PodMetricsList).items
        if not items:
            raise NoProposal(
                f"unable to get metrics for resource {resource}: "
                "no metrics returned from resource metrics API"
            )
        samples = {item.metadata.name: _sample(item, resource, container) for item in items}
        return {name: sample for name, sample in samples.items() if sample is not None}

    async def of_pods(
        self, metric: MetricIdentifier, namespace: str, selector: str
    ) -> dict[str, Sample]:
        """A metric of each pod."""
        path = f"/namespaces/{namespace}/pods/*/{quote(metric.name, safe='')}"
        try:
            values = await self._custom(path, metric, [("labelSelector", selector)])
            if not values:
                raise NoProposal("no metrics returned from custom metrics API")
        except NoProposal as problem:
            raise NoProposal(f"unable to get metric {metric.name}: {problem}") from None
        return {
            each.described_object.name: Sample(
                milli(each.value), parse_time(each.timestamp), each.window_seconds or _WINDOW
            )
            for each in values
        }

    async def of_object(
        self, metric: MetricIdentifier, namespace: str, described: TargetReference
    ) -> int:
        """A metric of one object."""
        try:
            path = await self._path_to(described, namespace, metric.name)
            values = await self._custom(path, metric, [])
            if not values:
                raise NoProposal("no metrics returned from custom metrics API")
        except NoProposal as problem:
            where = f"{described.kind} on {namespace} {described.name}"
            raise NoProposal(f"unable to get metric {metric.name}: {where}/{problem}") from None
        return milli(values[0].value)

    async def of_nobody(self, metric: MetricIdentifier, namespace: str) -> int:
        """The sum of an external metric."""
        path = f"/apis/{_EXTERNAL}/v1beta1/namespaces/{namespace}/{quote(metric.name, safe='')}"
        query = [("labelSelector", _selector(metric))] if metric.selector else []
        try:
            body = await self._get(path, query, f"{metric.name}.{_EXTERNAL}")
            values = decode(body, _Values).items
            if not values:
                raise NoProposal("no metrics returned from external metrics API")
        except NoProposal as problem:
            words = "" if str(problem).startswith("no metrics") else _FETCHING
            what = f"{namespace}/{metric.name}/{in_go(metric.selector)}"
            raise NoProposal(f"unable to get external metric {what}: {words}{problem}") from None
        return sum(milli(each.value) for each in values)

    async def _path_to(self, described: TargetReference, namespace: str, metric: str) -> str:
        name = quote(metric, safe="")
        if (described.group, described.kind) == ("", "Namespace"):
            return f"/namespaces/{namespace}/metrics/{name}"
        try:
            resource = await self._scales.resource(described.group, described.kind)
        except NoScale as problem:
            raise NoProposal(str(problem)) from None
        return f"/namespaces/{namespace}/{resource.full_name}/{described.name}/{name}"

    async def _custom(
        self, path: str, metric: MetricIdentifier, query: list[tuple[str, str]]
    ) -> tuple[_Value, ...]:
        fetching = "unable to fetch metrics from custom metrics API: "
        try:
            reply = await self._client.send(Request("GET", f"/apis/{_CUSTOM}"))
        except NotFound:
            text = f"{fetching}no custom metrics API ({_CUSTOM}) registered"
            raise NoProposal(text) from None
        version = decode(reply.body, _Group).preferred_version.version
        if metric.selector:
            query = [*query, ("metricLabelSelector", _selector(metric))]
        try:
            body = await self._get(f"/apis/{_CUSTOM}/{version}{path}", query, _CUSTOM)
        except NoProposal as problem:
            raise NoProposal(f"{fetching}{problem}") from None
        return decode(body, _Values).items

    async def _get(self, path: str, query: list[tuple[str, str]], what: str) -> bytes:
        request = Request("GET", path, query, {"accept": "application/json"})
        try:
            return (await self._client.send(request)).body
        except ApiStatusError as error:
            if isinstance(error, NotFound) and not error.details.get("name"):
                text = "the server could not find the requested resource"
                raise NoProposal(f"{text} (get {what})") from None
            raise NoProposal(error.message) from None


_FETCHING = "unable to fetch metrics from external metrics API: "


def in_go(selector: JsonObject | None) -> str:
    """A selector as messages of Kubernetes show it."""
    if selector is None:
        return "nil"
    labels = "".join(f"{key}: {value}," for key, value in sorted(_labels(selector).items()))
    return (
        f"&LabelSelector{{MatchLabels:map[string]string{{{labels}}},"
        "MatchExpressions:[]LabelSelectorRequirement{},}"
    )


def _labels(selector: JsonObject) -> dict[str, str]:
    return selector.get("matchLabels") or {}


def _selector(metric: MetricIdentifier) -> str:
    return str(label_selector(metric.selector or {}))


def _sample(item: _PodMetrics, resource: str, container: str) -> Sample | None:
    wanted = [each for each in item.containers if container in ("", each.name)]
    if not wanted or any(resource not in each.usage for each in wanted):
        return None
    total = sum(milli(each.usage[resource]) for each in wanted)
    return Sample(total, parse_time(item.timestamp), parse_duration(item.window))
