"""Tensors, and what a model requires of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

from kilonova.serving.modelserver.errors import InvalidTensor
from kilonova.serving.modelserver.tensors.bytes_elements import count_elements
from kilonova.serving.modelserver.tensors.datatypes import Datatype

Shape = tuple[int, ...]
RawData = bytes | memoryview
"""Elements in row-major order, little-endian; each of BYTES is preceded by its length in four
bytes."""


class Tensor(NamedTuple):
    """A tensor of a request or a response."""

    name: str
    datatype: Datatype
    shape: Shape
    data: RawData


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """An input or an output of a model; -1 is a dimension of any size."""

    name: str
    datatype: Datatype
    shape: Shape

    def check(self, tensor: Tensor) -> None:
        """`InvalidTensor` unless the tensor has this type and shape, and the data for it."""
        if tensor.datatype is not self.datatype:
            raise InvalidTensor(
                f"input {self.name!r}: datatype is {tensor.datatype.name}: "
                f"the model takes {self.datatype.name}"
            )
        if not _matches(self.shape, tensor.shape):
            raise InvalidTensor(
                f"input {self.name!r}: shape is {format_shape(tensor.shape)}: "
                f"the model takes {format_shape(self.shape)}"
            )
        check_data(tensor)


def check_data(tensor: Tensor) -> None:
    """`InvalidTensor` unless the tensor has as many elements as its shape says."""
    size = tensor.datatype.size
    expected = prod(tensor.shape)
    if size:
        if len(tensor.data) != expected * size:
            raise InvalidTensor(
                f"input {tensor.name!r}: {len(tensor.data)} bytes of data: "
                f"{tensor.datatype.name} {format_shape(tensor.shape)} has {expected * size}"
            )
        return
    try:
        found = count_elements(tensor.data)
    except ValueError as error:
        raise InvalidTensor(f"input {tensor.name!r}: {error}") from None
    if found != expected:
        raise InvalidTensor(
            f"input {tensor.name!r}: {found} elements of data: "
            f"BYTES {format_shape(tensor.shape)} has {expected}"
        )


def format_shape(shape: Sequence[int]) -> str:
    """A shape as messages have it: `[2,-1]`."""
    return f"[{','.join(map(str, shape))}]"


def _matches(wanted: Shape, found: Shape) -> bool:
    if wanted == found:
        return True
    return len(wanted) == len(found) and all(
        size >= 0 and limit in (-1, size) for limit, size in zip(wanted, found, strict=True)
    )
