"""Pulls and pushes artifacts of one repository."""

import hashlib
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO
from urllib.parse import urljoin

import aiohttp
import msgspec
from yarl import URL

from kilonova.objectstore.errors import (
    AccessDenied,
    ChecksumMismatch,
    InvalidKey,
    NotFound,
    ObjectStoreError,
    ObjectTooLarge,
    StoreNotUsable,
    Unavailable,
)
from kilonova.objectstore.interface import DEFAULT_MAX_BYTES
from kilonova.objectstore.oci.authorization import RegistryAuthorization
from kilonova.objectstore.oci.credentials import RegistryCredentials
from kilonova.objectstore.oci.location import OciLocation, is_digest, is_reference
from kilonova.objectstore.oci.manifests import (
    EMPTY_CONTENT,
    EMPTY_TYPE,
    MANIFEST_TYPE,
    Descriptor,
    Manifest,
    build_manifest,
    describe,
    digest,
)

_MAX_MANIFEST_BYTES = 4 * 1024 * 1024
"""The size that registries must accept; larger ones are refused by most."""
_MAX_LIST_BYTES = 16 * 1024 * 1024
_PIECE_BYTES = 1 << 18
_MIN_BYTES_PER_SECOND = 1 << 20
"""A file may take so long to be sent."""
TAGS_PER_PAGE = 1000
_PULL, _PUSH = "pull", "pull,push"


@dataclass(frozen=True, slots=True)
class PulledManifest:
    """A manifest, and the digest that names it for ever."""

    digest: str
    manifest: Manifest


@dataclass(frozen=True, slots=True)
class _Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes


class _Error(msgspec.Struct, frozen=True):
    code: str = ""
    message: str = ""


class _Errors(msgspec.Struct, frozen=True):
    errors: tuple[_Error, ...] = ()


class _Tags(msgspec.Struct, frozen=True):
    tags: tuple[str, ...] | None = ()


class OciRepository:
    """One repository of a registry. Methods raise `ObjectStoreError`s, and nothing is repeated
    automatically, but for a request whose token has expired."""

    def __init__(
        self,
        location: OciLocation,
        credentials: RegistryCredentials | None = None,
        *,
        timeout: float = 60.0,
        connect_timeout: float = 10.0,
    ) -> None:
        self.location = location
        self._timeout = aiohttp.ClientTimeout(total=timeout, sock_connect=connect_timeout)
        self._authorization = RegistryAuthorization(location, credentials or RegistryCredentials())
        self._base = f"{location.base_url}{location.repository}/"
        self._session: aiohttp.ClientSession | None = None

    async def pull_manifest(self, reference: str) -> PulledManifest:
        """The manifest of a tag or a digest; `NotFound` if there is none."""
        where = self._locate(reference)
        if not is_reference(reference):
            raise InvalidKey(where, "it is neither a tag nor a digest", "correct it")
        answer = await self._request(
            "GET", f"manifests/{reference}", where, {"accept": MANIFEST_TYPE}
        )
        found = digest(answer.body)
        stated = answer.headers.get("docker-content-digest", found)
        expected = reference if is_digest(reference) else stated
        _check_digest(where, found, expected)
        try:
            manifest = msgspec.json.decode(answer.body, type=Manifest)
        except msgspec.DecodeError:
            fix = "push an artifact; an index of several images is none"
            raise StoreNotUsable(where, "it is no manifest of an artifact", fix) from None
        return PulledManifest(found, manifest)

    async def pull_blob(
        self, descriptor: Descriptor, *, max_bytes: int = DEFAULT_MAX_BYTES
    ) -> bytes:
        """The content of a blob, which is its digest; `ObjectTooLarge` beyond `max_bytes`."""
        where = self._locate(descriptor.digest)
        if not is_digest(descriptor.digest):
            raise InvalidKey(where, "the digest is not of SHA-256", "push the artifact again")
        if descriptor.size > max_bytes:
            raise _too_large(where, descriptor.size, max_bytes)
        path = f"blobs/{descriptor.digest}"
        answer = await self._request("GET", path, where, max_bytes=max_bytes)
        _check_digest(where, digest(answer.body), descriptor.digest)
        return answer.body

    @asynccontextmanager
    async def open_blob(self, descriptor: Descriptor) -> AsyncGenerator[AsyncIterator[bytes]]:
        """The content of a blob of any size, in pieces. Its digest is verified at its end:
        `ChecksumMismatch`."""
        where = self._locate(descriptor.digest)
        if not is_digest(descriptor.digest):
            raise InvalidKey(where, "the digest is not of SHA-256", "push the artifact again")
        patience = aiohttp.ClientTimeout(
            total=None, sock_connect=self._timeout.sock_connect, sock_read=self._timeout.total
        )
        path = f"blobs/{descriptor.digest}"
        async with self._send("GET", path, where, actions=_PULL, timeout=patience) as reply:
            yield _read_verified(reply, where, descriptor.digest)

    async def push(
        self,
        tag: str,
        artifact_type: str,
        layers: tuple[tuple[Descriptor, bytes | Path], ...],
        annotations: dict[str, str] | None = None,
    ) -> str:
        """Push an artifact of some blobs under a tag; its digest. A tag that exists is moved.

        The content of a blob may be a file of any size, which is what its descriptor reports."""
        for descriptor, content in (
            (describe(EMPTY_CONTENT, EMPTY_TYPE), EMPTY_CONTENT),
            *layers,
        ):
            await self._push_blob(descriptor, content)
        descriptors = tuple(descriptor for descriptor, _ in layers)
        manifest = build_manifest(artifact_type, descriptors, annotations or {})
        body = msgspec.json.encode(manifest)
        await self._request(
            "PUT", f"manifests/{tag}", self._locate(tag), {"content-type": MANIFEST_TYPE}, body
        )
        return digest(body)

    async def list_tags(self) -> tuple[str, ...]:
        """All tags, sorted; none if there is no such repository."""
        tags: list[str] = []
        path = f"tags/list?n={TAGS_PER_PAGE}"
        while path:
            try:
                answer = await self._request(
                    "GET", path, self.location.name, max_bytes=_MAX_LIST_BYTES
                )
            except NotFound:
                break
            tags += self._read_tags(answer.body)
            link = answer.headers.get("link", "")
            following = link.partition("<")[2].partition(">")[0]
            path = urljoin(self._base + path, following) if following else ""
        return tuple(sorted(tags))

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def __aenter__(self) -> "OciRepository":
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    def _read_tags(self, body: bytes) -> tuple[str, ...]:
        try:
            return msgspec.json.decode(body, type=_Tags).tags or ()
        except msgspec.DecodeError:
            problem = "the registry's list of tags cannot be read"
            raise Unavailable(self.location.name, problem) from None

    async def _push_blob(self, descriptor: Descriptor, content: bytes | Path) -> None:
        where = self._locate(descriptor.digest)
        try:
            await self._request("HEAD", f"blobs/{descriptor.digest}", where, actions=_PUSH)
        except NotFound:
            pass
        else:
            return
        started = await self._request("POST", "blobs/uploads/", where)
        place = URL(urljoin(self._base, started.headers.get("location", "")), encoded=True)
        await self._request(
            "PUT",
            str(place.update_query(digest=descriptor.digest)),
            where,
            {"content-type": "application/octet-stream"},
            content,
        )

    async def _request(
        self,
        method: str,
        path: str,
        where: str,
        headers: Mapping[str, str] | None = None,
        body: bytes | Path = b"",
        *,
        max_bytes: int = _MAX_MANIFEST_BYTES,
        actions: str = "",
    ) -> _Answer:
        """Send a request; the whole answer."""
        actions = actions or (_PULL if method == "GET" else _PUSH)
        async with self._send(method, path, where, headers, body, actions=actions) as reply:
            return await _read_answer(reply, where, max_bytes)

    @asynccontextmanager
    async def _send(
        self,
        method: str,
        path: str,
        where: str,
        headers: Mapping[str, str] | None = None,
        body: bytes | Path = b"",
        *,
        actions: str,
        timeout: aiohttp.ClientTimeout | None = None,
    ) -> AsyncGenerator[aiohttp.ClientResponse]:
        """Send a request, after a challenge once more with its answer; a reply that is no error."""
        url = URL(urljoin(self._base, path), encoded=True)
        with_authorization = url.origin() == URL(self._base).origin()
        given = dict(headers or {})
        patience = timeout or self._get_timeout(body)
        async with self._translate_errors(where) as session:
            for is_last in (False, True):
                value = self._authorization.get(actions)
                if value and with_authorization:
                    given["authorization"] = value
                with _open_content(body) as content:
                    async with session.request(
                        method, url, headers=given, data=content, timeout=patience
                    ) as reply:
                        if reply.status < 400:
                            yield reply
                            return
                        answer = await _read_answer(reply, where, _MAX_MANIFEST_BYTES)
                if answer.status != 401:
                    break
                challenge = answer.headers.get("www-authenticate", "")
                if is_last or not challenge:
                    raise self._authorization.denied(self._authorization.find_login())
                await self._authorization.answer(session, challenge, actions)
        raise self._translate_status(where, answer)

    def _get_timeout(self, body: bytes | Path) -> aiohttp.ClientTimeout:
        """The time of a request; more for a file, which takes longer the larger it is."""
        if isinstance(body, bytes) or self._timeout.total is None:
            return self._timeout
        total = self._timeout.total + body.stat().st_size / _MIN_BYTES_PER_SECOND
        return aiohttp.ClientTimeout(total=total, sock_connect=self._timeout.sock_connect)

    @asynccontextmanager
    async def _translate_errors(self, where: str) -> AsyncGenerator[aiohttp.ClientSession]:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                timeout=self._timeout, cookie_jar=aiohttp.DummyCookieJar(), trust_env=True
            )
        try:
            yield self._session
        except TimeoutError as error:
            problem = f"the registry did not answer within {self._timeout.total:.0f} s"
            raise Unavailable(where, problem, "check whether it runs") from error
        except (aiohttp.ClientError, OSError) as error:
            fix = "check the address, and whether the registry runs"
            if isinstance(error, aiohttp.ClientSSLError):
                fix = "check its certificate; without TLS, add ?plain-http=true to the URL"
            raise Unavailable(where, str(error) or type(error).__name__, fix) from error

    def _translate_status(self, where: str, answer: _Answer) -> ObjectStoreError:
        message = _read_error(answer.body)
        if answer.status == 404:
            return NotFound(where, message or "there is no such artifact")
        if answer.status == 403:
            denied = self._authorization.denied(self._authorization.find_login(), message)
            return AccessDenied(where, denied.problem, denied.fix)
        return Unavailable(where, f"the registry answers with {answer.status}: {message}")

    def _locate(self, reference: str) -> str:
        separator = "@" if is_digest(reference) else ":"
        return f"{self.location.name}{separator}{reference[:80]}"


@contextmanager
def _open_content(body: bytes | Path) -> Generator[bytes | BinaryIO | None]:
    """What a request sends: each attempt reads a file from its start."""
    if isinstance(body, bytes):
        yield body or None
        return
    with body.open("rb") as file:
        yield file


async def _read_verified(
    reply: aiohttp.ClientResponse, where: str, expected: str
) -> AsyncIterator[bytes]:
    hasher = hashlib.sha256()
    async for piece in reply.content.iter_chunked(_PIECE_BYTES):
        hasher.update(piece)
        yield piece
    _check_digest(where, f"sha256:{hasher.hexdigest()}", expected)


async def _read_answer(reply: aiohttp.ClientResponse, where: str, max_bytes: int) -> _Answer:
    """The whole response, unless it is larger than it may be."""
    pieces: list[bytes] = []
    size = 0
    async for piece in reply.content.iter_chunked(_PIECE_BYTES):
        size += len(piece)
        if size > max_bytes:
            raise _too_large(where, size, max_bytes)
        pieces.append(piece)
    headers = {name.lower(): value for name, value in reply.headers.items()}
    return _Answer(reply.status, headers, b"".join(pieces))


def _read_error(body: bytes) -> str:
    """The messages of an error of a registry; empty if there are none."""
    try:
        errors = msgspec.json.decode(body, type=_Errors).errors
    except msgspec.DecodeError:
        return ""
    return ", ".join(filter(None, (each.message or each.code for each in errors)))


def _check_digest(where: str, found: str, expected: str) -> None:
    if found != expected:
        problem = f"the digest of its content is {found}, expected {expected}"
        raise ChecksumMismatch(where, problem, "push it again")


def _too_large(where: str, size: int, max_bytes: int) -> ObjectTooLarge:
    problem = f"it has {size} bytes or more, above the {max_bytes} expected"
    return ObjectTooLarge(where, problem, "check that it is the artifact that is meant")
