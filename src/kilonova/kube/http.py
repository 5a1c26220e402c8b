"""Requests over HTTP: aiohttp, kept-alive connections, TLS.

Whole answers share a bounded number of requests under way; streams are not counted, as each
watch holds a connection for minutes. A 401 makes the credentials be renewed and the request
be sent once more. Whatever breaks below HTTP is raised as `ConnectionFailed`.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from errno import errorcode
from functools import lru_cache
from urllib.parse import quote, urlencode, urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from kilonova.kube.credentials import Credential, Credentials, FixedCredentials
from kilonova.kube.endpoint import Endpoint
from kilonova.kube.errors import ConnectionFailed
from kilonova.kube.transport import Reply, Request, StreamReply

_CHUNK_BYTES = 1 << 18


class HttpTransport:
    """A connection pool to one server.

    `timeout` bounds a whole answer, `connect_timeout` the making of a connection; a stream,
    once begun, may last for ever.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        credentials: Credentials | None = None,
        *,
        timeout: float = 60.0,
        connect_timeout: float = 10.0,
        concurrency: int = 128,
    ) -> None:
        self._endpoint = endpoint
        self._credentials = credentials or FixedCredentials()
        self._base = endpoint.server.rstrip("/")
        self._proxy = endpoint.proxy or _proxy_of_environment(endpoint.server)
        self._whole = aiohttp.ClientTimeout(total=timeout, sock_connect=connect_timeout)
        self._streamed = aiohttp.ClientTimeout(total=None, sock_connect=connect_timeout)
        self._slots = asyncio.Semaphore(concurrency)
        self._tls = lru_cache(maxsize=4)(endpoint.trust.context)
        self._session: aiohttp.ClientSession | None = None

    async def send(self, request: Request) -> Reply:
        """Send and wait for the whole answer."""
        async with self._slots:
            response = await self._respond(request, self._whole)
            with self._breaks_as_connection_failed():
                async with response:
                    return Reply(response.status, await response.read(), _headers(response))

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncGenerator[StreamReply]:
        """Send and read the answer as it comes; leaving the context ends the stream."""
        response = await self._respond(request, self._streamed)
        try:
            yield StreamReply(response.status, self._chunks(response), _headers(response))
        finally:
            response.close()

    async def close(self) -> None:
        """Close all connections; streams under way break."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _respond(
        self, request: Request, timeout: aiohttp.ClientTimeout
    ) -> aiohttp.ClientResponse:
        credential = await self._credentials.current()
        response = await self._request(request, credential, timeout)
        if response.status == 401 and self._credentials.refused(credential):
            response.close()
            credential = await self._credentials.current()
            response = await self._request(request, credential, timeout)
        return response

    async def _request(
        self, request: Request, credential: Credential, timeout: aiohttp.ClientTimeout
    ) -> aiohttp.ClientResponse:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=60.0),
                cookie_jar=aiohttp.DummyCookieJar(),
                read_bufsize=_CHUNK_BYTES,
            )
        headers = CIMultiDict(request.headers)
        headers.extend(self._endpoint.headers)
        if credential.authorization:
            headers["authorization"] = credential.authorization
        with self._breaks_as_connection_failed():
            return await self._session.request(
                request.method,
                self._url(request),
                headers=headers,
                data=request.body or None,
                timeout=timeout,
                ssl=self._tls(credential.certificate, credential.key),
                server_hostname=self._endpoint.tls_server_name or None,
                proxy=self._proxy or None,
                allow_redirects=False,
            )

    def _url(self, request: Request) -> URL:
        url = self._base + quote(request.path)
        if request.query:
            url += "?" + urlencode(request.query)
        return URL(url, encoded=True)

    async def _chunks(self, response: aiohttp.ClientResponse) -> AsyncGenerator[bytes]:
        with self._breaks_as_connection_failed():
            async for chunk in response.content.iter_any():
                yield chunk

    @contextmanager
    def _breaks_as_connection_failed(self) -> Generator[None]:
        try:
            yield
        except (aiohttp.ClientError, OSError) as error:
            raise ConnectionFailed(f"{self._base}: {_words(error)}") from error


def _words(error: Exception) -> str:
    """What went wrong. aiohttp's own words for a failed connection show our TLS context."""
    if not isinstance(error, aiohttp.ClientConnectorError):
        return str(error) or type(error).__name__
    cause = error.os_error
    # Numbers of TLS errors are none of the system's.
    number = None if isinstance(cause, ssl.SSLError) else cause.errno
    if number is not None and number in errorcode:
        return os.strerror(number)
    return cause.strerror or str(cause)


def _headers(response: aiohttp.ClientResponse) -> dict[str, str]:
    return {name.lower(): value for name, value in response.headers.items()}


def _proxy_of_environment(server: str) -> str:
    """The proxy that HTTPS_PROXY and its like ask for, unless NO_PROXY excepts the server."""
    parts = urlsplit(server)
    proxy = getproxies().get(parts.scheme, "")
    return "" if not proxy or proxy_bypass(parts.netloc) else proxy
