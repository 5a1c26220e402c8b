"""The bodies of inference requests and responses over HTTP: JSON, and binary tensors behind it.
Pure."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from kilonova.serving.modelserver.errors import InvalidTensor
from kilonova.serving.modelserver.tensors import Tensor, find_datatype
from kilonova.serving.modelserver.tensors.json_data import decode_elements, encode_elements
from kilonova.serving.modelserver.v2.messages import InferRequest, refuse_parameters
from kilonova.yaml_files import describe_mismatch

HEADER_LENGTH = "inference-header-content-length"
_BINARY_SIZE = "binary_data_size"
_BINARY = "binary_data"

_Parameters = dict[str, Any]


class _Input(msgspec.Struct, frozen=True):
    name: str
    datatype: str
    shape: list[int]
    data: Any = None
    parameters: _Parameters = {}


class _Output(msgspec.Struct, frozen=True):
    name: str
    parameters: _Parameters = {}


class _Request(msgspec.Struct, frozen=True):
    inputs: list[_Input]
    id: str = ""
    outputs: list[_Output] = []
    parameters: _Parameters = {}


class BinaryOutputs(NamedTuple):
    """Which outputs are returned as binary data."""

    default: bool
    names: dict[str, bool]

    def includes(self, name: str) -> bool:
        return self.names.get(name, self.default)


_decoder = msgspec.json.Decoder(_Request)
_encoder = msgspec.json.Encoder()


def parse_request(
    model: str, version: str, body: bytes, header_length: str | None
) -> tuple[InferRequest, BinaryOutputs]:
    """A request; `InvalidTensor` states what is wrong with it."""
    rest = memoryview(body)
    if header_length is not None:
        size = _read_size("the header Inference-Header-Content-Length", header_length, len(body))
        rest = rest[size:]
        body = body[:size]
    else:
        rest = rest[len(body) :]
    found = _decode(body)
    inputs: list[Tensor] = []
    for each in found.inputs:
        tensor, rest = _build_input(each, rest)
        inputs.append(tensor)
    if len(rest):
        raise InvalidTensor(f"{len(rest)} bytes of binary data are left behind the last input")
    for output in found.outputs:
        refuse_parameters(output.name, list(output.parameters))
    binary = BinaryOutputs(
        bool(found.parameters.get("binary_data_output")),
        {
            each.name: bool(each.parameters[_BINARY])
            for each in found.outputs
            if _BINARY in each.parameters
        },
    )
    names = [each.name for each in found.outputs]
    return InferRequest(model, version, found.id, inputs, names), binary


def encode_response(
    request: InferRequest, version: str, outputs: Sequence[Tensor], binary: BinaryOutputs
) -> tuple[bytes, int]:
    """The body, and the length of its JSON; 0 if there is nothing behind it."""
    described: list[dict[str, Any]] = []
    parts: list[bytes | memoryview] = []
    for tensor in outputs:
        output: dict[str, Any] = {
            "name": tensor.name,
            "datatype": tensor.datatype.name,
            "shape": tensor.shape,
        }
        if binary.includes(tensor.name):
            output["parameters"] = {_BINARY_SIZE: len(tensor.data)}
            parts.append(tensor.data)
        else:
            output["data"] = decode_elements(tensor)
        described.append(output)
    body: dict[str, Any] = {"model_name": request.model, "model_version": version}
    if request.id:
        body["id"] = request.id
    body["outputs"] = described
    encoded = _encoder.encode(body)
    if not parts:
        return encoded, 0
    return b"".join((encoded, *parts)), len(encoded)


def _decode(body: bytes) -> _Request:
    try:
        try:
            return _decoder.decode(body)
        except msgspec.ValidationError as error:
            source = msgspec.json.decode(body)
            raise InvalidTensor(str(describe_mismatch(source, _Request, error))) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidTensor(f"the body is not JSON: {error}") from None


def _build_input(found: _Input, rest: memoryview) -> tuple[Tensor, memoryview]:
    name, shape = found.name, tuple(found.shape)
    try:
        datatype = find_datatype(found.datatype)
    except InvalidTensor as error:
        raise InvalidTensor(f"input {name!r}: {error}") from None
    if any(each < 0 for each in shape):
        raise InvalidTensor(f"input {name!r}: shape is {list(shape)}: use sizes of 0 or more")
    if found.parameters:
        refuse_parameters(name, list(found.parameters))
    if _BINARY_SIZE not in found.parameters:
        data = encode_elements(name, datatype, shape, found.data)
        return Tensor(name, datatype, shape, data), rest
    if found.data is not None:
        raise InvalidTensor(f"input {name!r} has data and {_BINARY_SIZE}: send one of them")
    size = _read_size(f"input {name!r}: {_BINARY_SIZE}", found.parameters[_BINARY_SIZE], len(rest))
    return Tensor(name, datatype, shape, rest[:size]), rest[size:]


def _read_size(what: str, value: object, limit: int) -> int:
    text = str(value)
    if isinstance(value, bool) or not text.isascii() or not text.isdecimal():
        raise InvalidTensor(f"{what} is {value!r}: write a number of bytes")
    size = int(text) if len(text) < 20 else limit + 1
    if size > limit:
        raise InvalidTensor(f"{what} is {text[:40]}: only {limit} bytes are there")
    return size
