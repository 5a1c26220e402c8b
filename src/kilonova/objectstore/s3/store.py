"""The object store on S3."""

import base64
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from email.utils import parsedate_to_datetime

from kilonova.objectstore.checksums import Checksum, Crc32
from kilonova.objectstore.errors import NotFound, PreconditionFailed
from kilonova.objectstore.interface import (
    MAX_PAGE,
    ListPage,
    ObjectInfo,
    ObjectReader,
    ObjectStore,
    Precondition,
)
from kilonova.objectstore.keys import check_key, check_prefix
from kilonova.objectstore.s3.client import S3Client, S3Response, StreamingBody, unquote_etag
from kilonova.objectstore.s3.multipart import MultipartUpload
from kilonova.objectstore.s3.settings import S3Settings
from kilonova.objectstore.streams import split_stream

_PIECE_BYTES = 1024 * 1024


class S3Store(ObjectStore):
    """Objects in a bucket, which exists. The first call imports boto3.

    For compare-and-swap and leases use a bucket without versioning: on some servers a deleted key
    of a versioned one cannot be created again with `IF_ABSENT`.
    """

    def __init__(self, settings: S3Settings) -> None:
        self.name = settings.name
        self._settings = settings
        self._part_bytes = settings.limits.part_bytes
        self._client = S3Client(settings)

    async def head(self, key: str) -> ObjectInfo:
        found = await self._client.call("head_object", key, self._address(key))
        return _read_info(key, found)

    @asynccontextmanager
    async def open(self, key: str) -> AsyncGenerator[ObjectReader]:
        found = await self._client.call("get_object", key, self._address(key))
        body: StreamingBody = found["Body"]
        try:
            yield _ResponseReader(self._client, _read_info(key, found), body)
        finally:
            body.close()

    async def put(self, key: str, body: bytes, when: Precondition | None = None) -> ObjectInfo:
        checksum = Crc32()
        checksum.update(body)
        path, condition = self._locate(key), _encode_condition(when)
        try:
            written = await self._client.call(
                "put_object",
                key,
                {"Key": path, "Body": body, "ChecksumAlgorithm": "CRC32", **condition},
                once=bool(condition),
            )
        except NotFound as error:
            raise _explain_missing(error, when) from error
        return _build_written(key, len(body), written, checksum)

    async def upload(
        self, key: str, body: AsyncIterable[bytes], when: Precondition | None = None
    ) -> ObjectInfo:
        path = self._locate(key)
        parts = split_stream(body, self._part_bytes)
        first = await anext(parts, b"")
        if len(first) < self._part_bytes:
            return await self.put(key, first, when)
        upload, size = MultipartUpload(self._client, key, path), 0

        async def count_parts() -> AsyncGenerator[bytes]:
            nonlocal size
            size = len(first)
            yield first
            async for part in parts:
                size += len(part)
                yield part

        try:
            written = await upload.run(count_parts(), _encode_condition(when))
        except NotFound as error:
            raise _explain_missing(error, when) from error
        return _build_written(key, size, written, upload.checksum)

    async def delete(self, key: str) -> None:
        await self._client.call("delete_object", key, {"Key": self._locate(key)})

    async def list_page(self, prefix: str = "", after: str = "", limit: int = MAX_PAGE) -> ListPage:
        check_prefix(self.name, prefix)
        own = self._settings.prefix
        start = {"StartAfter": own + after} if after else {}
        found = await self._client.call(
            "list_objects_v2", "", {"Prefix": own + prefix, "MaxKeys": limit, **start}
        )
        objects = tuple(
            ObjectInfo(
                str(each["Key"])[len(own) :],
                int(each["Size"]),
                unquote_etag(each["ETag"]),
                each["LastModified"],
            )
            for each in found.get("Contents", ())
        )
        return ListPage(objects, objects[-1].key if found["IsTruncated"] and objects else "")

    async def close(self) -> None:
        await self._client.close()

    def _address(self, key: str) -> dict[str, object]:
        return {"Key": self._locate(key), "ChecksumMode": "ENABLED"}

    def _locate(self, key: str) -> str:
        check_key(self.name, key)
        return self._settings.prefix + key


class _ResponseReader(ObjectReader):
    """Reads a response; botocore verifies its checksum and length at the end."""

    def __init__(self, client: S3Client, info: ObjectInfo, body: StreamingBody) -> None:
        self.info = info
        self._client = client
        self._body = body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while piece := await self._client.read(self.info.key, self._body, _PIECE_BYTES):
            yield piece


def _encode_condition(when: Precondition | None) -> dict[str, str]:
    if when is None:
        return {}
    return {"IfNoneMatch": "*"} if when.etag is None else {"IfMatch": f'"{when.etag}"'}


def _explain_missing(error: NotFound, when: Precondition | None) -> NotFound | PreconditionFailed:
    """A write with `if_match` finds no object where there must be one."""
    if when is None or when.etag is None or error.fix:
        return error
    return PreconditionFailed(error.where, "there is no object")


def _read_info(key: str, found: S3Response) -> ObjectInfo:
    modified: datetime = found["LastModified"]
    size, etag = int(found["ContentLength"]), unquote_etag(found["ETag"])
    return ObjectInfo(key, size, etag, modified, _read_checksum(found))


def _read_checksum(found: S3Response) -> Checksum | None:
    """The checksum of the whole object; one of checksums of parts does not determine it."""
    encoded: str = found.get("ChecksumCRC32", "")
    if not encoded or found.get("ChecksumType") == "COMPOSITE" or "-" in encoded:
        return None
    return Checksum("crc32", base64.b64decode(encoded).hex())


def _build_written(key: str, size: int, written: S3Response, checksum: Crc32) -> ObjectInfo:
    modified = parsedate_to_datetime(written["ResponseMetadata"]["HTTPHeaders"]["date"])
    etag = unquote_etag(written["ETag"])
    return ObjectInfo(key, size, etag, modified, Checksum("crc32", checksum.hexdigest()))
