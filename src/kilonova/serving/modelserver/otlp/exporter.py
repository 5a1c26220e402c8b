"""Sends spans to an OTLP endpoint in the background: a batch a second, if there are any.

Spans are dropped, and counted in the log, where the endpoint does not take them or there are too
many: tracing never delays a request.
"""

import asyncio
import contextlib

import grpc.aio

from kilonova import __version__
from kilonova.kube.observability.structured_logging import get_logger
from kilonova.serving.modelserver.otlp import trace_pb2 as pb

_METHOD = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
_SECONDS = 1.0
_TIMEOUT = 5.0
_MAX_SPANS = 4096
_log = get_logger(__name__)


class SpanExporter:
    """Build it in the event loop that runs it; `close` it at the end."""

    def __init__(self, endpoint: str, service: str) -> None:
        self._endpoint = endpoint
        self._resource = pb.Resource(
            attributes=[
                pb.KeyValue(key="service.name", value=pb.AnyValue(string_value=service)),
                pb.KeyValue(key="service.version", value=pb.AnyValue(string_value=__version__)),
            ]
        )
        self._spans: list[pb.Span] = []
        self._dropped = 0
        self._has_spans = asyncio.Event()
        self._channel = grpc.aio.insecure_channel(endpoint)
        self._export = self._channel.unary_unary(
            _METHOD,
            request_serializer=pb.ExportTraceServiceRequest.SerializeToString,
            response_deserializer=pb.ExportTraceServiceResponse.FromString,
        )
        self._task = asyncio.create_task(self._run(), name="otlp")

    def add(self, span: pb.Span) -> None:
        """Send a span that has ended."""
        if len(self._spans) < _MAX_SPANS:
            self._spans.append(span)
            self._has_spans.set()
        else:
            self._dropped += 1

    async def close(self) -> None:
        """Send what is left."""
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task
        await self._flush()
        await self._channel.close()

    async def _run(self) -> None:
        while True:
            await self._has_spans.wait()
            await asyncio.sleep(_SECONDS)
            await self._flush()

    async def _flush(self) -> None:
        spans, self._spans = self._spans, []
        dropped, self._dropped = self._dropped, 0
        self._has_spans.clear()
        if not spans:
            return
        scope = pb.InstrumentationScope(name="kilonova.serving.modelserver", version=__version__)
        scope_spans = pb.ScopeSpans(scope=scope, spans=spans)
        request = pb.ExportTraceServiceRequest(
            resource_spans=[pb.ResourceSpans(resource=self._resource, scope_spans=[scope_spans])]
        )
        try:
            await self._export(request, timeout=_TIMEOUT)
        except asyncio.CancelledError:
            self._spans = spans + self._spans
            raise
        except grpc.aio.AioRpcError as error:
            dropped += len(spans)
            problem = f"{error.code().name}: {error.details()}"
            _log.warning("spans not sent", endpoint=self._endpoint, spans=dropped, problem=problem)
        else:
            if dropped:
                _log.warning("spans dropped: too many a second", spans=dropped)
