"""The service of `agent.proto`, and its server."""

import time
from collections.abc import AsyncIterator

import grpc.aio

from kilonova.gpu.agent.grpc.agent_grpc import NodeAgentServicer
from kilonova.gpu.agent.grpc.agent_pb2 import (
    GetHealthRequest,
    GetTopologyRequest,
    Health,
    ListPartitionsRequest,
    Partitions,
    StreamTelemetryRequest,
    TelemetryWindow,
    Topology,
)
from kilonova.gpu.agent.grpc.messages import (
    build_health,
    build_partitions,
    build_topology_reply,
    build_window,
)
from kilonova.gpu.agent.local_agent import LocalAgent

PORT = 50052
_DEFAULT_WINDOW = 15.0
_MIN_WINDOW, _MAX_WINDOW = 1.0, 3600.0


class AgentServicer(NodeAgentServicer):
    """Answers from what the agent knows; no RPC reaches the driver."""

    def __init__(self, local: LocalAgent) -> None:
        self._local = local

    async def get_topology(
        self,
        request: GetTopologyRequest,
        context: "grpc.aio.ServicerContext[GetTopologyRequest, Topology]",
    ) -> Topology:
        return build_topology_reply(self._local.node, self._local.feed.inventory)

    async def get_health(
        self,
        request: GetHealthRequest,
        context: "grpc.aio.ServicerContext[GetHealthRequest, Health]",
    ) -> AsyncIterator[Health]:
        local = self._local
        last: Health | None = None
        while True:
            reply = build_health(local.node, local.feed.inventory, local.agent.health)
            if reply != last:
                yield reply
                last = reply
            if not request.watch:
                return
            async with local.changed:
                await local.changed.wait()

    async def list_partitions(
        self,
        request: ListPartitionsRequest,
        context: "grpc.aio.ServicerContext[ListPartitionsRequest, Partitions]",
    ) -> Partitions:
        local = self._local
        return build_partitions(
            local.node, local.feed.inventory, local.agent.engine.instances, local.holder_names()
        )

    async def stream_telemetry(
        self,
        request: StreamTelemetryRequest,
        context: "grpc.aio.ServicerContext[StreamTelemetryRequest, TelemetryWindow]",
    ) -> AsyncIterator[TelemetryWindow]:
        seconds = request.window_seconds or _DEFAULT_WINDOW
        if not _MIN_WINDOW <= seconds <= _MAX_WINDOW:
            await context.abort(
                grpc.StatusCode.INVALID_ARGUMENT,
                f"window_seconds is {seconds:g}: it must be {_MIN_WINDOW:g} to {_MAX_WINDOW:g}",
            )
        collector = self._local.telemetry
        stream = collector.open_stream()
        try:
            while True:
                await collector.sleep(seconds)
                offset = time.time() - collector.now()
                windows = stream.take(collector.now())
                yield build_window(self._local.node, windows, offset)
        finally:
            collector.close_stream(stream)
