"""Metrics of gRPC servers, under the names that gRPC's Prometheus middleware has for them."""

from prometheus_client import CollectorRegistry

from kilonova.kube.observability.metric_factory import MetricFactory

_LABELS = ("grpc_type", "grpc_service", "grpc_method")


class GrpcMetrics:
    """The metrics of all gRPC servers of a process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        create = MetricFactory(registry)
        self._started = create.counter("grpc_server_started_total", "RPCs started", *_LABELS)
        self._handled = create.counter(
            "grpc_server_handled_total", "RPCs ended, by status", *_LABELS, "grpc_code"
        )
        self._seconds = create.histogram(
            "grpc_server_handling_seconds", "Duration of an RPC", *_LABELS
        )

    def count_start(self, kind: str, service: str, method: str) -> None:
        """Count an RPC that starts; `kind` is `unary`, `server_stream` and the like."""
        self._started(kind, service, method).inc()

    def observe_end(self, kind: str, service: str, method: str, code: str, seconds: float) -> None:
        """Record an RPC that ended, with its status in the form `NotFound`."""
        self._handled(kind, service, method, code).inc()
        self._seconds(kind, service, method).observe(seconds)
