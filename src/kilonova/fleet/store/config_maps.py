"""An object store on ConfigMaps of one namespace.

An object is a ConfigMap: its content compressed in `binaryData`, its key in an annotation. The ETag
is the resourceVersion; a nonce in each write makes it change even if the content does not.
"""

import gzip
import hashlib
import re
import secrets
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Generator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime

import msgspec

from kilonova.api.json import JsonObject
from kilonova.api.times import format_rfc3339, parse_time
from kilonova.kube.client.client import Client
from kilonova.kube.client.errors import (
    AlreadyExists,
    Conflict,
    ConnectionFailed,
    Forbidden,
    Invalid,
    KubeError,
    Unauthorized,
)
from kilonova.kube.client.errors import NotFound as NotFoundInApi
from kilonova.kube.client.resource import Resource
from kilonova.objectstore import (
    AccessDenied,
    Checksum,
    ChecksumMismatch,
    ListPage,
    NotFound,
    ObjectInfo,
    ObjectReader,
    ObjectStore,
    ObjectTooLarge,
    Precondition,
    PreconditionFailed,
    Unavailable,
)
from kilonova.objectstore.interface import MAX_PAGE
from kilonova.objectstore.keys import check_key, check_prefix

_DOMAIN = "fleet.kilonova.dev"
_KEY = f"{_DOMAIN}/key"
_SIZE = f"{_DOMAIN}/size"
_SHA256 = f"{_DOMAIN}/sha256"
_NONCE = f"{_DOMAIN}/nonce"
_MODIFIED = f"{_DOMAIN}/modified"
_FOLDER = f"{_DOMAIN}/folder"
"""Label: the first part of the key, so that a list need not return all objects."""
_CONTENT = "content.gz"

_MAX_COMPRESSED_BYTES = 1024 * 1024 - 4096
"""The limit of a ConfigMap, less its names."""
_MAX_SLUG = 200


class _Metadata(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str = ""
    annotations: dict[str, str] = {}


class _ConfigMap(msgspec.Struct, frozen=True, rename="camel"):
    metadata: _Metadata
    binary_data: dict[str, bytes] = {}


_CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap", True, _ConfigMap)


class ConfigMapStore(ObjectStore):
    """Objects of up to a MiB, compressed, in a namespace, which exists.

    `client` is closed with the store.
    """

    def __init__(self, client: Client, namespace: str, name: str) -> None:
        self.name = name
        self._client = client
        self._namespace = namespace

    async def head(self, key: str) -> ObjectInfo:
        return _build_info(await self._read(key))

    @asynccontextmanager
    async def open(self, key: str) -> AsyncGenerator[ObjectReader]:
        found = await self._read(key)
        yield _ContentReader(self.name, _build_info(found), found)

    async def put(self, key: str, body: bytes, when: Precondition | None = None) -> ObjectInfo:
        check_key(self.name, key)
        written = self._encode(key, body)
        if when is None:
            return _build_info(await self._put_always(key, written))
        if when.etag is None:
            return _build_info(await self._create(key, written))
        if not when.etag.isdigit():
            raise PreconditionFailed(f"{self.name}/{key}", f"{when.etag!r} is no resourceVersion")
        return _build_info(await self._replace(key, written, when.etag))

    async def upload(
        self, key: str, body: AsyncIterable[bytes], when: Precondition | None = None
    ) -> ObjectInfo:
        return await self.put(key, b"".join([piece async for piece in body]), when)

    async def delete(self, key: str) -> None:
        check_key(self.name, key)
        try:
            with self._translate_errors(key):
                await self._client.delete(_CONFIG_MAPS, _name(key), self._namespace)
        except NotFound:
            return

    async def list_page(self, prefix: str = "", after: str = "", limit: int = MAX_PAGE) -> ListPage:
        check_prefix(self.name, prefix)
        folder, slash, _ = prefix.partition("/")
        selector = f"{_FOLDER}={_label(folder)}" if slash else _FOLDER
        with self._translate_errors(""):
            found = await self._client.list(_CONFIG_MAPS, self._namespace, label_selector=selector)
        infos = [_build_info(each) for each in found.items]
        matching = sorted(
            (each for each in infos if each.key.startswith(prefix) and each.key > after),
            key=lambda each: each.key,
        )
        page = tuple(matching[:limit])
        return ListPage(page, page[-1].key if len(matching) > limit else "")

    async def close(self) -> None:
        await self._client.close()

    async def _read(self, key: str) -> _ConfigMap:
        check_key(self.name, key)
        with self._translate_errors(key):
            return await self._client.get(_CONFIG_MAPS, _name(key), self._namespace)

    async def _put_always(self, key: str, written: JsonObject) -> _ConfigMap:
        while True:
            try:
                return await self._replace(key, written, None)
            except PreconditionFailed:
                pass  # not there
            try:
                return await self._create(key, written)
            except PreconditionFailed:
                pass  # created meanwhile

    async def _create(self, key: str, written: JsonObject) -> _ConfigMap:
        try:
            with self._translate_errors(key):
                return await self._client.create(_CONFIG_MAPS, written, self._namespace)
        except NotFound as error:
            fix = f"create the namespace {self._namespace}, or correct the endpoint"
            raise NotFound(self.name, "there is no such namespace", fix) from error

    async def _replace(self, key: str, written: JsonObject, version: str | None) -> _ConfigMap:
        metadata = written["metadata"] | ({"resourceVersion": version} if version else {})
        try:
            with self._translate_errors(key):
                return await self._client.patch(
                    _CONFIG_MAPS, _name(key), written | {"metadata": metadata}, self._namespace
                )
        except NotFound as error:
            raise PreconditionFailed(error.where, "there is no object") from error

    def _encode(self, key: str, body: bytes) -> JsonObject:
        content = gzip.compress(body, mtime=0)
        if len(content) > _MAX_COMPRESSED_BYTES:
            raise ObjectTooLarge(
                f"{self.name}/{key}",
                f"it has {len(content)} bytes compressed, more than the {_MAX_COMPRESSED_BYTES} "
                "of a ConfigMap",
                "use an endpoint on S3 or a directory",
            )
        annotations = {
            _KEY: key,
            _SIZE: str(len(body)),
            _SHA256: hashlib.sha256(body).hexdigest(),
            _NONCE: secrets.token_hex(8),
            _MODIFIED: format_rfc3339(datetime.now(UTC)),
        }
        labels = {_FOLDER: _label(key.partition("/")[0] if "/" in key else "")}
        return {
            "metadata": {"name": _name(key), "annotations": annotations, "labels": labels},
            "binaryData": {_CONTENT: content},
        }

    @contextmanager
    def _translate_errors(self, key: str) -> Generator[None]:
        where = f"{self.name}/{key}" if key else self.name
        try:
            yield
        except (Conflict, AlreadyExists) as error:
            raise PreconditionFailed(where, "another writer created or replaced it") from error
        except NotFoundInApi as error:
            raise NotFound(where, "there is no such object") from error
        except (Forbidden, Unauthorized) as error:
            fix = f"allow get, list, create, patch and delete of ConfigMaps in {self._namespace}"
            raise AccessDenied(where, str(error), fix) from error
        except Invalid as error:
            raise ObjectTooLarge(where, str(error), "use another endpoint") from error
        except ConnectionFailed as error:
            fix = "check the context, and whether the API server runs"
            raise Unavailable(where, str(error), fix) from error
        except KubeError as error:
            raise Unavailable(where, str(error)) from error


class _ContentReader(ObjectReader):
    def __init__(self, store: str, info: ObjectInfo, found: _ConfigMap) -> None:
        self.info = info
        self._store = store
        self._found = found

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            body = gzip.decompress(self._found.binary_data.get(_CONTENT, b""))
        except (OSError, EOFError):
            body = b""
        checksum = self.info.checksum
        digest = hashlib.sha256(body).hexdigest()
        if checksum is None or digest != checksum.digest:
            where = f"{self._store}/{self.info.key}"
            problem = "the content does not have the checksum stored with it"
            raise ChecksumMismatch(where, problem, "restore or write the object again")
        yield body


def _build_info(found: _ConfigMap) -> ObjectInfo:
    stored = found.metadata.annotations
    try:
        modified = parse_time(stored.get(_MODIFIED, ""))
    except ValueError:
        modified = datetime.fromtimestamp(0, UTC)
    size = stored.get(_SIZE, "")
    return ObjectInfo(
        stored.get(_KEY, ""),
        int(size) if size.isdecimal() else 0,
        found.metadata.resource_version,
        modified,
        Checksum("sha256", stored.get(_SHA256, "")),
    )


def _name(key: str) -> str:
    """A name that people recognise, and that is unique."""
    slug = re.sub(r"[^a-z0-9.]+", "-", key.lower()).strip("-.")[:_MAX_SLUG]
    slug = ".".join(part.strip("-") or "x" for part in slug.split("."))
    return f"fleet-{slug}-{hashlib.sha256(key.encode()).hexdigest()[:12]}"


def _label(folder: str) -> str:
    return (
        folder
        if re.fullmatch(r"([A-Za-z0-9][\w.-]{0,61})?[A-Za-z0-9]", folder)
        else (hashlib.sha256(folder.encode()).hexdigest()[:16] if folder else "")
    )
