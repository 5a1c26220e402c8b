"""The API of a server that has gRPC alone."""

from collections.abc import Awaitable
from typing import TypeVar

import grpc
import grpc.aio

from kilonova.kube.grpc import ClientSettings, GrpcClient
from kilonova.serving.grpc import inference_pb2
from kilonova.serving.grpc.inference_grpc import GRPCInferenceServiceStub
from kilonova.serving.models.server_api import (
    MAX_REPLY_BYTES,
    Index,
    ModelCounters,
    ServerFailed,
    merge_state,
    shorten,
)

T = TypeVar("T")

_LONGEST_SECONDS = 24 * 3600.0
"""Callers limit the time; the deadline of the client is not theirs."""


class GrpcServerApi:
    """A `ServerApi` over gRPC."""

    def __init__(self, target: str) -> None:
        settings = ClientSettings(attempts=1, max_reply_bytes=MAX_REPLY_BYTES)
        self._client = GrpcClient(target, settings=settings)

    async def read_index(self) -> Index:
        request = inference_pb2.RepositoryIndexRequest()
        reply = await _call(self._stub.repository_index(request, timeout=_LONGEST_SECONDS))
        index: Index = {}
        for each in reply.models:
            merge_state(index, each.name, each.state)
        return index

    async def read_counters(self) -> dict[str, ModelCounters]:
        request = inference_pb2.ModelStatisticsRequest()
        reply = await _call(self._stub.model_statistics(request, timeout=_LONGEST_SECONDS))
        counters: dict[str, ModelCounters] = {}
        for each in reply.model_stats:
            stats, former = each.inference_stats, counters.get(each.name, ModelCounters())
            counters[each.name] = ModelCounters(
                former.requests + stats.success.count + stats.fail.count,
                former.busy_ns + stats.success.ns + stats.fail.ns,
            )
        return counters

    async def load(self, model: str) -> None:
        request = inference_pb2.RepositoryModelLoadRequest(model_name=model)
        await _call(self._stub.repository_model_load(request, timeout=_LONGEST_SECONDS))

    async def unload(self, model: str) -> None:
        request = inference_pb2.RepositoryModelUnloadRequest(model_name=model)
        await _call(self._stub.repository_model_unload(request, timeout=_LONGEST_SECONDS))

    async def close(self) -> None:
        await self._client.close()

    @property
    def _stub(self) -> GRPCInferenceServiceStub:
        return self._client.stub(GRPCInferenceServiceStub)


async def _call(call: Awaitable[T]) -> T:
    try:
        return await call
    except grpc.aio.AioRpcError as error:
        details = error.details() or error.code().name
        is_gone = error.code() is grpc.StatusCode.UNAVAILABLE and "refused" in details
        raise ServerFailed(shorten(details), is_gone) from error
