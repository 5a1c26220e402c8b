"""The elements of tensors in JSON requests and responses, to and from raw data. Pure."""

import struct
from array import array
from collections.abc import Iterator, Sequence
from math import prod
from typing import Any, cast

from kilonova.serving.modelserver.errors import InvalidTensor
from kilonova.serving.modelserver.tensors.bytes_elements import join_elements, split_elements
from kilonova.serving.modelserver.tensors.datatypes import BYTES, Datatype
from kilonova.serving.modelserver.tensors.tensor import Shape, Tensor, format_shape

_HALF = "e"


def encode_elements(name: str, datatype: Datatype, shape: Shape, data: object) -> bytes:
    """The raw data of an input, from a list that is flat or nested as the shape."""
    if not isinstance(data, list):
        raise InvalidTensor(f"input {name!r}: data is no list: write a list of {datatype.name}")
    try:
        values = _flatten(cast("list[Any]", data))
    except RecursionError:
        raise InvalidTensor(f"input {name!r}: data is nested too deeply") from None
    if len(values) != prod(shape):
        raise InvalidTensor(
            f"input {name!r}: {len(values)} elements of data: "
            f"{datatype.name} {format_shape(shape)} has {prod(shape)}"
        )
    try:
        return _pack(datatype, values)
    except (TypeError, ValueError, AttributeError, OverflowError, struct.error):
        found = next(each for each in values if not _is_valid(datatype, each))
        raise InvalidTensor(f"input {name!r}: {found!r} is no {datatype.name}") from None


def pack_elements(datatype: Datatype, values: Sequence[Any]) -> bytes:
    """Raw data of elements that are known to be of the type, as protobuf has them."""
    return _pack(datatype, values)


def decode_elements(tensor: Tensor) -> list[Any]:
    """The elements of an output, flat."""
    datatype = tensor.datatype
    if datatype is BYTES:
        try:
            return [each.decode() for each in split_elements(tensor.data)]
        except UnicodeDecodeError:
            raise InvalidTensor(
                f"output {tensor.name!r} is no text: request it with binary_data"
            ) from None
    if not datatype.typecode:
        raise InvalidTensor(
            f"output {tensor.name!r} is {datatype.name}: request it with binary_data"
        )
    if datatype.typecode == _HALF:
        count = len(tensor.data) // datatype.size
        return list(struct.unpack(f"<{count}{_HALF}", tensor.data))
    if datatype.name == "BOOL":
        return [each != 0 for each in tensor.data]
    return memoryview(tensor.data).cast("B").cast(datatype.typecode).tolist()  # type: ignore[call-overload]


def _pack(datatype: Datatype, values: Sequence[Any]) -> bytes:
    if datatype is BYTES:
        return join_elements(
            each if isinstance(each, bytes) else cast("str", each).encode() for each in values
        )
    if not datatype.typecode:
        raise InvalidTensor(f"{datatype.name} cannot be written in JSON: send it as binary data")
    if datatype.typecode == _HALF:
        return struct.pack(f"<{len(values)}{_HALF}", *values)
    if datatype.name == "BOOL" and not all(each is True or each is False for each in values):
        raise TypeError
    return array(datatype.typecode, values).tobytes()


def _is_valid(datatype: Datatype, value: object) -> bool:
    try:
        _pack(datatype, [value])
    except (TypeError, ValueError, AttributeError, OverflowError, struct.error):
        return False
    return True


def _flatten(data: list[Any]) -> list[Any]:
    if not data or not isinstance(data[0], list):
        return data
    return list(_iterate(data))


def _iterate(data: list[Any]) -> Iterator[Any]:
    for each in data:
        if isinstance(each, list):
            yield from _iterate(cast("list[Any]", each))
        else:
            yield each
