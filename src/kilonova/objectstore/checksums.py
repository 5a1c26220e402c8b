"""Checksums of whole objects.

A directory keeps SHA-256. On S3 an object has a CRC32, because it is the one that S3 verifies for
an object of many parts as a whole, and that every S3 server knows.
"""

import hashlib
import zlib
from dataclasses import dataclass
from typing import Literal, Protocol

Algorithm = Literal["sha256", "crc32"]


@dataclass(frozen=True, slots=True)
class Checksum:
    """A checksum of an object's content, in hexadecimal digits."""

    algorithm: Algorithm
    digest: str


class Hasher(Protocol):
    """Computes a checksum of content that arrives in pieces."""

    def update(self, data: bytes, /) -> None: ...
    def hexdigest(self) -> str: ...


def create_hasher(algorithm: Algorithm) -> Hasher:
    """A new computation of a checksum."""
    return hashlib.sha256() if algorithm == "sha256" else Crc32()


class Crc32:
    """The CRC32 of S3 and zlib."""

    def __init__(self) -> None:
        self.value = 0

    def update(self, data: bytes, /) -> None:
        self.value = zlib.crc32(data, self.value)

    def hexdigest(self) -> str:
        return f"{self.value:08x}"
