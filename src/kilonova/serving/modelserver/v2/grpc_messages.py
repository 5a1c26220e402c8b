"""Inference messages of gRPC, to and from requests and tensors."""

from collections.abc import Sequence

from kilonova.serving.grpc import inference_pb2 as pb
from kilonova.serving.modelserver.errors import InvalidTensor
from kilonova.serving.modelserver.tensors import Datatype, Tensor, find_datatype
from kilonova.serving.modelserver.tensors.json_data import pack_elements
from kilonova.serving.modelserver.v2.messages import InferRequest, refuse_parameters

_CONTENTS = {
    "BOOL": "bool_contents",
    "INT8": "int_contents",
    "INT16": "int_contents",
    "INT32": "int_contents",
    "INT64": "int64_contents",
    "UINT8": "uint_contents",
    "UINT16": "uint_contents",
    "UINT32": "uint_contents",
    "UINT64": "uint64_contents",
    "FP32": "fp32_contents",
    "FP64": "fp64_contents",
    "BYTES": "bytes_contents",
}
"""Where the elements of a data type are; FP16 and BF16 have none."""


def read_request(message: pb.ModelInferRequest) -> InferRequest:
    """A request; `InvalidTensor` states what is wrong with it."""
    raw = message.raw_input_contents
    if raw and len(raw) != len(message.inputs):
        raise InvalidTensor(
            f"raw_input_contents has {len(raw)} entries: there are {len(message.inputs)} inputs"
        )
    inputs: list[Tensor] = []
    for index, each in enumerate(message.inputs):
        if each.parameters:
            refuse_parameters(each.name, list(each.parameters))
        datatype, shape = _read_type(each), tuple(each.shape)
        if not raw:
            data = _read_contents(each, datatype)
        elif each.HasField("contents"):
            raise InvalidTensor(
                f"input {each.name!r} has contents and raw_input_contents: send one of them"
            )
        else:
            data = raw[index]
        inputs.append(Tensor(each.name, datatype, shape, data))
    for output in message.outputs:
        if output.parameters:
            refuse_parameters(output.name, list(output.parameters))
    names = [each.name for each in message.outputs]
    return InferRequest(message.model_name, message.model_version, message.id, inputs, names)


def build_response(
    request: InferRequest, version: str, outputs: Sequence[Tensor]
) -> pb.ModelInferResponse:
    """The response, with raw contents."""
    return pb.ModelInferResponse(
        model_name=request.model,
        model_version=version,
        id=request.id,
        outputs=[
            pb.ModelInferResponse.InferOutputTensor(
                name=each.name, datatype=each.datatype.name, shape=each.shape
            )
            for each in outputs
        ],
        raw_output_contents=[
            each.data if isinstance(each.data, bytes) else bytes(each.data) for each in outputs
        ],
    )


def _read_type(tensor: pb.ModelInferRequest.InferInputTensor) -> Datatype:
    try:
        datatype = find_datatype(tensor.datatype)
    except InvalidTensor as error:
        raise InvalidTensor(f"input {tensor.name!r}: {error}") from None
    if any(each < 0 for each in tensor.shape):
        raise InvalidTensor(
            f"input {tensor.name!r}: shape is {list(tensor.shape)}: use sizes of 0 or more"
        )
    return datatype


def _read_contents(tensor: pb.ModelInferRequest.InferInputTensor, datatype: Datatype) -> bytes:
    field = _CONTENTS.get(datatype.name)
    if field is None:
        raise InvalidTensor(
            f"input {tensor.name!r} is {datatype.name}: send it in raw_input_contents"
        )
    try:
        return pack_elements(datatype, getattr(tensor.contents, field))
    except (OverflowError, TypeError):
        raise InvalidTensor(
            f"input {tensor.name!r}: an element of {field} is no {datatype.name}"
        ) from None
