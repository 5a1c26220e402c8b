"""The PromQL expressions of a service, and their latest values."""

import asyncio
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from kilonova.api.serving import InferenceServiceSpec
from kilonova.serving.signals.model import ServiceSignals
from kilonova.serving.signals.prometheus import PrometheusClient, QueryFailed

QUERY_INTERVAL_FACTOR = 5
"""Expressions are evaluated so many times less often than gateways are read: Prometheus itself
reads its targets every few seconds."""
_MAX_AGE_FACTOR = 6
"""A value that is older than so many intervals is not known any more."""
_NO_PROMETHEUS = "no Prometheus: name one in the service or in the settings of the installation"


@dataclass(frozen=True, slots=True)
class Query:
    """An expression of a service."""

    title: str
    """Where it is: `metric of group llm`, `limits.load`."""
    group: str
    """The group whose metric it is; empty for that of `limits.load`."""
    url: str
    expression: str


@dataclass(frozen=True, slots=True)
class _Result:
    at: float
    values: tuple[float, ...] = ()
    problem: str = ""


def list_queries(spec: InferenceServiceSpec, prometheus_url: str) -> Iterator[Query]:
    """The expressions of a service."""
    for group in spec.servers:
        scaling = group.autoscaling
        if scaling is not None and scaling.metric is not None and scaling.scaler == "Builtin":
            metric = scaling.metric
            url = metric.prometheus or prometheus_url
            yield Query(f"metric of group {group.name}", group.name, url, metric.query)
    limit = spec.limits.load
    if limit is not None and limit.query:
        yield Query("limits.load", "", limit.prometheus or prometheus_url, limit.query)


class ServiceQueries:
    """Evaluates the expressions of a service in the background: a slow Prometheus delays
    nothing else."""

    def __init__(self, prometheus: PrometheusClient, prometheus_url: str, interval: float) -> None:
        self._prometheus = prometheus
        self._url = prometheus_url
        self._interval = interval
        self._results: dict[Query, _Result] = {}
        self._tasks: dict[Query, asyncio.Task[None]] = {}

    def refresh(self, spec: InferenceServiceSpec, now: float) -> None:
        """Start to evaluate what is due."""
        queries = frozenset(list_queries(spec, self._url))
        self._results = {each: self._results[each] for each in queries & self._results.keys()}
        for gone in self._tasks.keys() - queries:
            self._tasks.pop(gone).cancel()
        for query in queries:
            result, task = self._results.get(query), self._tasks.get(query)
            is_due = result is None or now - result.at >= self._interval
            if is_due and (task is None or task.done()):
                self._tasks[query] = asyncio.create_task(self._evaluate(query, now))

    def add_values(self, signals: ServiceSignals) -> ServiceSignals:
        """The signals with the latest values, and with what could not be evaluated."""
        if not self._results:
            return signals
        values: dict[str, float] = {}
        load_query: float | None = None
        problems = list(signals.problems)
        for query, result in sorted(self._results.items(), key=lambda item: item[0].title):
            if result.problem:
                problems.append(f"{query.title}: {result.problem}")
            if not result.values or signals.at - result.at > _MAX_AGE_FACTOR * self._interval:
                continue
            if query.group:
                values[query.group] = sum(result.values)
            else:
                load_query = max(result.values)
        return replace(signals, problems=tuple(problems), queries=values, load_query=load_query)

    def close(self) -> None:
        """Stop evaluating."""
        for task in self._tasks.values():
            task.cancel()
        self._tasks.clear()

    async def _evaluate(self, query: Query, now: float) -> None:
        if not query.url:
            self._results[query] = _Result(now, problem=_NO_PROMETHEUS)
            return
        try:
            values = await self._prometheus.evaluate(query.url, query.expression)
        except QueryFailed as error:
            problem = f"Prometheus {query.url}: {error}"
            self._results[query] = _Result(now, problem=problem)
            return
        problem = "" if values else "the expression has no value"
        if not math.isfinite(sum(values)):
            values, problem = [], "the sum of the values of the expression is not a finite number"
        self._results[query] = _Result(now, tuple(values), problem)
