"""Traces of requests by OTLP, continuing those of the gateway. OpenTelemetry is loaded only for
them."""

from collections.abc import Mapping
from typing import Any, Protocol

from kilonova.component.failure import CommandFailed


class RequestSpan(Protocol):
    """The span of a request."""

    def end(self, error: str = "") -> None:
        """The request has ended; with an error, it failed."""
        ...


class RequestTracing(Protocol):
    """Starts spans."""

    def start(self, name: str, model: str, headers: Mapping[str, str]) -> RequestSpan:
        """A span, part of the trace that `traceparent` in the headers names."""
        ...

    def close(self) -> None:
        """Send what has not been sent."""
        ...


class _NoSpan:
    def end(self, error: str = "") -> None:
        """There is no span."""


class _NoTracing:
    _SPAN = _NoSpan()

    def start(self, name: str, model: str, headers: Mapping[str, str]) -> RequestSpan:
        return self._SPAN

    def close(self) -> None:
        """There is nothing to send."""


NO_TRACING: RequestTracing = _NoTracing()
"""Without an endpoint."""


class _OtlpSpan:
    def __init__(self, span: Any) -> None:
        self._span = span

    def end(self, error: str = "") -> None:
        if error:
            from opentelemetry.trace import Status, StatusCode

            self._span.set_status(Status(StatusCode.ERROR, error))
        self._span.end()


class OtlpTracing:
    """Sends spans to an OTLP endpoint, in the background. A trace that the gateway does not sample
    is not sampled here."""

    def __init__(self, endpoint: str, service: str) -> None:
        try:
            from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
            from opentelemetry.sdk.resources import Resource
            from opentelemetry.sdk.trace import TracerProvider
            from opentelemetry.sdk.trace.export import BatchSpanProcessor
            from opentelemetry.trace import SpanKind
            from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
        except ModuleNotFoundError as error:
            raise CommandFailed(
                f"--otlp-endpoint needs {error.name}: pip install 'kilonova[tracing]'"
            ) from error
        self._provider = TracerProvider(resource=Resource.create({"service.name": service}))
        exporter = OTLPSpanExporter(endpoint=endpoint, insecure=True)
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("kilonova.serving.modelserver")
        self._propagator = TraceContextTextMapPropagator()
        self._kind = SpanKind.SERVER

    def start(self, name: str, model: str, headers: Mapping[str, str]) -> RequestSpan:
        parent = self._propagator.extract(headers)
        attributes = {"model.name": model}
        return _OtlpSpan(
            self._tracer.start_span(name, parent, kind=self._kind, attributes=attributes)
        )

    def close(self) -> None:
        self._provider.shutdown()
