"""Large objects in parts: a few at a time, verified as a whole, and aborted if anything fails."""

import asyncio
import base64
from collections.abc import AsyncIterable, Coroutine
from typing import Any, TypeVar

from kilonova.objectstore.checksums import Crc32
from kilonova.objectstore.errors import ObjectStoreError, ObjectTooLarge
from kilonova.objectstore.s3.client import S3Client, S3Response

_PARTS_IN_FLIGHT = 4
_MAX_PARTS = 10_000
"""The limit of S3."""

T = TypeVar("T")


class MultipartUpload:
    """One upload of one object; `run` does it."""

    def __init__(self, client: S3Client, key: str, path: str) -> None:
        self._client = client
        self._key = key
        self._address: dict[str, object] = {"Key": path}
        self._whole = Crc32()
        self._parts: list[dict[str, Any]] = []
        self._underway: set[asyncio.Task[Any]] = set()

    async def run(self, parts: AsyncIterable[bytes], condition: dict[str, str]) -> S3Response:
        """Upload the parts, of at least 5 MiB but for the last, and complete the object."""
        try:
            await self._finish(self._create())
            await self._upload_parts(parts)
            return await self._finish(self._complete(condition))
        except BaseException:
            await asyncio.shield(self._abort())
            raise

    @property
    def checksum(self) -> Crc32:
        """The checksum of all parts so far."""
        return self._whole

    async def _finish(self, request: Coroutine[Any, Any, T]) -> T:
        """The result of a request, which goes on if we are cancelled: its thread does in any case,
        and `_abort` has to know when it ends."""
        task = asyncio.create_task(request)
        self._underway.add(task)
        task.add_done_callback(self._underway.discard)
        return await asyncio.shield(task)

    async def _create(self) -> None:
        created = await self._client.call(
            "create_multipart_upload",
            self._key,
            self._address | {"ChecksumAlgorithm": "CRC32", "ChecksumType": "FULL_OBJECT"},
        )
        self._address["UploadId"] = created["UploadId"]

    async def _upload_parts(self, parts: AsyncIterable[bytes]) -> None:
        slots = asyncio.Semaphore(_PARTS_IN_FLIGHT)
        number = 0

        async def upload(number: int, part: bytes) -> None:
            try:
                await self._finish(self._upload_part(number, part))
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

    async def _complete(self, condition: dict[str, str]) -> S3Response:
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

    async def _abort(self) -> None:
        """Let the server forget the parts, once none is on its way to it any more: one that arrives
        after the abort stays there. If the abort fails, the server's own rules for parts apply."""
        await asyncio.gather(*self._underway, return_exceptions=True)
        if "UploadId" not in self._address:
            return
        try:
            await self._client.call("abort_multipart_upload", self._key, self._address)
        except ObjectStoreError:
            return


def encode_crc32(checksum: Crc32) -> str:
    """A CRC32 as S3 has it in headers."""
    return base64.b64encode(checksum.value.to_bytes(4, "big")).decode()


def _part_number(part: dict[str, Any]) -> int:
    return part["PartNumber"]
