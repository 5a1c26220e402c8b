"""The v2 protocol over gRPC."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, NoReturn, TypeVar

import grpc
import grpc.aio
from google.protobuf.json_format import ParseDict
from google.protobuf.message import Message

from kilonova.serving.grpc import inference_pb2 as pb
from kilonova.serving.grpc.inference_grpc import GRPCInferenceServiceServicer
from kilonova.serving.modelserver.errors import InferenceFailed
from kilonova.serving.modelserver.registry import ModelRegistry
from kilonova.serving.modelserver.tracing import NO_TRACING, RequestTracing
from kilonova.serving.modelserver.v2.grpc_messages import build_response, read_request
from kilonova.serving.modelserver.v2.http_handlers import (
    describe_statistics,
    find_tensor_model,
    refuse_load_parameters,
)
from kilonova.serving.modelserver.v2.messages import describe_server

_STREAM_REQUESTS = 64
"""Requests of a stream that are executed at the same time."""

M = TypeVar("M", bound=Message)
Context = grpc.aio.ServicerContext[Any, Any]


class InferenceServicer(GRPCInferenceServiceServicer):
    """Answers from the registry."""

    def __init__(
        self,
        registry: ModelRegistry,
        is_ready: Callable[[], bool],
        tracing: RequestTracing = NO_TRACING,
    ) -> None:
        self._registry = registry
        self._is_ready = is_ready
        self._tracing = tracing

    async def server_live(
        self, request: pb.ServerLiveRequest, context: Context
    ) -> pb.ServerLiveResponse:
        return pb.ServerLiveResponse(live=True)

    async def server_ready(
        self, request: pb.ServerReadyRequest, context: Context
    ) -> pb.ServerReadyResponse:
        return pb.ServerReadyResponse(ready=self._is_ready())

    async def model_ready(
        self, request: pb.ModelReadyRequest, context: Context
    ) -> pb.ModelReadyResponse:
        try:
            ready = self._registry.is_ready(request.name, request.version)
        except InferenceFailed as error:
            await _abort(context, error)
        return pb.ModelReadyResponse(ready=ready)

    async def server_metadata(
        self, request: pb.ServerMetadataRequest, context: Context
    ) -> pb.ServerMetadataResponse:
        return pb.ServerMetadataResponse(**describe_server())

    async def model_metadata(
        self, request: pb.ModelMetadataRequest, context: Context
    ) -> pb.ModelMetadataResponse:
        try:
            spec = self._registry.find(request.name, request.version).spec
        except InferenceFailed as error:
            await _abort(context, error)
        return ParseDict(spec.describe(), pb.ModelMetadataResponse())

    async def model_infer(
        self, request: pb.ModelInferRequest, context: Context
    ) -> pb.ModelInferResponse:
        if self._tracing is NO_TRACING:  # without reading the metadata
            try:
                return await self._infer(request)
            except InferenceFailed as error:
                await _abort(context, error)
        span = self._tracing.start("ModelInfer", request.model_name, _read_metadata(context))
        try:
            response = await self._infer(request)
        except InferenceFailed as error:
            span.end(str(error))
            await _abort(context, error)
        span.end()
        return response

    async def model_stream_infer(
        self, requests: AsyncIterator[pb.ModelInferRequest], context: Context
    ) -> AsyncIterator[pb.ModelStreamInferResponse]:
        running: asyncio.Queue[asyncio.Task[pb.ModelStreamInferResponse] | None] = asyncio.Queue(
            _STREAM_REQUESTS
        )

        async def start_all() -> None:
            async for request in requests:
                await running.put(asyncio.create_task(self._infer_in_stream(request)))
            await running.put(None)

        starting = asyncio.create_task(start_all())
        try:
            while (task := await running.get()) is not None:
                yield await task
        finally:
            starting.cancel()
            while not running.empty():
                if (task := running.get_nowait()) is not None:
                    task.cancel()

    async def model_config(
        self, request: pb.ModelConfigRequest, context: Context
    ) -> pb.ModelConfigResponse:
        try:
            spec = self._registry.find(request.name, request.version).spec
        except InferenceFailed as error:
            await _abort(context, error)
        return ParseDict({"config": spec.describe_config()}, pb.ModelConfigResponse())

    async def model_statistics(
        self, request: pb.ModelStatisticsRequest, context: Context
    ) -> pb.ModelStatisticsResponse:
        try:
            found = describe_statistics(self._registry, request.name, request.version)
        except InferenceFailed as error:
            await _abort(context, error)
        return ParseDict({"model_stats": found}, pb.ModelStatisticsResponse())

    async def repository_index(
        self, request: pb.RepositoryIndexRequest, context: Context
    ) -> pb.RepositoryIndexResponse:
        index = self._registry.describe_index(only_ready=request.ready)
        return ParseDict({"models": index}, pb.RepositoryIndexResponse())

    async def repository_model_load(
        self, request: pb.RepositoryModelLoadRequest, context: Context
    ) -> pb.RepositoryModelLoadResponse:
        try:
            refuse_load_parameters(request.parameters)
            await self._registry.load(request.model_name)
        except InferenceFailed as error:
            await _abort(context, error)
        return pb.RepositoryModelLoadResponse()

    async def repository_model_unload(
        self, request: pb.RepositoryModelUnloadRequest, context: Context
    ) -> pb.RepositoryModelUnloadResponse:
        try:
            await self._registry.unload(request.model_name)
        except InferenceFailed as error:
            await _abort(context, error)
        return pb.RepositoryModelUnloadResponse()

    async def _infer(self, message: pb.ModelInferRequest) -> pb.ModelInferResponse:
        model = find_tensor_model(self._registry, message.model_name, message.model_version)
        request = read_request(message)
        outputs = await model.infer(request.inputs, request.outputs)
        return build_response(request, model.spec.version, outputs)

    async def _infer_in_stream(self, request: pb.ModelInferRequest) -> pb.ModelStreamInferResponse:
        try:
            return pb.ModelStreamInferResponse(infer_response=await self._infer(request))
        except InferenceFailed as error:
            failed = pb.ModelInferResponse(model_name=request.model_name, id=request.id)
            return pb.ModelStreamInferResponse(error_message=str(error), infer_response=failed)


async def _abort(context: Context, error: InferenceFailed) -> NoReturn:
    await context.abort(grpc.StatusCode[error.kind.name], str(error))
    raise AssertionError  # abort raises


def _read_metadata(context: Context) -> dict[str, str]:
    return {
        key: value for key, value in context.invocation_metadata() or () if isinstance(value, str)
    }
