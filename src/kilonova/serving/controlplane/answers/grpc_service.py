"""`inference.GRPCInferenceService` for whole services."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable
from typing import Any, NoReturn, TypeAlias, TypeVar

import grpc
import grpc.aio

from kilonova.serving.controlplane.ads.service import get_refusal_code
from kilonova.serving.controlplane.answers.service_answers import NoAnswer, ServiceAnswers
from kilonova.serving.controlplane.authentication import Authenticator, CallRefused
from kilonova.serving.controlplane.holds.answer import HoldOutcome
from kilonova.serving.controlplane.holds.requests import HoldUnavailable
from kilonova.serving.gateway.model import ServiceKey
from kilonova.serving.grpc import inference_pb2 as pb
from kilonova.serving.grpc.inference_grpc import GRPCInferenceServiceServicer

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
A = TypeVar("A")


class InferenceAnswers(GRPCInferenceServiceServicer):
    """Answers what concerns all servers. Inference itself never comes here."""

    def __init__(self, answers: ServiceAnswers, authenticator: Authenticator) -> None:
        self._answers = answers
        self._authenticator = authenticator

    async def server_live(
        self, request: pb.ServerLiveRequest, context: Context
    ) -> pb.ServerLiveResponse:
        await self._verify(context)
        return pb.ServerLiveResponse(live=True)

    async def server_ready(
        self, request: pb.ServerReadyRequest, context: Context
    ) -> pb.ServerReadyResponse:
        key = await self._verify(context)
        return pb.ServerReadyResponse(ready=self._answers.is_ready(key))

    async def model_ready(
        self, request: pb.ModelReadyRequest, context: Context
    ) -> pb.ModelReadyResponse:
        key = await self._verify(context)
        asked = self._answers.is_model_ready(key, request.name, request.version)
        return pb.ModelReadyResponse(ready=await _answer(asked, context))

    async def server_metadata(
        self, request: pb.ServerMetadataRequest, context: Context
    ) -> pb.ServerMetadataResponse:
        key = await self._verify(context)
        return await _answer(self._answers.get_server_metadata(key), context)

    async def model_metadata(
        self, request: pb.ModelMetadataRequest, context: Context
    ) -> pb.ModelMetadataResponse:
        key = await self._verify(context)
        asked = self._answers.get_model_metadata(key, request.name, request.version)
        return await _answer(asked, context)

    async def model_config(
        self, request: pb.ModelConfigRequest, context: Context
    ) -> pb.ModelConfigResponse:
        key = await self._verify(context)
        asked = self._answers.get_model_config(key, request.name, request.version)
        return await _answer(asked, context)

    async def model_statistics(
        self, request: pb.ModelStatisticsRequest, context: Context
    ) -> pb.ModelStatisticsResponse:
        key = await self._verify(context)
        asked = self._answers.get_statistics(key, request.name, request.version)
        return await _answer(asked, context)

    async def repository_index(
        self, request: pb.RepositoryIndexRequest, context: Context
    ) -> pb.RepositoryIndexResponse:
        key = await self._verify(context)
        return await _answer(self._answers.get_index(key, ready=request.ready), context)

    async def model_infer(
        self, request: pb.ModelInferRequest, context: Context
    ) -> pb.ModelInferResponse:
        await _abort_unimplemented(context)

    async def model_stream_infer(
        self, requests: AsyncIterator[pb.ModelInferRequest], context: Context
    ) -> AsyncIterator[pb.ModelStreamInferResponse]:
        await _abort_unimplemented(context)
        yield  # makes it the stream that it is declared to be

    async def repository_model_load(
        self, request: pb.RepositoryModelLoadRequest, context: Context
    ) -> pb.RepositoryModelLoadResponse:
        await _abort_unimplemented(context)

    async def repository_model_unload(
        self, request: pb.RepositoryModelUnloadRequest, context: Context
    ) -> pb.RepositoryModelUnloadResponse:
        await _abort_unimplemented(context)

    async def _verify(self, context: Context) -> ServiceKey:
        try:
            return self._authenticator.verify_call(context.invocation_metadata() or ())
        except CallRefused as error:
            await context.abort(get_refusal_code(error), str(error))
            raise


async def _answer(asked: Awaitable[A], context: Context) -> A:
    try:
        return await asked
    except NoAnswer as error:
        await context.abort(_get_code(error), str(error))
        raise
    except HoldUnavailable as error:
        await context.abort(grpc.StatusCode.UNAVAILABLE, str(error))
        raise


def _get_code(error: NoAnswer) -> grpc.StatusCode:
    if error.outcome is None:
        return grpc.StatusCode.NOT_FOUND
    if error.outcome is HoldOutcome.FULL:
        return grpc.StatusCode.RESOURCE_EXHAUSTED
    return grpc.StatusCode.UNAVAILABLE


async def _abort_unimplemented(context: Context) -> NoReturn:
    await context.abort(
        grpc.StatusCode.UNIMPLEMENTED,
        "only servers do this; models are placed by spec.servers[].modelPlacement",
    )
    raise AssertionError("abort raises")
