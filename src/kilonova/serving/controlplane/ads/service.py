"""`envoy.service.discovery.v3.AggregatedDiscoveryService` over gRPC."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, TypeAlias

import grpc
import grpc.aio

from kilonova.kube.grpc import GrpcService
from kilonova.serving.controlplane.ads.connections import Connection, GatewayConnections
from kilonova.serving.controlplane.ads.messages import decode_request, encode_response
from kilonova.serving.controlplane.ads.stream import DiscoveryRequest, DiscoveryResponse
from kilonova.serving.controlplane.authentication import Authenticator, CallRefused

NAME = "envoy.service.discovery.v3.AggregatedDiscoveryService"

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
Requests: TypeAlias = "AsyncIterator[DiscoveryRequest | None]"


class DiscoveryService:
    """Serves the streams of gateways."""

    def __init__(self, connections: GatewayConnections, authenticator: Authenticator) -> None:
        self._connections = connections
        self._authenticator = authenticator

    def build_service(self) -> GrpcService:
        """The service for a server."""
        handler = grpc.stream_stream_rpc_method_handler(
            self.stream_aggregated_resources,  # pyright: ignore[reportArgumentType]  # of asyncio
            request_deserializer=decode_request,
            response_serializer=encode_response,
        )
        return GrpcService(NAME, {"StreamAggregatedResources": handler})

    async def stream_aggregated_resources(
        self, requests: Requests, context: Context
    ) -> AsyncIterator[DiscoveryResponse]:
        """Send what a gateway subscribes to, and what changes of it, until it leaves."""
        first = await anext(aiter(requests), None)
        if first is None:
            return
        try:
            metadata = context.invocation_metadata() or ()
            key = self._authenticator.verify_stream(first.service, metadata)
        except CallRefused as error:
            await context.abort(get_refusal_code(error), str(error))
            return
        with self._connections.open(key, first.node) as connection:
            self._connections.receive(connection, first)
            reader = asyncio.create_task(self._read(requests, connection))
            reader.add_done_callback(_take_error)
            try:
                while not reader.done():
                    await connection.wake.wait()
                    connection.wake.clear()
                    while (response := self._connections.plan(connection)) is not None:
                        yield response
            finally:
                reader.cancel()

    async def _read(self, requests: Requests, connection: Connection) -> None:
        try:
            async for request in requests:
                if request is not None:
                    self._connections.receive(connection, request)
        finally:
            connection.wake.set()


def _take_error(reader: asyncio.Task[None]) -> None:
    """A call that is aborted ends its reader, too, by an error that says no more."""
    if not reader.cancelled():
        reader.exception()


def get_refusal_code(error: CallRefused) -> grpc.StatusCode:
    """The status of a call that is refused."""
    temporary, permanent = grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.UNAUTHENTICATED
    return temporary if error.is_temporary else permanent
