"""Large objects in parts: a few at a time, verified as a whole, and aborted if anything fails."""

import asyncio
import base64
from collections.abc import AsyncIterable
from typing import Any

from kilonova.objectstore.checksums import Crc32
from kilonova.objectstore.errors import ObjectStoreError, ObjectTooLarge
from kilonova.objectstore.s3.client import S3Client, S3Response

_PARTS_IN_FLIGHT = 4
_MAX_PARTS = 10_000
"""The limit of S3."""


class MultipartUpload:
    """One upload of one object; `run` does it."""

    def __init__(self, client: S3Client, key: str, path: str) -> None:
        self._client = client
        self._key = key
        self._address: dict[str, object] = {"Key": path}
        self._whole = Crc32()
        self._parts: list[dict[str, Any]] = []

    async def run(self, parts: AsyncIterable[bytes], condition: dict[str, str]) -> S3Response:
        """Upload the parts, of at least 5 MiB but for the last, and complete the object."""
        created = await self._client.call(
            "create_multipart_upload",
            self._key,
            self._address | {"ChecksumAlgorithm": "CRC32", "ChecksumType": "FULL_OBJECT"},
        )
        self._address["UploadId"] = created["UploadId"]
        try:
            await self._upload_parts(parts)
            return await self._client.call(
                "complete_multipart_upload",
                self._key,
                {
                    **self._address,
                    **condition,
                    "MultipartUpload": {"Parts": sorted(self._parts, key=_part_number)},
                    "ChecksumCRC32": encode_crc32(self._whole),
                    "ChecksumType": "FULL_OBJECT",
                },
                once=True,
            )
        except BaseException:
            await asyncio.shield(self._abort())
            raise

    @property
    def checksum(self) -> Crc32:
        """The checksum of all parts so far."""
        return self._whole

    async def _upload_parts(self, parts: AsyncIterable[bytes]) -> None:
        slots = asyncio.Semaphore(_PARTS_IN_FLIGHT)
        number = 0

        async def upload(number: int, part: bytes) -> None:
            try:
                await self._upload_part(number, part)
            finally:
                slots.release()

        try:
            async with asyncio.TaskGroup() as uploads:
                async for part in parts:
                    number += 1
                    if number > _MAX_PARTS:
                        problem = f"it has more than {_MAX_PARTS} parts"
                        raise ObjectTooLarge(self._key, problem, "set larger part_bytes")
                    self._whole.update(part)
                    await slots.acquire()
                    uploads.create_task(upload(number, part))
        except ExceptionGroup as group:
            raise group.exceptions[0] from group

    async def _upload_part(self, number: int, part: bytes) -> None:
        checksum = Crc32()
        checksum.update(part)
        encoded = encode_crc32(checksum)
        response = await self._client.call(
            "upload_part",
            self._key,
            self._address | {"PartNumber": number, "Body": part, "ChecksumCRC32": encoded},
        )
        self._parts.append(
            {"PartNumber": number, "ETag": response["ETag"], "ChecksumCRC32": encoded}
        )

    async def _abort(self) -> None:
        """Let the server forget the parts; if that fails, its own rules for them apply."""
        try:
            await self._client.call("abort_multipart_upload", self._key, self._address)
        except ObjectStoreError:
            return


def encode_crc32(checksum: Crc32) -> str:
    """A CRC32 as S3 has it in headers."""
    return base64.b64encode(checksum.value.to_bytes(4, "big")).decode()


def _part_number(part: dict[str, Any]) -> int:
    return part["PartNumber"]
