"""KServe's v2 protocol over gRPC."""

import asyncio
import socket
from array import array
from collections.abc import AsyncIterator

import grpc
import grpc.aio
import pytest

from kilonova.kube.grpc import GrpcClient
from kilonova.serving.grpc import inference_pb2 as pb
from kilonova.serving.grpc.inference_grpc import GRPCInferenceServiceStub
from tests.serving.modelserver.server import ModelServer, connect, grpc_request

ONES = array("i", [1] * 16).tobytes()
TWOS = array("i", [2] * 16).tobytes()
ADD = grpc_request("add", ("INPUT0", "INT32", [16], ONES), ("INPUT1", "INT32", [16], TWOS))


@pytest.fixture
async def stub(model_server: ModelServer) -> AsyncIterator[GRPCInferenceServiceStub]:
    async with model_server.open_channel() as channel:
        yield connect(channel)


async def test_server_and_models_are_described(stub: GRPCInferenceServiceStub) -> None:
    assert (await stub.server_live(pb.ServerLiveRequest())).live
    assert (await stub.server_ready(pb.ServerReadyRequest())).ready
    assert (await stub.model_ready(pb.ModelReadyRequest(name="add"))).ready
    assert (await stub.server_metadata(pb.ServerMetadataRequest())).name == "kilonova"
    metadata = await stub.model_metadata(pb.ModelMetadataRequest(name="scale"))
    assert (metadata.versions, metadata.inputs[0].shape) == (["10"], [-1, 4])
    config = (await stub.model_config(pb.ModelConfigRequest(name="batched"))).config
    assert config.max_batch_size == 8
    assert config.input[0].data_type == pb.TYPE_FP32
    assert config.dynamic_batching.max_queue_delay_microseconds == 100000
    index = await stub.repository_index(pb.RepositoryIndexRequest(ready=True))
    assert {"add", "batched", "tiny"} <= {each.name for each in index.models}
    assert {each.state for each in index.models} == {"READY"}


async def test_raw_contents_are_added(stub: GRPCInferenceServiceStub) -> None:
    request = pb.ModelInferRequest()
    request.CopyFrom(ADD)
    request.id = "seven"
    reply = await stub.model_infer(request)
    assert (reply.id, reply.model_name, reply.model_version) == ("seven", "add", "1")
    assert [each.name for each in reply.outputs] == ["OUTPUT0", "OUTPUT1"]
    assert list(reply.raw_output_contents) == [
        array("i", [3] * 16).tobytes(),
        array("i", [-1] * 16).tobytes(),
    ]


async def test_typed_contents_are_added(stub: GRPCInferenceServiceStub) -> None:
    request = pb.ModelInferRequest(
        model_name="add",
        inputs=[
            pb.ModelInferRequest.InferInputTensor(
                name=name,
                datatype="INT32",
                shape=[16],
                contents=pb.InferTensorContents(int_contents=range(16)),
            )
            for name in ("INPUT0", "INPUT1")
        ],
        outputs=[pb.ModelInferRequest.InferRequestedOutputTensor(name="OUTPUT0")],
    )
    (output,) = (await stub.model_infer(request)).raw_output_contents
    assert list(memoryview(output).cast("i")) == [2 * each for each in range(16)]


async def test_large_message_is_answered(stub: GRPCInferenceServiceStub) -> None:
    data = bytes(64 << 20)
    request = grpc_request("identity", ("INPUT0", "FP32", [len(data) // 4], data))
    assert (await stub.model_infer(request)).raw_output_contents[0] == data


async def test_stream_answers_in_order_and_survives_errors(stub: GRPCInferenceServiceStub) -> None:
    async def send() -> AsyncIterator[pb.ModelInferRequest]:
        for number in range(6):
            request = pb.ModelInferRequest()
            request.CopyFrom(ADD)
            request.id = str(number)
            if number == 3:
                del request.inputs[1]
            yield request

    replies = [each async for each in stub.model_stream_infer(send())]
    assert [each.infer_response.id for each in replies] == list("012345")
    assert "raw_input_contents has 2 entries: there are 1 inputs" in replies[3].error_message
    assert not any(each.error_message for each in (*replies[:3], *replies[4:]))


@pytest.mark.parametrize(
    ("request_", "code", "message"),
    [
        (
            grpc_request("add", ("INPUT0", "INT32", [16], ONES), ("INPUT1", "INT32", [16], b"1")),
            "INVALID_ARGUMENT",
            "input 'INPUT1': 1 bytes of data: INT32 [16] has 64",
        ),
        (
            grpc_request(
                "add", ("INPUT0", "INT32", [1 << 40], ONES), ("INPUT1", "INT32", [16], b"")
            ),
            "INVALID_ARGUMENT",
            "input 'INPUT0': shape is [1099511627776]: the model takes [16]",
        ),
        (
            grpc_request("identity", ("INPUT0", "FP32", [1 << 62], b"")),
            "INVALID_ARGUMENT",
            "input 'INPUT0': 0 bytes of data: FP32 [4611686018427387904] has 18446744073709551616",
        ),
        (
            grpc_request("words", ("INPUT0", "BYTES", [1], b"\xff\xff\xff\xff")),
            "INVALID_ARGUMENT",
            "input 'INPUT0': the element at byte 0 has 4294967295 bytes: 0 are there",
        ),
        (
            grpc_request("words", ("INPUT0", "BYTES", [2], b"\x01\0\0\0a")),
            "INVALID_ARGUMENT",
            "input 'INPUT0': 1 elements of data: BYTES [2] has 2",
        ),
        (
            grpc_request("identity", ("INPUT0", "INT32", [1], b"1234")),
            "INVALID_ARGUMENT",
            "input 'INPUT0': datatype is INT32: the model takes FP32",
        ),
        (grpc_request("none"), "NOT_FOUND", "model 'none' does not exist"),
        (grpc_request("tiny"), "INVALID_ARGUMENT", "is a language model"),
    ],
)
async def test_malformed_request_has_a_status(
    stub: GRPCInferenceServiceStub, request_: pb.ModelInferRequest, code: str, message: str
) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await stub.model_infer(request_)
    assert caught.value.code().name == code
    assert message in (caught.value.details() or "")


async def test_bytes_that_are_no_message_are_refused(model_server: ModelServer) -> None:
    async with model_server.open_channel() as channel:
        call = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call(b"\xff\xff\xff")
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "the request is no message" in (caught.value.details() or "")


async def test_full_queue_is_exhausted(model_server: ModelServer) -> None:
    """The model has one instance and room for two that wait."""
    async with GrpcClient(model_server.grpc_address) as client:
        stub = client.stub(GRPCInferenceServiceStub)
        request = grpc_request("slow", ("INPUT0", "FP32", [1], b"1234"))
        calls = [asyncio.create_task(_read_code(stub, request)) for _ in range(8)]
        codes = [each.name for each in await asyncio.gather(*calls)]
    assert codes.count("OK") == 3
    assert codes.count("RESOURCE_EXHAUSTED") == 5
    rejected = 'nv_inference_request_failure{model="slow",version="1",reason="REJECTED"}'
    assert model_server.read_metrics()[rejected] >= 5


async def test_client_that_leaves_frees_its_place(model_server: ModelServer) -> None:
    request = grpc_request("slow", ("INPUT0", "FP32", [1], b"1234"))
    async with model_server.open_channel() as channel:
        stub = connect(channel)
        running = stub.model_infer(request)
        waiting = stub.model_infer(request)
        pending = 'nv_inference_pending_request_count{model="slow",version="1"}'
        while model_server.read_metrics()[pending] != 1:
            await asyncio.sleep(0.01)
        waiting.cancel()
        while model_server.read_metrics()[pending] != 0:
            await asyncio.sleep(0.01)
        assert (await running).model_name == "slow"


async def test_slow_reader_does_not_hinder_others(model_server: ModelServer) -> None:
    """It sends half of a request and reads nothing."""
    with socket.create_connection(("127.0.0.1", model_server.ports["http"])) as half:
        half.sendall(
            b"POST /v2/models/add/infer HTTP/1.1\r\nhost: a\r\ncontent-length: 999\r\n\r\n{"
        )
        async with model_server.open_channel() as channel:
            assert (await connect(channel).model_infer(ADD)).model_name == "add"


async def _read_code(
    stub: GRPCInferenceServiceStub, request: pb.ModelInferRequest
) -> grpc.StatusCode:
    try:
        await stub.model_infer(request)
    except grpc.aio.AioRpcError as error:
        return error.code()
    return grpc.StatusCode.OK
