"""What a process measures about itself, for Prometheus.

Each process has one `Metrics` with a registry of its own: no globals, so that several parts
and tests live side by side. Where client-go and controller-runtime have a name for a thing we
use theirs, and existing dashboards and alerts work; the rest begins with `kilonova_`.

Methods are called from hot paths: label lookups are remembered, and a call costs a few
microseconds at most.
"""

import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import lru_cache

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import choose_encoder
from prometheus_client.gc_collector import GCCollector
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector

from kilonova.kube.instruments import Outcome, RelistCause
from kilonova.kube.transport import Reply, Request, StreamReply, Transport

_SECONDS = (
    0.0002,
    0.001,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
    30.0,
    60.0,
)
_RESULTS: dict[Outcome, str] = {
    "success": "success",
    "requeued": "requeue_after",
    "error": "error",
}


class Metrics:
    """All measurements of a process; implements `kilonova.kube.instruments.Instruments`.

    Other parts may register their own collectors in `registry`.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        counter, gauge, histogram = self._counter, self._gauge, self._histogram
        self._depth = gauge("workqueue_depth", "Keys that wait in a queue", "name")
        self._waited = histogram(
            "workqueue_queue_duration_seconds", "How long a key waited in its queue", "name"
        )
        self._reconciles = counter(
            "controller_runtime_reconcile_total", "Reconciles", "controller", "result"
        )
        self._reconcile_time = histogram(
            "controller_runtime_reconcile_time_seconds", "Time of a reconcile", "controller"
        )
        self._watch_events = counter(
            "kilonova_reflector_events_total", "Watch events taken into a store", "resource"
        )
        self._lists = counter(
            "kilonova_reflector_lists_total", "Complete lists", "resource", "cause"
        )
        self._listed = counter(
            "kilonova_reflector_listed_objects_total", "Objects in complete lists", "resource"
        )
        self._watches_ended = counter(
            "kilonova_reflector_watches_ended_total", "Watches that ended", "resource", "reason"
        )
        self._requests = counter(
            "rest_client_requests_total", "Requests to the API", "code", "method"
        )
        self._request_time = histogram(
            "rest_client_request_duration_seconds", "Time of a request to the API", "method"
        )
        self._leads = gauge("leader_election_master_status", "1 while leading, else 0", "name")
        self._events_written = counter(
            "kilonova_events_written_total", "Events written, by verb", "verb"
        )
        self._events_dropped = counter(
            "kilonova_events_dropped_total", "Events not written, by reason", "reason"
        )
        self._admissions = counter(
            "controller_runtime_webhook_requests_total", "Admission reviews", "webhook", "code"
        )
        self._admission_time = histogram(
            "controller_runtime_webhook_latency_seconds", "Time of an admission review", "webhook"
        )
        self._certificate_expiry = gauge(
            "kilonova_certificate_expiry_timestamp_seconds", "End of a serving certificate", "name"
        )
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        GCCollector(registry=self.registry)

    def render(self, accept: str = "") -> tuple[bytes, str]:
        """The whole exposition and its content type, in the newest format that is accepted."""
        encode, content_type = choose_encoder(accept)
        return encode(self.registry), content_type

    def queue_opened(self, controller: str, depth: Callable[[], int]) -> None:
        self._depth(controller).set_function(depth)

    def reconciled(self, controller: str, outcome: Outcome, seconds: float, waited: float) -> None:
        self._reconciles(controller, _RESULTS[outcome]).inc()
        self._reconcile_time(controller).observe(seconds)
        self._waited(controller).observe(waited)

    def events_received(self, resource: str, count: int) -> None:
        self._watch_events(resource).inc(count)

    def listed(self, resource: str, cause: RelistCause, objects: int) -> None:
        self._lists(resource, cause).inc()
        self._listed(resource).inc(objects)

    def watch_ended(self, resource: str, reason: str) -> None:
        self._watches_ended(resource, reason).inc()

    def requested(self, method: str, code: str, seconds: float) -> None:
        """A request to the API ended; `code` is the status, or `<error>` without an answer."""
        self._requests(code, method).inc()
        self._request_time(method).observe(seconds)

    def leads(self, name: str) -> Callable[[bool], None]:
        """What an `Elector` tells its changes to."""
        gauge = self._leads(name)
        gauge.set(0)
        return lambda leading: gauge.set(1 if leading else 0)

    def event_written(self, verb: str) -> None:
        self._events_written(verb).inc()

    def events_dropped(self, reason: str, count: int = 1) -> None:
        self._events_dropped(reason).inc(count)

    def admitted(self, webhook: str, code: int, seconds: float) -> None:
        """An admission review was answered; `code` is 200 when allowed."""
        self._admissions(webhook, str(code)).inc()
        self._admission_time(webhook).observe(seconds)

    def certificate_expires(self, name: str, timestamp: float) -> None:
        self._certificate_expiry(name).set(timestamp)

    def _counter(self, name: str, text: str, *labels: str) -> Callable[..., Counter]:
        return lru_cache(maxsize=None)(Counter(name, text, labels, registry=self.registry).labels)

    def _gauge(self, name: str, text: str, *labels: str) -> Callable[..., Gauge]:
        return lru_cache(maxsize=None)(Gauge(name, text, labels, registry=self.registry).labels)

    def _histogram(self, name: str, text: str, *labels: str) -> Callable[..., Histogram]:
        metric = Histogram(name, text, labels, registry=self.registry, buckets=_SECONDS)
        return lru_cache(maxsize=None)(metric.labels)


class MeasuredTransport:
    """A transport that counts and times its requests. Streams are counted when they begin."""

    def __init__(self, inner: Transport, metrics: Metrics) -> None:
        self._inner = inner
        self._metrics = metrics

    async def send(self, request: Request) -> Reply:
        begin = time.perf_counter()
        code = "<error>"
        try:
            reply = await self._inner.send(request)
            code = str(reply.status)
            return reply
        finally:
            self._metrics.requested(request.method, code, time.perf_counter() - begin)

    def stream(self, request: Request) -> AbstractAsyncContextManager[StreamReply]:
        return _MeasuredStream(self._inner.stream(request), self._metrics)

    async def close(self) -> None:
        await self._inner.close()


class _MeasuredStream(AbstractAsyncContextManager[StreamReply]):
    def __init__(self, inner: AbstractAsyncContextManager[StreamReply], metrics: Metrics) -> None:
        self._inner = inner
        self._metrics = metrics

    async def __aenter__(self) -> StreamReply:
        begin = time.perf_counter()
        code = "<error>"
        try:
            reply = await self._inner.__aenter__()
            code = str(reply.status)
            return reply
        finally:
            self._metrics.requested("WATCH", code, time.perf_counter() - begin)

    async def __aexit__(self, *error: object) -> bool | None:
        return await self._inner.__aexit__(*error)  # type: ignore[arg-type]
