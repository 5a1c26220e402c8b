"""boto3's client in threads, with its errors translated to those of object stores."""

import asyncio
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal, Protocol, TypeAlias, TypeVar, cast

from kilonova.objectstore.errors import (
    AccessDenied,
    ChecksumMismatch,
    InvalidKey,
    NotFound,
    ObjectStoreError,
    PreconditionFailed,
    StoreNotUsable,
    Unavailable,
)
from kilonova.objectstore.s3.settings import S3Settings

S3Response: TypeAlias = Mapping[str, Any]
"""A response as boto3 returns it; its fields are those of the S3 API."""

Operation: TypeAlias = Literal[
    "get_object",
    "head_object",
    "put_object",
    "delete_object",
    "list_objects_v2",
    "create_multipart_upload",
    "upload_part",
    "complete_multipart_upload",
    "abort_multipart_upload",
]

T = TypeVar("T")

_ATTEMPTS = 4
"""How often a request without precondition is tried."""

_CHECKSUM_CODES = frozenset({"BadDigest", "InvalidDigest", "XAmzContentChecksumMismatch"})
_CONFLICT_CODES = frozenset({"ConditionalRequestConflict", "OperationAborted"})
_KEY_CODES = frozenset({"KeyTooLongError", "ExistingObjectIsDirectory", "ObjectParentIsFile"})


class StreamingBody(Protocol):
    """The content of an object while it is received. Blocking."""

    def read(self, size: int, /) -> bytes: ...
    def close(self) -> None: ...


class S3Client:
    """Calls S3 about the objects of one bucket.

    Requests with a precondition are not repeated: the first attempt may have succeeded although its
    response was lost, and the second would then report a conflict with ourselves.
    """

    def __init__(self, settings: S3Settings) -> None:
        self._settings = settings
        self._threads = ThreadPoolExecutor(settings.limits.concurrency, thread_name_prefix="s3")
        self._create_lock = threading.Lock()
        self._repeating: Any = None
        self._single: Any = None

    async def call(
        self,
        operation: Operation,
        key: str,
        parameters: Mapping[str, object],
        *,
        once: bool = False,
    ) -> S3Response:
        """Call an operation on the bucket; `key` is for errors, the parameters are those of the S3
        API. With `once` it is not repeated if it fails."""

        def request() -> S3Response:
            self._create_clients()
            client = self._single if once else self._repeating
            return getattr(client, operation)(Bucket=self._settings.bucket, **parameters)

        return await self._run(key, request)

    async def read(self, key: str, body: StreamingBody, size: int) -> bytes:
        """The next piece of an object's content; empty at its end."""
        return await self._run(key, lambda: body.read(size))

    async def close(self) -> None:
        """Close all connections."""
        for client in (self._repeating, self._single):
            if client is not None:
                client.close()
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _run(self, key: str, request: Callable[[], T]) -> T:
        where = f"{self._settings.name}/{key}" if key else self._settings.name
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, request)
        except ObjectStoreError:
            raise
        except Exception as error:
            translated = translate_error(where, error)
            if translated is None:
                raise
            raise translated from error

    def _create_clients(self) -> None:
        with self._create_lock:
            if self._single is None:
                session = _create_session(self._settings)
                self._repeating = _create_client(session, self._settings, _ATTEMPTS)
                self._single = _create_client(session, self._settings, 1)


def unquote_etag(value: str) -> str:
    """An ETag without the quotes that HTTP has around it."""
    return value.strip('"')


def translate_error(where: str, error: Exception) -> ObjectStoreError | None:
    """The error of object stores for one of boto3; None if it is none of boto3's."""
    from botocore import exceptions

    if isinstance(error, exceptions.ClientError):
        return _translate_response(where, cast("Any", error).response)
    if isinstance(error, exceptions.FlexibleChecksumError):
        fix = "restore or write the object again"
        return ChecksumMismatch(where, "the content does not have the checksum stored with it", fix)
    if isinstance(
        error,
        (
            exceptions.NoCredentialsError,
            exceptions.PartialCredentialsError,
            exceptions.CredentialRetrievalError,
            exceptions.TokenRetrievalError,
        ),
    ):
        fix = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a profile in ~/.aws"
        return AccessDenied(where, "no credentials were found", fix)
    if isinstance(error, exceptions.NoRegionError):
        return StoreNotUsable(where, "no region is given", "set region or AWS_REGION")
    if isinstance(error, exceptions.BotoCoreError):
        fix = "check the endpoint, and whether the server runs"
        return Unavailable(where, str(error), fix)
    return None


def _translate_response(where: str, response: S3Response) -> ObjectStoreError:
    error: Mapping[str, str] = response.get("Error", {})
    status: int = response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    code, message = error.get("Code", ""), error.get("Message", "")
    if code == "NoSuchBucket":
        return NotFound(where, "there is no such bucket", "create it, or correct its name")
    if status == 404:
        return NotFound(where, "there is no such object")
    if status == 412:
        return PreconditionFailed(where, "another writer created or replaced it")
    if code in _CHECKSUM_CODES:
        return ChecksumMismatch(where, f"the content was damaged on its way: {message}")
    if code in _KEY_CODES:
        return InvalidKey(where, message, "choose another key")
    if status in (401, 403):
        fix = "check the credentials, and what they may do in this bucket"
        return AccessDenied(where, f"{code}: {message}" if message else code, fix)
    if code in _CONFLICT_CODES:
        return Unavailable(where, f"concurrent requests conflict: {message}", "try again")
    return Unavailable(where, f"{code or status}: {message}")


def _create_session(settings: S3Settings) -> Any:
    try:
        from boto3.session import Session
    except ImportError as error:
        raise StoreNotUsable(
            settings.name, "boto3 is not installed", "pip install 'kilonova[s3]'"
        ) from error
    return Session()


def _create_client(session: Any, settings: S3Settings, attempts: int) -> Any:
    from botocore.config import Config

    return session.client(
        "s3",
        endpoint_url=settings.endpoint or None,
        region_name=settings.region or None,
        config=Config(
            connect_timeout=settings.limits.connect_timeout,
            read_timeout=settings.limits.read_timeout,
            max_pool_connections=settings.limits.concurrency,
            retries={"mode": "standard", "total_max_attempts": attempts},
            s3={"addressing_style": "path" if settings.uses_path_style else "auto"},
        ),
    )
