"""Spans of requests, continuing the traces of the gateway (W3C trace context)."""

import re
import secrets
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from kilonova.serving.modelserver.otlp import trace_pb2
    from kilonova.serving.modelserver.otlp.exporter import SpanExporter

_TRACEPARENT = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")
_SAMPLED = 1


class RequestSpan(Protocol):
    """The span of a request."""

    def end(self, error: str = "") -> None:
        """The request has ended; with an error, it failed."""
        ...


class RequestTracing(Protocol):
    """Starts spans."""

    def start(self, name: str, model: str, headers: Mapping[str, str]) -> RequestSpan:
        """A span, part of the trace that `traceparent` in the headers names. Without one it is a
        trace of its own; one that the gateway does not sample is not sampled here."""
        ...

    async def close(self) -> None:
        """Send what has not been sent."""
        ...


class _NoSpan:
    def end(self, error: str = "") -> None:
        """There is no span."""


_NO_SPAN = _NoSpan()


class _NoTracing:
    def start(self, name: str, model: str, headers: Mapping[str, str]) -> RequestSpan:
        return _NO_SPAN

    async def close(self) -> None:
        """There is nothing to send."""


NO_TRACING: RequestTracing = _NoTracing()
"""Without an endpoint."""


class OtlpTracing:
    """Sends spans to an OTLP endpoint. Build it in the event loop that runs it."""

    def __init__(self, endpoint: str, service: str) -> None:
        from kilonova.serving.modelserver.otlp.exporter import SpanExporter

        self._exporter = SpanExporter(endpoint, service)

    def start(self, name: str, model: str, headers: Mapping[str, str]) -> RequestSpan:
        from kilonova.serving.modelserver.otlp import trace_pb2

        found = _TRACEPARENT.fullmatch(headers.get("traceparent", ""))
        if found is None:
            trace, parent = secrets.token_bytes(16), b""
        elif int(found[3], 16) & _SAMPLED:
            trace, parent = bytes.fromhex(found[1]), bytes.fromhex(found[2])
        else:
            return _NO_SPAN
        span = trace_pb2.Span(
            trace_id=trace,
            span_id=secrets.token_bytes(8),
            parent_span_id=parent,
            trace_state=headers.get("tracestate", ""),
            name=name,
            kind=trace_pb2.Span.SPAN_KIND_SERVER,
            start_time_unix_nano=time.time_ns(),
            attributes=[
                trace_pb2.KeyValue(key="model.name", value=trace_pb2.AnyValue(string_value=model))
            ],
        )

        return _OtlpSpan(span, self._exporter)

    async def close(self) -> None:
        await self._exporter.close()


class _OtlpSpan:
    def __init__(self, span: "trace_pb2.Span", exporter: "SpanExporter") -> None:
        self._span = span
        self._exporter = exporter

    def end(self, error: str = "") -> None:
        from kilonova.serving.modelserver.otlp import trace_pb2

        span = self._span
        span.end_time_unix_nano = time.time_ns()
        if error:
            span.status.code = trace_pb2.Status.STATUS_CODE_ERROR
            span.status.message = error
        self._exporter.add(span)
