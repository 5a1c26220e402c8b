"""Reads metrics over HTTP: one kept connection for each target.

Gateways and servers are asked every second, and answers are small: over asyncio's streams that
costs a third of what a general HTTP client takes.
"""

import asyncio
import contextlib
from typing import Protocol

_TIMEOUT_SECONDS = 2.0
_MAX_BYTES = 16 << 20

Address = tuple[str, int]


class ReadFailed(Exception):
    """A target did not answer; the text states why."""


class MetricsReader(Protocol):
    """Reads the text at a path of a target; raises `ReadFailed`."""

    async def read(self, address: Address, path: str) -> str: ...

    def forget(self, address: Address) -> None:
        """Close what is kept for a target."""
        ...


class HttpReader:
    """A `MetricsReader` over HTTP/1.1."""

    def __init__(self, timeout: float = _TIMEOUT_SECONDS) -> None:
        self._timeout = timeout
        self._connections: dict[Address, _Connection] = {}

    async def read(self, address: Address, path: str) -> str:
        """The body of the answer."""
        try:
            async with asyncio.timeout(self._timeout):
                return await self._read(address, path)
        except TimeoutError:
            raise ReadFailed(f"no answer within {self._timeout:g}s") from None
        except asyncio.IncompleteReadError:
            raise ReadFailed("the connection was closed before the end of the answer") from None
        except (OSError, asyncio.LimitOverrunError, ValueError) as error:
            raise ReadFailed(_describe(error)) from error

    def forget(self, address: Address) -> None:
        """Close the connection to a target."""
        connection = self._connections.pop(address, None)
        if connection is not None:
            connection.close()

    def close(self) -> None:
        """Close all connections."""
        for address in list(self._connections):
            self.forget(address)

    async def _read(self, address: Address, path: str) -> str:
        kept = self._connections.pop(address, None)
        if kept is not None:
            # The target may have closed it since: then a new connection is tried.
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                return await self._read_over(kept, address, path)
        reader, writer = await asyncio.open_connection(*address)
        return await self._read_over(_Connection(reader, writer), address, path)

    async def _read_over(self, connection: "_Connection", address: Address, path: str) -> str:
        try:
            status, body, may_keep = await connection.get(address[0], path)
        except BaseException:
            connection.close()
            raise
        if may_keep:
            self._connections[address] = connection
        else:
            connection.close()
        if status != 200:
            raise ReadFailed(f"HTTP {status} at {path.partition('?')[0]}")
        return body.decode("utf-8", "replace")


class _Connection:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    def close(self) -> None:
        self._writer.close()

    async def get(self, host: str, path: str) -> tuple[int, bytes, bool]:
        """The status, the body, and whether the connection may be used again."""
        self._writer.write(f"GET {path} HTTP/1.1\r\nhost: {host}\r\naccept: */*\r\n\r\n".encode())
        await self._writer.drain()
        head = await self._reader.readuntil(b"\r\n\r\n")
        status_line, *lines = head.decode("latin-1").split("\r\n")
        version, _, status = status_line.partition(" ")
        if not version.startswith("HTTP/"):
            raise ValueError("the answer is not HTTP")
        headers = {
            name.strip().lower(): value.strip()
            for name, _, value in (line.partition(":") for line in lines if line)
        }
        may_keep = version == "HTTP/1.1" and headers.get("connection", "").lower() != "close"
        if headers.get("transfer-encoding", "").lower() == "chunked":
            body = await self._read_chunks()
        elif "content-length" in headers:
            body = await self._read_exactly(int(headers["content-length"]))
        else:
            body, may_keep = await self._read_to_end(), False
        return int(status[:3]), body, may_keep

    async def _read_chunks(self) -> bytes:
        body = bytearray()
        while size := int((await self._reader.readuntil(b"\r\n")).split(b";")[0], 16):
            body += await self._read_exactly(size, len(body))
            await self._reader.readexactly(2)
        while await self._reader.readuntil(b"\r\n") != b"\r\n":
            pass  # trailers
        return bytes(body)

    async def _read_exactly(self, size: int, before: int = 0) -> bytes:
        if before + size > _MAX_BYTES:
            raise ValueError(f"the answer is larger than {_MAX_BYTES} bytes")
        return await self._reader.readexactly(size)

    async def _read_to_end(self) -> bytes:
        body = bytearray()
        while chunk := await self._reader.read(1 << 16):
            body += chunk
            if len(body) > _MAX_BYTES:
                raise ValueError(f"the answer is larger than {_MAX_BYTES} bytes")
        return bytes(body)


def _describe(error: Exception) -> str:
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
