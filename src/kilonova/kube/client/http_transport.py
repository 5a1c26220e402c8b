"""The transport over HTTP: aiohttp, keep-alive connections, TLS.

The number of concurrent unary requests is bounded; streams are not counted, as each watch holds a
connection for minutes. A 401 invalidates the credentials, and the request is sent once more.
Failures below HTTP are raised as `ConnectionFailed`.
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

from kilonova.kube.client.config.credentials import Credential, CredentialSource, FixedCredentials
from kilonova.kube.client.config.endpoint import Endpoint
from kilonova.kube.client.errors import ConnectionFailed
from kilonova.kube.client.transport import Reply, Request, StreamReply

_CHUNK_BYTES = 1 << 18


class HttpTransport:
    """A connection pool to one server.

    `timeout` bounds a unary request, `connect_timeout` the opening of a connection; an established
    stream has no time limit.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        credentials: CredentialSource | None = None,
        *,
        timeout: float = 60.0,
        connect_timeout: float = 10.0,
        concurrency: int = 128,
    ) -> None:
        self._endpoint = endpoint
        self._credentials = credentials or FixedCredentials()
        self._base = endpoint.server.rstrip("/")
        self._proxy = endpoint.proxy_url or _proxy_from_environment(endpoint.server)
        self._request_timeout = aiohttp.ClientTimeout(total=timeout, sock_connect=connect_timeout)
        self._stream_timeout = aiohttp.ClientTimeout(total=None, sock_connect=connect_timeout)
        self._request_slots = asyncio.Semaphore(concurrency)
        self._tls_context = lru_cache(maxsize=4)(endpoint.tls.build_context)
        self._session: aiohttp.ClientSession | None = None

    async def send(self, request: Request) -> Reply:
        """Send a request and read the complete response."""
        async with self._request_slots:
            response = await self._send_with_credentials(request, self._request_timeout)
            with self._translate_connection_errors():
                async with response:
                    return Reply(
                        response.status, await response.read(), _lowercase_headers(response)
                    )

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncGenerator[StreamReply]:
        """Send a request and read the response as it arrives; leaving the context ends the
        stream."""
        response = await self._send_with_credentials(request, self._stream_timeout)
        try:
            yield StreamReply(
                response.status, self._read_chunks(response), _lowercase_headers(response)
            )
        finally:
            response.close()

    async def close(self) -> None:
        """Close all connections; open streams break."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _send_with_credentials(
        self, request: Request, timeout: aiohttp.ClientTimeout
    ) -> aiohttp.ClientResponse:
        credential = await self._credentials.current()
        response = await self._send_once(request, credential, timeout)
        if response.status == 401 and self._credentials.invalidate(credential):
            response.close()
            credential = await self._credentials.current()
            response = await self._send_once(request, credential, timeout)
        return response

    async def _send_once(
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
        with self._translate_connection_errors():
            return await self._session.request(
                request.method,
                self._build_url(request),
                headers=headers,
                data=request.body or None,
                timeout=timeout,
                ssl=self._tls_context(credential.certificate, credential.key),
                server_hostname=self._endpoint.tls_server_name or None,
                proxy=self._proxy or None,
                allow_redirects=False,
            )

    def _build_url(self, request: Request) -> URL:
        url = self._base + quote(request.path)
        if request.query:
            url += "?" + urlencode(request.query)
        return URL(url, encoded=True)

    async def _read_chunks(self, response: aiohttp.ClientResponse) -> AsyncGenerator[bytes]:
        with self._translate_connection_errors():
            async for chunk in response.content.iter_any():
                yield chunk

    @contextmanager
    def _translate_connection_errors(self) -> Generator[None]:
        try:
            yield
        except (aiohttp.ClientError, OSError) as error:
            raise ConnectionFailed(f"{self._base}: {_describe_error(error)}") from error


def _describe_error(error: Exception) -> str:
    """Describe a failure. aiohttp's own message for a failed connection contains the TLS
    context."""
    if not isinstance(error, aiohttp.ClientConnectorError):
        return str(error) or type(error).__name__
    cause = error.os_error
    # TLS error numbers are not system error numbers.
    number = None if isinstance(cause, ssl.SSLError) else cause.errno
    if number is not None and number in errorcode:
        return os.strerror(number)
    return cause.strerror or str(cause)


def _lowercase_headers(response: aiohttp.ClientResponse) -> dict[str, str]:
    return {name.lower(): value for name, value in response.headers.items()}


def _proxy_from_environment(server: str) -> str:
    """The proxy set by HTTPS_PROXY and similar variables, unless NO_PROXY excludes the server."""
    parts = urlsplit(server)
    proxy = getproxies().get(parts.scheme, "")
    return "" if not proxy or proxy_bypass(parts.netloc) else proxy
