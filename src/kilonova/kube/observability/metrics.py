"""The Prometheus metrics of a process.

Each process has one `Metrics` with a registry of its own: no globals, so that several components
and tests can coexist. Where client-go and controller-runtime have a name for a metric we use
theirs, so that existing dashboards and alerts work; other names start with `kilonova_`.

Methods are called from hot paths: label lookups are cached, and a call costs a few microseconds at
most.
"""

import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from prometheus_client.gc_collector import GCCollector
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector

from kilonova.kube.client.transport import Reply, Request, StreamReply, Transport
from kilonova.kube.observability.metric_factory import MetricFactory
from kilonova.kube.observability.runtime_metrics import ReconcileOutcome, RelistCause

_RESULT_LABELS: dict[ReconcileOutcome, str] = {
    "success": "success",
    "requeued": "requeue_after",
    "error": "error",
}


class Metrics:
    """All metrics of a process; implements `runtime_metrics.RuntimeMetrics`.

    Components may register their own collectors in `registry`.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        create = MetricFactory(self.registry)
        counter, gauge, histogram = create.counter, create.gauge, create.histogram
        self._queue_depth = gauge("workqueue_depth", "Current depth of the work queue", "name")
        self._queue_duration = histogram(
            "workqueue_queue_duration_seconds",
            "How long a key stays in the work queue before it is requested",
            "name",
        )
        self._reconciles = counter(
            "controller_runtime_reconcile_total", "Reconciles", "controller", "result"
        )
        self._reconcile_time = histogram(
            "controller_runtime_reconcile_time_seconds", "Duration of a reconcile", "controller"
        )
        self._watch_events = counter(
            "kilonova_reflector_events_total", "Watch events applied to a store", "resource"
        )
        self._lists = counter(
            "kilonova_reflector_lists_total", "Complete lists", "resource", "cause"
        )
        self._listed_objects = counter(
            "kilonova_reflector_listed_objects_total", "Objects in complete lists", "resource"
        )
        self._watches_ended = counter(
            "kilonova_reflector_watches_ended_total", "Watches that ended", "resource", "reason"
        )
        self._requests = counter(
            "rest_client_requests_total", "Requests to the API server", "code", "method"
        )
        self._request_time = histogram(
            "rest_client_request_duration_seconds", "Duration of a request to the API", "method"
        )
        self._leader_status = gauge(
            "leader_election_master_status", "1 while leading, else 0", "name"
        )
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
            "controller_runtime_webhook_latency_seconds",
            "Duration of an admission review",
            "webhook",
        )
        self._certificate_expiry = gauge(
            "kilonova_certificate_expiry_timestamp_seconds",
            "Expiry of a serving certificate",
            "name",
        )
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        GCCollector(registry=self.registry)

    def render(self, accept: str = "") -> tuple[bytes, str]:
        """The exposition and its content type, in the newest accepted format."""
        encode, content_type = choose_encoder(accept)
        return encode(self.registry), content_type

    def register_queue(self, controller: str, depth: Callable[[], int]) -> None:
        self._queue_depth(controller).set_function(depth)

    def observe_reconcile(
        self, controller: str, outcome: ReconcileOutcome, seconds: float, queue_duration: float
    ) -> None:
        self._reconciles(controller, _RESULT_LABELS[outcome]).inc()
        self._reconcile_time(controller).observe(seconds)
        self._queue_duration(controller).observe(queue_duration)

    def count_watch_events(self, resource: str, count: int) -> None:
        self._watch_events(resource).inc(count)

    def observe_list(self, resource: str, cause: RelistCause, objects: int) -> None:
        self._lists(resource, cause).inc()
        self._listed_objects(resource).inc(objects)

    def count_watch_end(self, resource: str, reason: str) -> None:
        self._watches_ended(resource, reason).inc()

    def observe_request(self, method: str, code: str, seconds: float) -> None:
        """Record a request to the API; `code` is the status, or `<error>` without a response."""
        self._requests(code, method).inc()
        self._request_time(method).observe(seconds)

    def leader_status_setter(self, name: str) -> Callable[[bool], None]:
        """The callback of a `LeaderElector` for changes of its leadership."""
        gauge = self._leader_status(name)
        gauge.set(0)
        return lambda leading: gauge.set(1 if leading else 0)

    def count_event_written(self, verb: str) -> None:
        self._events_written(verb).inc()

    def count_events_dropped(self, reason: str, count: int = 1) -> None:
        self._events_dropped(reason).inc(count)

    def observe_admission(self, webhook: str, code: int, seconds: float) -> None:
        """Record an admission review; `code` is 200 when allowed."""
        self._admissions(webhook, str(code)).inc()
        self._admission_time(webhook).observe(seconds)

    def set_certificate_expiry(self, name: str, timestamp: float) -> None:
        self._certificate_expiry(name).set(timestamp)


class InstrumentedTransport:
    """A transport that counts and times its requests. Streams are counted when they start."""

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
            self._metrics.observe_request(request.method, code, time.perf_counter() - begin)

    def stream(self, request: Request) -> AbstractAsyncContextManager[StreamReply]:
        return _InstrumentedStream(self._inner.stream(request), self._metrics)

    async def close(self) -> None:
        await self._inner.close()


class _InstrumentedStream(AbstractAsyncContextManager[StreamReply]):
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
            self._metrics.observe_request("WATCH", code, time.perf_counter() - begin)

    async def __aexit__(self, *error: object) -> bool | None:
        return await self._inner.__aexit__(*error)  # type: ignore[arg-type]
