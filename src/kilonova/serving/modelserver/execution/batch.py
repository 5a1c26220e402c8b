"""Requests that become one batch, and the outputs of each. Pure, on raw data."""

from collections.abc import Sequence
from itertools import pairwise
from math import prod

from kilonova.serving.modelserver.tensors import Tensor
from kilonova.serving.modelserver.tensors.bytes_elements import find_ends

Tensors = Sequence[Tensor]


def can_join(first: Tensors, second: Tensors) -> bool:
    """Whether two requests differ in the size of their batch alone."""
    return all(a.shape[1:] == b.shape[1:] for a, b in zip(first, second, strict=True))


def join_inputs(requests: Sequence[Tensors]) -> Tensors:
    """The inputs of all requests, one behind the other along the first dimension."""
    if len(requests) == 1:
        return requests[0]
    return tuple(_join(tensors) for tensors in zip(*requests, strict=True))


def split_outputs(outputs: Tensors, sizes: Sequence[int]) -> list[Tensors]:
    """The outputs of each request, whose batches have these sizes. ValueError if the outputs have
    not the size of all batches together."""
    if len(sizes) == 1:
        return [outputs]
    columns = [_split(tensor, sizes) for tensor in outputs]
    return [tuple(column[index] for column in columns) for index in range(len(sizes))]


def _join(tensors: Tensors) -> Tensor:
    first = tensors[0]
    size = sum(each.shape[0] for each in tensors)
    data = b"".join(each.data for each in tensors)
    return Tensor(first.name, first.datatype, (size, *first.shape[1:]), data)


def _split(tensor: Tensor, sizes: Sequence[int]) -> list[Tensor]:
    total = sum(sizes)
    if not tensor.shape or tensor.shape[0] != total:
        raise ValueError(
            f"output {tensor.name!r} has the shape {list(tensor.shape)} for a batch of {total}"
        )
    bounds = [0]
    for size in sizes:
        bounds.append(bounds[-1] + size)
    row = prod(tensor.shape[1:])
    if tensor.datatype.size:
        offsets = [bound * row * tensor.datatype.size for bound in bounds]
    else:
        ends = [0, *find_ends(tensor.data)]
        offsets = [ends[bound * row] for bound in bounds]
    view = memoryview(tensor.data)
    return [
        tensor._replace(shape=(size, *tensor.shape[1:]), data=view[start:end])
        for size, (start, end) in zip(sizes, pairwise(offsets), strict=True)
    ]
