"""Model servers of tests: v2 over gRPC and HTTP, in the event loop of the test.

Servers of a group have the same ports, so each has an address of its own: 127.0.0.2, 127.0.0.3, …
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import grpc
from aiohttp import web

from kilonova.kube.grpc import GrpcServer, ServerLimits
from kilonova.serving.controlplane.answers.json_forms import encode_message
from kilonova.serving.grpc import inference_pb2 as pb
from kilonova.serving.grpc.inference_grpc import (
    GRPCInferenceServiceServicer,
    grpc_inference_service_service,
)
from tests.harness.server_process import find_free_port

_addresses = count(2)


@dataclass(frozen=True)
class Ports:
    """The ports of a group."""

    http: int = field(default_factory=find_free_port)
    grpc: int = field(default_factory=find_free_port)


@dataclass
class ModelServer(GRPCInferenceServiceServicer):
    """A server: it answers with its name, and counts."""

    name: str
    ports: Ports
    models: tuple[str, ...] = ("add",)
    address: str = field(default_factory=lambda: f"127.0.0.{next(_addresses) % 250 + 2}")
    served: int = 0
    delay: float = 0.0
    answers_questions: bool = True
    """Otherwise it fails on all but inference."""

    async def answer_http(self, request: web.Request) -> web.Response:
        if request.path == "/v2/health/ready":
            return web.Response()
        if request.path == "/v1/models":
            data = [{"id": each, "object": "model"} for each in self.models]
            return web.json_response({"object": "list", "data": data})
        if request.path == "/v2/repository/index":
            index = await self.repository_index(pb.RepositoryIndexRequest(), None)
            return web.Response(body=encode_message(index))
        body = await request.read()
        await asyncio.sleep(self.delay)
        self.served += 1
        return web.Response(text=self.name, headers={"x-body-bytes": str(len(body))})

    async def server_live(self, request: Any, context: Any) -> pb.ServerLiveResponse:
        return pb.ServerLiveResponse(live=True)

    async def server_ready(self, request: Any, context: Any) -> pb.ServerReadyResponse:
        return pb.ServerReadyResponse(ready=True)

    async def model_ready(self, request: Any, context: Any) -> pb.ModelReadyResponse:
        return pb.ModelReadyResponse(ready=request.name in self.models)

    async def server_metadata(self, request: Any, context: Any) -> pb.ServerMetadataResponse:
        await self._check(context)
        return pb.ServerMetadataResponse(name="test", version="1", extensions=["statistics"])

    async def model_metadata(
        self, request: pb.ModelMetadataRequest, context: Any
    ) -> pb.ModelMetadataResponse:
        await self._check(context, request.name)
        tensor = pb.ModelMetadataResponse.TensorMetadata(name="x", datatype="FP32", shape=[-1, 4])
        return pb.ModelMetadataResponse(name=request.name, versions=["1"], inputs=[tensor])

    async def model_config(
        self, request: pb.ModelConfigRequest, context: Any
    ) -> pb.ModelConfigResponse:
        await self._check(context, request.name)
        return pb.ModelConfigResponse(config=pb.ModelConfig(name=request.name, max_batch_size=8))

    async def model_infer(
        self, request: pb.ModelInferRequest, context: Any
    ) -> pb.ModelInferResponse:
        await asyncio.sleep(self.delay)
        self.served += 1
        return pb.ModelInferResponse(
            model_name=request.model_name,
            id=self.name,
            model_version=str(sum(map(len, request.raw_input_contents))),
        )

    async def model_stream_infer(
        self, requests: AsyncIterator[pb.ModelInferRequest], context: Any
    ) -> AsyncIterator[pb.ModelStreamInferResponse]:
        async for request in requests:
            answer = await self.model_infer(request, context)
            yield pb.ModelStreamInferResponse(infer_response=answer)

    async def model_statistics(self, request: Any, context: Any) -> pb.ModelStatisticsResponse:
        await self._check(context)
        found = pb.ModelStatisticsResponse()
        for name in self.models:
            model = found.model_stats.add(name=name, version="1", inference_count=self.served)
            model.inference_stats.success.count = self.served
            model.inference_stats.success.ns = 1000 * self.served
        return found

    async def repository_index(self, request: Any, context: Any) -> pb.RepositoryIndexResponse:
        await self._check(context)
        return pb.RepositoryIndexResponse(
            models=[
                pb.RepositoryIndexResponse.ModelIndex(name=each, version="1", state="READY")
                for each in self.models
            ]
        )

    async def repository_model_load(self, request: Any, context: Any) -> Any:
        raise NotImplementedError

    async def repository_model_unload(self, request: Any, context: Any) -> Any:
        raise NotImplementedError

    async def _check(self, context: Any, model: str = "") -> None:
        if not self.answers_questions:
            await context.abort(grpc.StatusCode.INTERNAL, "out of order")
        if model and model not in self.models:
            await context.abort(grpc.StatusCode.NOT_FOUND, f"unknown model {model!r}")


@contextlib.asynccontextmanager
async def run_model_server(
    name: str, ports: Ports, *models: str, **fields: Any
) -> AsyncGenerator[ModelServer]:
    """A server from start to stop; it stops at once, as if it crashed."""
    server = ModelServer(name, ports, models or ("add",), **fields)
    application = web.Application(client_max_size=1 << 30)
    application.router.add_route("*", "/{path:.*}", server.answer_http)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, server.address, ports.http).start()
    rpc = GrpcServer(
        name,
        [grpc_inference_service_service(server)],
        f"{server.address}:{ports.grpc}",
        limits=ServerLimits(
            max_request_bytes=1 << 30, max_concurrent_rpcs=10_000, max_streams_per_connection=10_000
        ),
        grace=0.1,
    )
    rpc.bind()
    running = asyncio.create_task(rpc.run())
    try:
        yield server
    finally:
        rpc.stop()
        await running
        await runner.cleanup()
