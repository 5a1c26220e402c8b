"""What happens around every RPC of a server: time limit, errors, metrics, and the end of streams.

- An RPC with one reply is ended after `max_unary_seconds`. Streams have no limit, but do not end by
  themselves: a stop of the server ends them with UNAVAILABLE, so that clients go elsewhere.
- An exception that is no gRPC status is logged; the client learns only that there was one.
- A request that is no message is answered with INVALID_ARGUMENT; a stream of requests ends.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from kilonova.kube.grpc.metrics import GrpcMetrics
from kilonova.kube.observability.structured_logging import get_logger

_log = get_logger(__name__)

_KINDS = {
    (False, False): "unary",
    (False, True): "server_stream",
    (True, False): "client_stream",
    (True, True): "bidi_stream",
}
_STOPPING = "the server is stopping"

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
Behaviour: TypeAlias = "Callable[[Any, Context], Any]"
Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"


@dataclass(eq=False, slots=True)
class _Stream:
    """A running stream.

    A write is never cancelled: gRPC sends the initial metadata with the first one, and after a
    cancelled write it sends them again with the status, which fails, so that the client never
    learns that the stream ended.
    """

    task: asyncio.Task[Any]
    is_writing: bool = False


@dataclass(frozen=True, slots=True)
class _Malformed:
    """Instead of a request that is no message."""

    problem: str


@dataclass(frozen=True, slots=True)
class _Rpc:
    kind: str
    service: str
    method: str


class RpcInterceptor(grpc.aio.ServerInterceptor):
    """Wraps the handlers of a server."""

    def __init__(
        self, server: str, max_unary_seconds: float, metrics: GrpcMetrics | None = None
    ) -> None:
        self._server = server
        self._max_unary_seconds = max_unary_seconds
        self._metrics = metrics
        self._streams: set[_Stream] = set()
        self._is_stopping = False

    def end_streams(self) -> None:
        """End all streams, those in a write after it, and every later one at once."""
        self._is_stopping = True
        for stream in self._streams:
            if not stream.is_writing:
                stream.task.cancel()

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler | None:
        handler = await continuation(handler_call_details)
        if handler is None:
            return None  # gRPC answers with UNIMPLEMENTED
        service, _, method = handler_call_details.method.lstrip("/").partition("/")
        streaming = (handler.request_streaming, handler.response_streaming)
        rpc = _Rpc(_KINDS[streaming], service, method)
        create, behaviour = _select(handler)
        run = self._run_stream if any(streaming) else self._run_unary

        async def call(request: Any, context: Context) -> Any:
            if isinstance(request, _Malformed):
                await context.abort(grpc.StatusCode.INVALID_ARGUMENT, request.problem)
            return await self._observe(rpc, context, run(behaviour, request, context))

        return create(
            call,
            request_deserializer=handler.request_deserializer
            if handler.request_streaming
            else _tolerate(handler.request_deserializer),
            response_serializer=handler.response_serializer,
        )

    async def _run_unary(self, behaviour: Behaviour, request: Any, context: Context) -> Any:
        deadline = asyncio.timeout(self._max_unary_seconds)
        try:
            async with deadline:
                return await behaviour(request, context)
        except TimeoutError:
            if not deadline.expired():
                raise
            await context.abort(
                grpc.StatusCode.DEADLINE_EXCEEDED,
                f"not finished within the server's limit of {self._max_unary_seconds:g} s",
            )

    async def _run_stream(self, behaviour: Behaviour, request: Any, context: Context) -> Any:
        task = asyncio.current_task()
        assert task is not None
        if self._is_stopping:
            await context.abort(grpc.StatusCode.UNAVAILABLE, _STOPPING)
        stream = _Stream(task)
        self._streams.add(stream)
        try:
            result = behaviour(request, context)
            if inspect.isawaitable(result):
                return await result
            async for reply in cast("AsyncIterator[Any]", result):
                stream.is_writing = True
                await context.write(reply)
                stream.is_writing = False
                if self._is_stopping:
                    break
            else:
                return None
        except asyncio.CancelledError:
            if not self._is_stopping or stream.is_writing:
                raise  # by the client, or by gRPC at the end of the grace period
        finally:
            self._streams.discard(stream)
        return await context.abort(grpc.StatusCode.UNAVAILABLE, _STOPPING)

    async def _observe(self, rpc: _Rpc, context: Context, running: Awaitable[Any]) -> Any:
        begin = time.perf_counter()
        if self._metrics is not None:
            self._metrics.count_start(rpc.kind, rpc.service, rpc.method)
        code = grpc.StatusCode.OK
        try:
            return await running
        except asyncio.CancelledError:
            code = grpc.StatusCode.CANCELLED
            raise
        except grpc.aio.AbortError:
            code = context.code()
            raise
        except grpc.aio.InternalError:
            # gRPC could not send: the client is gone.
            code = grpc.StatusCode.CANCELLED
            raise asyncio.CancelledError from None
        except Exception:
            code = grpc.StatusCode.INTERNAL
            _log.exception("RPC failed", server=self._server, service=rpc.service, rpc=rpc.method)
            await context.abort(code, "internal error: see the server's log")
        finally:
            if self._metrics is not None:
                seconds = time.perf_counter() - begin
                text = _format_code(code)
                self._metrics.observe_end(rpc.kind, rpc.service, rpc.method, text, seconds)


def _select(handler: Handler) -> tuple[Callable[..., Handler], Behaviour]:
    """How to build a handler of the same kind, and what the handler does."""
    if handler.request_streaming and handler.response_streaming:
        return grpc.stream_stream_rpc_method_handler, cast("Behaviour", handler.stream_stream)
    if handler.request_streaming:
        return grpc.stream_unary_rpc_method_handler, cast("Behaviour", handler.stream_unary)
    if handler.response_streaming:
        return grpc.unary_stream_rpc_method_handler, cast("Behaviour", handler.unary_stream)
    return grpc.unary_unary_rpc_method_handler, cast("Behaviour", handler.unary_unary)


def _tolerate(deserialize: Callable[[bytes], Any] | None) -> Callable[[bytes], Any] | None:
    if deserialize is None:
        return None

    def read(data: bytes) -> Any:
        try:
            return deserialize(data)
        except DecodeError as error:
            return _Malformed(f"the request is no message: {error}")

    return read


def _format_code(code: grpc.StatusCode) -> str:
    """A status as in the metrics of other languages: `NotFound`."""
    return "".join(part.capitalize() for part in code.name.split("_")).replace("Ok", "OK")
