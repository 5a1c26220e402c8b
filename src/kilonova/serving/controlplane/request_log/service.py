"""`envoy.service.accesslog.v3.AccessLogService` over gRPC."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, TypeAlias

import grpc
import grpc.aio

from kilonova.api.serving import TracedRequest
from kilonova.kube.grpc import GrpcService
from kilonova.serving.controlplane.ads.service import get_refusal_code
from kilonova.serving.controlplane.authentication import Authenticator, CallRefused
from kilonova.serving.controlplane.request_log.messages import decode_log, encode_nothing
from kilonova.serving.controlplane.request_log.recent import RecentRequests

NAME = "envoy.service.accesslog.v3.AccessLogService"

_PAUSE_SECONDS = 0.1
"""After each message of a gateway, which has about a hundred requests: if it sends more, it drops
what is not read here. What this costs has a bound, however many requests are traced."""

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
Messages: TypeAlias = "AsyncIterator[tuple[TracedRequest, ...]]"


class RequestLogService:
    """Takes in what gateways log."""

    def __init__(self, recent: RecentRequests, authenticator: Authenticator) -> None:
        self._recent = recent
        self._authenticator = authenticator

    def build_service(self) -> GrpcService:
        """The service for a server."""
        handler = grpc.stream_unary_rpc_method_handler(
            self.stream_access_logs,  # pyright: ignore[reportArgumentType]  # of asyncio
            request_deserializer=decode_log,
            response_serializer=encode_nothing,
        )
        return GrpcService(NAME, {"StreamAccessLogs": handler})

    async def stream_access_logs(self, messages: Messages, context: Context) -> None:
        """Read the log of a gateway, until it leaves."""
        try:
            key = self._authenticator.verify_call(context.invocation_metadata() or ())
        except CallRefused as error:
            await context.abort(get_refusal_code(error), str(error))
            raise
        async for requests in messages:
            self._recent.add(key, requests)
            await asyncio.sleep(_PAUSE_SECONDS)
