"""The gRPC target counts what a server did, whose every answer is known."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import grpc
import grpc.aio
import pytest

from kilonova.component.failure import CommandFailed
from kilonova.serving.grpc import inference_pb2 as pb
from kilonova.serving.loadtest.outcome import Outcome
from kilonova.serving.loadtest.profile import build_constant_profile
from kilonova.serving.loadtest.recorder import Recorder
from kilonova.serving.loadtest.runner import LoadPlan, LoadRun
from kilonova.serving.loadtest.targets.address import Address
from kilonova.serving.loadtest.targets.options import TargetOptions, TensorOptions, TlsFiles
from kilonova.serving.loadtest.targets.selection import build_target

PREFIX = "/inference.GRPCInferenceService/"


class Handler(grpc.GenericRpcHandler):
    """A model `add`; every third inference fails, and every tenth is answered with nothing."""

    def __init__(self) -> None:
        self.requests: list[pb.ModelInferRequest] = []
        self.keys: set[object] = set()
        self.peers: set[str] = set()

    def service(
        self, handler_call_details: grpc.HandlerCallDetails
    ) -> grpc.RpcMethodHandler | None:
        method = handler_call_details.method.removeprefix(PREFIX)
        handlers = {
            "RepositoryIndex": self.index,
            "ModelMetadata": self.metadata,
            "ModelInfer": self.infer,
        }
        found = handlers.get(method)
        return None if found is None else grpc.unary_unary_rpc_method_handler(found)

    async def index(self, request: bytes, context: grpc.aio.ServicerContext) -> bytes:
        entry = pb.RepositoryIndexResponse.ModelIndex(name="add", version="1", state="READY")
        return pb.RepositoryIndexResponse(models=[entry]).SerializeToString()

    async def metadata(self, request: bytes, context: grpc.aio.ServicerContext) -> bytes:
        name = pb.ModelMetadataRequest.FromString(request).name
        if name != "add":
            await context.abort(grpc.StatusCode.NOT_FOUND, f"unknown model {name}")
        tensor = pb.ModelMetadataResponse.TensorMetadata
        inputs = [
            tensor(name="A", datatype="FP32", shape=[-1, 2]),
            tensor(name="B", datatype="BYTES", shape=[-1]),
        ]
        return pb.ModelMetadataResponse(name=name, inputs=inputs).SerializeToString()

    async def infer(self, request: bytes, context: grpc.aio.ServicerContext) -> bytes:
        number = len(self.requests)
        self.requests.append(pb.ModelInferRequest.FromString(request))
        self.keys.add(dict(context.invocation_metadata() or ()).get("x-api-key"))
        self.peers.add(context.peer())
        if number % 3 == 2:
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "the queue is full")
        if number % 10 == 0:
            return b""
        return pb.ModelInferResponse(model_name="add").SerializeToString()


@asynccontextmanager
async def serve() -> AsyncGenerator[tuple[Address, Handler]]:
    handler = Handler()
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((handler,))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    yield Address("grpc", "127.0.0.1", port), handler
    await server.stop(None)


async def test_statuses_and_empty_answers_are_counted() -> None:
    async with serve() as (address, handler):
        options = TargetOptions(
            tensors=TensorOptions(batch=3), headers={"X-API-Key": "k"}, connections=2
        )
        target = await build_target(address, "v2-grpc", options)
        plan = LoadPlan(kind="closed", profile=build_constant_profile(4, 60), max_requests=60)
        recorder = Recorder()
        await LoadRun(target, plan, recorder).run()
        await target.close()
    counts = {status: failure.count for status, failure in recorder.failures.items()}
    assert counts == {"RESOURCE_EXHAUSTED": 20, "OK, empty": 4}
    assert recorder.failures["RESOURCE_EXHAUSTED"].messages == ["the queue is full"]
    assert recorder.succeeded == 36
    assert handler.keys == {"k"}
    assert len(handler.peers) == 2
    request = handler.requests[0]
    assert (request.model_name, [list(each.shape) for each in request.inputs]) == (
        "add",
        [[3, 2], [3]],
    )
    assert len(request.raw_input_contents[0]) == 3 * 2 * 4
    assert request.raw_input_contents[1].startswith(b"\x06\x00\x00\x00text ")


async def test_request_in_json_is_sent_as_tensors() -> None:
    async with serve() as (address, handler):
        tensor = {"name": "A", "datatype": "INT16", "shape": [2, 1], "data": [[1], [-2]]}
        options = TargetOptions(model="add", bodies=({"inputs": [tensor]},))
        target = await build_target(address, "v2-grpc", options)
        await target.send()
        outcome = await target.send()
        await target.close()
    assert outcome == Outcome("OK", True)
    assert handler.requests[0].raw_input_contents == [b"\x01\x00\xfe\xff"]


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ({}, "--body, request 1: inputs: is missing"),
        ({"inputs": []}, "--body, request 1: inputs: a list is invalid"),
        (
            {"inputs": [{"name": "A", "datatype": "FP4", "shape": [1], "data": [1]}]},
            "inputs\\[0\\].datatype: FP4 is unknown: choose from BOOL",
        ),
        (
            {"inputs": [{"name": "A", "datatype": "FP32", "shape": [3], "data": [1]}]},
            "inputs\\[0\\].data: has 1 values, and the shape \\[3\\] has 3",
        ),
        (
            {"inputs": [{"name": "A", "datatype": "INT8", "shape": [1], "data": [1000]}]},
            "input A of INT8",
        ),
    ],
)
async def test_invalid_request_is_explained(body: object, problem: str) -> None:
    async with serve() as (address, _):
        with pytest.raises(CommandFailed, match=problem):
            await build_target(address, "v2-grpc", TargetOptions(model="add", bodies=(body,)))


async def test_unknown_model_is_explained_before_any_load() -> None:
    async with serve() as (address, _):
        with pytest.raises(CommandFailed, match="NOT_FOUND unknown model sub"):
            await build_target(address, "v2-grpc", TargetOptions(model="sub"))


async def test_certificates_are_always_verified() -> None:
    address = Address("grpcs", "127.0.0.1", 1)
    options = TargetOptions(tls=TlsFiles(is_verified=False))
    with pytest.raises(CommandFailed, match="give the authority by --ca"):
        await build_target(address, "v2-grpc", options)


async def test_request_over_its_time_limit_is_cancelled() -> None:
    async with serve() as (address, handler):
        cancelled = asyncio.Event()

        async def hang(request: bytes, context: grpc.aio.ServicerContext) -> bytes:
            try:
                await asyncio.sleep(600)
            finally:
                cancelled.set()
            return b""

        handler.infer = hang
        target = await build_target(address, "v2-grpc", TargetOptions())
        profile = build_constant_profile(1, 60)
        plan = LoadPlan(kind="closed", profile=profile, max_requests=1, timeout=0.1)
        recorder = Recorder()
        await LoadRun(target, plan, recorder).run()
        await asyncio.wait_for(cancelled.wait(), 10)
        await target.close()
    assert [sample.status for sample in recorder] == ["timeout"]
