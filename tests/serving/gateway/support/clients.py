"""Clients of a gateway."""

import contextlib
from collections.abc import AsyncGenerator, Sequence

import aiohttp
import grpc
import grpc.aio

from kilonova.serving.grpc import inference_pb2 as pb

SERVICE = "/inference.GRPCInferenceService"


@contextlib.asynccontextmanager
async def open_channel(port: int) -> AsyncGenerator[grpc.aio.Channel]:
    """A channel for raw messages, which does not retry by itself."""
    options = [
        ("grpc.enable_retries", 0),
        ("grpc.max_receive_message_length", -1),
        ("grpc.max_send_message_length", -1),
        ("grpc.use_local_subchannel_pool", 1),
    ]
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=options) as channel:
        yield channel


async def call(
    channel: grpc.aio.Channel,
    method: str = "ModelInfer",
    message: bytes = b"",
    *,
    metadata: Sequence[tuple[str, str]] = (),
    timeout: float = 20,
) -> bytes:
    """Call a method of KServe's v2 protocol."""
    return await channel.unary_unary(f"{SERVICE}/{method}")(
        message, metadata=tuple(metadata), timeout=timeout
    )


async def try_call(
    channel: grpc.aio.Channel,
    method: str = "ModelInfer",
    message: bytes = b"",
    *,
    metadata: Sequence[tuple[str, str]] = (),
) -> tuple[grpc.StatusCode, str]:
    """The status of a call, and its answer or what went wrong."""
    try:
        answer = await call(channel, method, message, metadata=metadata)
    except grpc.aio.AioRpcError as error:
        return error.code(), error.details() or ""
    return grpc.StatusCode.OK, answer.decode()


def build_infer(model: str, size: int = 0) -> bytes:
    """A ModelInferRequest, with a tensor of so many bytes."""
    request = pb.ModelInferRequest(model_name=model, id="1")
    if size:
        request.raw_input_contents.append(bytes(size))
    return request.SerializeToString()


@contextlib.asynccontextmanager
async def open_session(port: int) -> AsyncGenerator[aiohttp.ClientSession]:
    """An HTTP client of a port of this machine."""
    async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:
        yield session
