"""Inputs of v2 requests: generated from the metadata of a model, or read from JSON.

A generated tensor has the shape of the metadata, in which -1 is the batch size for the first
dimension and 1 for others, unless the user gives a shape. Values are small random numbers of a
generator with a seed: the same each time.
"""

import random
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Annotated, Any, cast

import msgspec
from msgspec import Meta

from kilonova.component.failure import CommandFailed
from kilonova.yaml_files import describe_mismatch

MAX_BYTES = 256 << 20
"""Of a tensor."""
_MAX_INTEGER = 10  # small, so that it is an index into most tables
_FORMATS = {
    "BOOL": "?",
    "UINT8": "B",
    "UINT16": "H",
    "UINT32": "I",
    "UINT64": "Q",
    "INT8": "b",
    "INT16": "h",
    "INT32": "i",
    "INT64": "q",
    "FP16": "e",
    "FP32": "f",
    "FP64": "d",
}
"""Formats of the module `struct`."""
DATA_TYPES = (*_FORMATS, "BF16", "BYTES")


class _Input(msgspec.Struct, frozen=True):
    """An input of a v2 request in JSON."""

    name: str
    datatype: str
    shape: tuple[int, ...]
    data: list[Any]


class _Request(msgspec.Struct, frozen=True):
    inputs: Annotated[list[_Input], Meta(min_length=1)]


@dataclass(frozen=True, slots=True)
class TensorShape:
    """An input of a model, as in its metadata."""

    name: str
    data_type: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Tensor:
    """An input of a request."""

    name: str
    data_type: str
    shape: tuple[int, ...]
    values: tuple[Any, ...]

    def encode(self) -> bytes:
        """The bytes of the values, as v2 has them beside the message."""
        if self.data_type == "BYTES":
            texts = (_to_bytes(each) for each in self.values)
            return b"".join(struct.pack("<I", len(each)) + each for each in texts)
        if self.data_type == "BF16":  # the upper half of a 32-bit number
            packed = (struct.pack("<f", each) for each in self.values)
            return b"".join(each[2:] for each in packed)
        try:
            return struct.pack(f"<{len(self.values)}{_FORMATS[self.data_type]}", *self.values)
        except struct.error as error:
            raise CommandFailed(f"input {self.name} of {self.data_type}: {error}") from None

    def build_json(self) -> dict[str, object]:
        """The input in a JSON request."""
        if self.data_type in ("FP16", "BF16"):
            raise CommandFailed(
                f"input {self.name} is {self.data_type}, which JSON cannot represent: use gRPC"
            )
        return {
            "name": self.name,
            "datatype": self.data_type,
            "shape": list(self.shape),
            "data": list(self.values),
        }


def generate_tensors(
    inputs: Sequence[TensorShape], batch: int, shapes: Mapping[str, tuple[int, ...]], seed: int
) -> tuple[Tensor, ...]:
    """Inputs for a model; `shapes` are those that the user gives, by name."""
    unknown = sorted(set(shapes) - {each.name for each in inputs})
    if unknown:
        known = ", ".join(each.name for each in inputs)
        raise CommandFailed(f"--shape {unknown[0]}: the model has no such input; it has {known}")
    randomness = random.Random(seed)  # noqa: S311 - repeatable, no secret
    return tuple(_generate(each, batch, shapes, randomness) for each in inputs)


def parse_request(source: object, where: str) -> tuple[Tensor, ...]:
    """The inputs of a v2 request in JSON, for gRPC; `CommandFailed` names what is wrong."""
    try:
        request = msgspec.convert(source, _Request)
    except msgspec.ValidationError as error:
        found = describe_mismatch(source, _Request, error)
        raise CommandFailed(f"{where}: {found}") from None
    return tuple(
        _convert_input(each, f"{where}: inputs[{index}]")
        for index, each in enumerate(request.inputs)
    )


def parse_shapes(texts: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """`NAME:1,3,224,224`, for each input; `ValueError` states what is wrong."""
    shapes: dict[str, tuple[int, ...]] = {}
    for text in texts:
        name, separator, sizes = text.rpartition(":")
        try:
            shape = tuple(int(each) for each in sizes.split(","))
        except ValueError:
            shape = ()
        if not separator or not name or not shape or min(shape) < 1:
            raise ValueError(f"{text!r} is no shape: write NAME:1,3,224,224")
        shapes[name] = shape
    return shapes


def _generate(
    tensor: TensorShape,
    batch: int,
    shapes: Mapping[str, tuple[int, ...]],
    randomness: random.Random,
) -> Tensor:
    shape = shapes.get(tensor.name) or tuple(
        size if size >= 0 else (batch if index == 0 else 1)
        for index, size in enumerate(tensor.shape)
    )
    count = prod(shape)
    if count * 8 > MAX_BYTES:
        raise CommandFailed(
            f"input {tensor.name} would have {count} values, in the shape "
            f"{','.join(map(str, shape))}: give a smaller one by --shape or --batch"
        )
    values = _generate_values(tensor.data_type, count, randomness)
    if values is None:
        raise CommandFailed(
            f"input {tensor.name} is of the unknown type {tensor.data_type}: give requests by "
            "--body"
        )
    return Tensor(tensor.name, tensor.data_type, shape, tuple(values))


def _generate_values(data_type: str, count: int, randomness: random.Random) -> Iterator[Any] | None:
    if data_type == "BOOL":
        return (randomness.random() < 0.5 for _ in range(count))
    if data_type == "BYTES":
        return (f"text {randomness.randrange(_MAX_INTEGER)}" for _ in range(count))
    if data_type in ("FP16", "FP32", "FP64", "BF16"):
        return (round(randomness.random(), 3) for _ in range(count))
    if data_type in _FORMATS:
        return (randomness.randrange(_MAX_INTEGER) for _ in range(count))
    return None


def _convert_input(source: _Input, where: str) -> Tensor:
    if source.datatype not in DATA_TYPES:
        choices = ", ".join(DATA_TYPES)
        raise CommandFailed(
            f"{where}.datatype: {source.datatype} is unknown: choose from {choices}"
        )
    values = tuple(_flatten(source.data))
    if len(values) != prod(source.shape):
        raise CommandFailed(
            f"{where}.data: has {len(values)} values, and the shape {list(source.shape)} has "
            f"{prod(source.shape)}"
        )
    return Tensor(source.name, source.datatype, source.shape, values)


def _flatten(data: Sequence[Any]) -> Iterator[Any]:
    for each in data:
        if isinstance(each, list):
            yield from _flatten(cast("list[Any]", each))
        else:
            yield each


def _to_bytes(value: object) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()
