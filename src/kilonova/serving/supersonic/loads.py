"""The load that adds servers and turns jobs away: a query, or what we measure ourselves."""

from dataclasses import dataclass
from decimal import Decimal

from kilonova.serving.supersonic.findings import Findings
from kilonova.serving.supersonic.values import Tree, Values

_METRIC = "serverLoadMetric"
_THRESHOLD = "serverLoadThreshold"
_ADMISSION = "serverAdmissionThreshold"
_KEYS_OF_RATIOS = (
    _ADMISSION,
    "serverLoadRateInterval",
    "keda.metricType",
    "keda.activationThreshold",
)
"""Keys of charts whose default metric is a ratio and no longer milliseconds."""
_LARGEST_RATIO = 10
_LARGEST = 1_000_000
"""In milliseconds, or as a ratio."""
_DEFAULT_RATIO = 2.0
_DEFAULT_ADMISSION_RATIO = 3.0


@dataclass(frozen=True, slots=True)
class QueryLoad:
    """A PromQL expression, and who answers it."""

    query: str
    threshold: float
    admission_threshold: float
    per_replica: bool
    prometheus: str

    def build_autoscaling(self) -> Tree:
        target: Tree = {
            "query": self.query,
            "threshold": self.threshold,
            "perReplica": self.per_replica,
        }
        if self.prometheus:
            target["prometheus"] = self.prometheus
        return {"metric": target}

    def build_limit(self) -> Tree:
        limit: Tree = {"query": self.query, "threshold": self.admission_threshold}
        if self.prometheus:
            limit["prometheus"] = self.prometheus
        return limit


@dataclass(frozen=True, slots=True)
class QueueLoad:
    """Milliseconds in the queue of servers."""

    threshold: float
    admission_threshold: float

    def build_autoscaling(self) -> Tree:
        return {"sla": {"queue": _format_milliseconds(self.threshold)}}

    def build_limit(self) -> Tree:
        return {"queueTime": _format_milliseconds(self.admission_threshold)}


@dataclass(frozen=True, slots=True)
class RatioLoad:
    """Requests in flight over requests that servers work on."""

    threshold: float
    admission_threshold: float
    executions: int
    """What a server works on at the same time."""

    def build_autoscaling(self) -> Tree:
        in_flight = max(1, round(self.threshold * self.executions))
        return {"demand": {"inFlightPerReplica": in_flight, "utilization": 1}}

    def build_limit(self) -> Tree:
        in_flight = max(1, round(self.admission_threshold * self.executions))
        return {"inFlightPerReplica": in_flight}


Load = QueryLoad | QueueLoad | RatioLoad


def resolve_load(values: Values, prometheus: str, findings: Findings) -> Load:
    """The load that the values mean. `prometheus` answers queries when the values name none."""
    threshold = values.number(_THRESHOLD)
    if threshold <= 0:
        findings.refuse(_THRESHOLD, f"{threshold:g} is invalid: write a number above 0")
        return QueueLoad(1, 1)
    if query := values.text(_METRIC).strip():
        return QueryLoad(
            query,
            threshold,
            values.number(_ADMISSION) if values.has(_ADMISSION) else threshold,
            per_replica=values.text("keda.metricType") == "AverageValue",
            prometheus=_resolve_prometheus(values, prometheus, findings),
        )
    if _is_ratio(values):
        return _resolve_ratio(values, findings)
    admission = values.number(_ADMISSION) if values.has(_ADMISSION) else threshold
    _check_admission(threshold, admission, values, findings)
    # Jobs are rejected only when scaling cannot keep up: a leftover ratio is no millisecond.
    return QueueLoad(threshold, max(threshold, admission))


def _is_ratio(values: Values) -> bool:
    if metric := values.text("kilonova.loadMetric"):
        return metric == "inFlightRatio"
    if values.has(_THRESHOLD):
        return values.number(_THRESHOLD) <= _LARGEST_RATIO
    return any(values.has(each) for each in _KEYS_OF_RATIOS)


def _resolve_ratio(values: Values, findings: Findings) -> RatioLoad:
    threshold = values.number(_THRESHOLD) if values.has(_THRESHOLD) else _DEFAULT_RATIO
    admission = values.number(_ADMISSION) if values.has(_ADMISSION) else _DEFAULT_ADMISSION_RATIO
    _check_admission(threshold, admission, values, findings)
    load = RatioLoad(
        threshold, max(threshold, admission), values.whole("kilonova.executionsPerServer")
    )
    if _is_used(values):
        findings.warn(
            _THRESHOLD,
            f"{threshold:g} is read as requests in flight over requests that servers work on, of "
            f"which each has {load.executions} (kilonova.executionsPerServer). For milliseconds in "
            "the queue set kilonova.loadMetric: queueTime",
        )
    return load


def _check_admission(
    threshold: float, admission: float, values: Values, findings: Findings
) -> None:
    for key, value in ((_THRESHOLD, threshold), (_ADMISSION, admission)):
        if values.has(key) and value > _LARGEST:
            findings.refuse(key, f"{value} is invalid: write at most {_LARGEST}")
    if values.has(_ADMISSION) and admission < threshold:
        findings.warn(
            _ADMISSION,
            f"{admission:g} is less than {_THRESHOLD}, {threshold:g}, which is used for both: jobs "
            "are rejected only when scaling cannot keep up",
        )


def _resolve_prometheus(values: Values, prometheus: str, findings: Findings) -> str:
    if values.flag("prometheus.external.enabled"):
        return _build_url(values, findings)
    if _is_used(values) and not prometheus:
        findings.refuse(
            _METRIC,
            "needs a Prometheus, and none is installed with the release: set prometheus.external "
            "(enabled, url, port, scheme), or leave serverLoadMetric empty for the time in the "
            "queue, which needs none",
        )
    return ""


def _is_used(values: Values) -> bool:
    limiter = "envoy.rate_limiter.prometheus_based.enabled"
    return values.flag("keda.enabled") or values.flag(limiter)


def _build_url(values: Values, findings: Findings) -> str:
    url = values.text("prometheus.external.url").rstrip("/")
    if not url:
        findings.refuse("prometheus.external.url", "is empty: write the host of Prometheus")
    if "://" in url:
        return url
    scheme, port = (
        values.text("prometheus.external.scheme"),
        values.whole("prometheus.external.port"),
    )
    host, slash, path = url.partition("/")
    return f"{scheme}://{host}:{port}{slash}{path}"


def _format_milliseconds(value: float) -> str:
    return f"{Decimal(str(value)):f}ms"  # without an exponent, which no duration has
