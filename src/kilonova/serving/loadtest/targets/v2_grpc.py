"""KServe's v2 protocol over gRPC.

Requests are encoded before, and answers are not decoded: a measurement is to cost little itself.
"""

import asyncio
from collections.abc import Sequence
from itertools import cycle
from pathlib import Path

import grpc
import grpc.aio

from kilonova.component.failure import CommandFailed
from kilonova.serving.grpc import inference_pb2 as pb
from kilonova.serving.grpc.inference_grpc import GRPCInferenceServiceStub
from kilonova.serving.loadtest.outcome import Outcome, RequestSize, TargetDescription
from kilonova.serving.loadtest.targets.address import Address
from kilonova.serving.loadtest.targets.options import TargetOptions, TlsFiles
from kilonova.serving.loadtest.targets.tensors import (
    Tensor,
    TensorShape,
    generate_tensors,
    parse_request,
)
from kilonova.serving.loadtest.targets.v2_http import choose_model

_INFER = "/inference.GRPCInferenceService/ModelInfer"
_METADATA_SECONDS = 30.0
_CHANNEL_OPTIONS = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.use_local_subchannel_pool", 1),  # otherwise all channels share one connection
    ("grpc.enable_retries", 0),
)
Metadata = tuple[tuple[str, str], ...]


class V2GrpcTarget:
    """Infers by one model."""

    def __init__(
        self,
        channels: Sequence[grpc.aio.Channel],
        requests: Sequence[bytes],
        metadata: Metadata,
        description: TargetDescription,
    ) -> None:
        self._channels = channels
        self._metadata = metadata
        self._calls = cycle([_prepare_call(each) for each in channels])
        self._requests = cycle(requests)
        self._description = description

    @property
    def description(self) -> TargetDescription:
        return self._description

    async def send(self, size: RequestSize | None = None) -> Outcome:
        infer = next(self._calls)
        try:
            answer = await infer(next(self._requests), metadata=self._metadata)
        except grpc.aio.AioRpcError as error:
            return Outcome(error.code().name, False, error.details() or "")
        if not answer:
            # What a proxy answers that drops the answer, and the status with it.
            return Outcome("OK, empty", False, "the status is OK, and there is no answer")
        return Outcome("OK", True)

    async def close(self) -> None:
        await asyncio.gather(*(each.close() for each in self._channels))


def _prepare_call(channel: grpc.aio.Channel) -> "grpc.aio.UnaryUnaryMultiCallable[bytes, bytes]":
    """The call without encoding."""
    return channel.unary_unary(_INFER)  # pyright: ignore[reportUnknownVariableType]


async def build_v2_grpc_target(address: Address, options: TargetOptions) -> V2GrpcTarget:
    """A target for a model; its inputs are generated from its metadata unless there are bodies."""
    metadata = tuple((name.lower(), value) for name, value in options.headers.items())
    channels = [_open_channel(address, options.tls) for _ in range(options.connections)]
    stub = GRPCInferenceServiceStub(channels[0])
    try:
        model = options.model or await _find_model(stub, metadata)
        if options.bodies:
            inputs = [
                parse_request(body, f"--body, request {number}")
                for number, body in enumerate(options.bodies, 1)
            ]
        else:
            shapes = await _read_inputs(stub, model, metadata)
            given = options.tensors
            inputs = [generate_tensors(shapes, given.batch, given.shapes, options.seed)]
    except grpc.aio.AioRpcError as error:
        await asyncio.gather(*(each.close() for each in channels))
        raise CommandFailed(
            f"the model cannot be read from {address}: {error.code().name} {error.details() or ''}"
        ) from None
    requests = [_build_request(model, each) for each in inputs]
    description = TargetDescription(str(address), "v2-grpc", model)
    return V2GrpcTarget(channels, requests, metadata, description)


def _open_channel(address: Address, tls: TlsFiles) -> grpc.aio.Channel:
    if not address.is_tls:
        return grpc.aio.insecure_channel(address.authority, options=_CHANNEL_OPTIONS)
    if not tls.is_verified:
        raise CommandFailed("gRPC always verifies the certificate: give the authority by --ca")
    credentials = grpc.ssl_channel_credentials(
        _read(tls.ca), private_key=_read(tls.key), certificate_chain=_read(tls.certificate)
    )
    return grpc.aio.secure_channel(address.authority, credentials, options=_CHANNEL_OPTIONS)


def _read(file: Path | None) -> bytes | None:
    if file is None:
        return None
    try:
        return file.read_bytes()
    except OSError as error:
        raise CommandFailed(f"{file} cannot be read: {error.strerror}") from error


async def _find_model(stub: GRPCInferenceServiceStub, metadata: Metadata) -> str:
    request = pb.RepositoryIndexRequest(ready=True)
    index = await stub.repository_index(request, metadata=metadata, timeout=_METADATA_SECONDS)
    return choose_model([each.name for each in index.models if each.state in ("READY", "")])


async def _read_inputs(
    stub: GRPCInferenceServiceStub, model: str, metadata: Metadata
) -> list[TensorShape]:
    request = pb.ModelMetadataRequest(name=model)
    found = await stub.model_metadata(request, metadata=metadata, timeout=_METADATA_SECONDS)
    return [TensorShape(each.name, each.datatype, tuple(each.shape)) for each in found.inputs]


def _build_request(model: str, tensors: Sequence[Tensor]) -> bytes:
    inputs = [
        pb.ModelInferRequest.InferInputTensor(
            name=each.name, datatype=each.data_type, shape=each.shape
        )
        for each in tensors
    ]
    contents = [each.encode() for each in tensors]
    request = pb.ModelInferRequest(model_name=model, inputs=inputs, raw_input_contents=contents)
    return request.SerializeToString()
