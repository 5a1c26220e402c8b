"""Elements of BYTES tensors as raw data: each is preceded by its length in four bytes."""

from collections.abc import Iterable, Iterator
from struct import Struct

_LENGTH = Struct("<I")


def join_elements(elements: Iterable[bytes]) -> bytes:
    """Elements as raw data."""
    return b"".join(part for each in elements for part in (_LENGTH.pack(len(each)), each))


def split_elements(data: bytes | memoryview) -> list[bytes]:
    """The elements; ValueError if the last one is cut off."""
    view = memoryview(data)
    return [bytes(view[start:end]) for start, end in _iterate_bounds(view)]


def count_elements(data: bytes | memoryview) -> int:
    """The number of elements; ValueError if the last one is cut off."""
    return sum(1 for _ in _iterate_bounds(memoryview(data)))


def find_ends(data: bytes | memoryview) -> list[int]:
    """Where each element ends."""
    return [end for _, end in _iterate_bounds(memoryview(data))]


def _iterate_bounds(view: memoryview) -> Iterator[tuple[int, int]]:
    """Where each element begins, behind its length, and ends."""
    at, size = 0, len(view)
    while at < size:
        start = at + _LENGTH.size
        if start > size:
            raise ValueError(f"the length of the element at byte {at} is cut off")
        end = start + _LENGTH.unpack_from(view, at)[0]
        if end > size:
            raise ValueError(
                f"the element at byte {at} has {end - start} bytes: {size - start} are there"
            )
        yield start, end
        at = end
