"""Queries to another nameserver: one query, one answer, as bytes."""

import asyncio
from contextlib import suppress

_TIMEOUT = 5.0


async def query_udp(query: bytes, server: str, port: int) -> bytes | None:
    """The answer, or None on timeout.

    Each query has a socket of its own, so that answers cannot be confused.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[bytes] = loop.create_future()
    with suppress(OSError):  # includes TimeoutError
        transport, _ = await loop.create_datagram_endpoint(
            lambda: _SingleAnswerProtocol(query[:2], answer), remote_addr=(server, port)
        )
        try:
            transport.sendto(query)
            async with asyncio.timeout(_TIMEOUT):
                return await answer
        finally:
            transport.close()
    return None


async def query_tcp(query: bytes, server: str, port: int) -> bytes | None:
    """The answer, or None on timeout."""
    with suppress(OSError, asyncio.IncompleteReadError):
        async with asyncio.timeout(_TIMEOUT):
            reader, writer = await asyncio.open_connection(server, port)
            try:
                writer.write(len(query).to_bytes(2) + query)
                length = int.from_bytes(await reader.readexactly(2))
                return await reader.readexactly(length)
            finally:
                writer.close()
    return None


class _SingleAnswerProtocol(asyncio.DatagramProtocol):
    def __init__(self, id_: bytes, answer: asyncio.Future[bytes]) -> None:
        self._id = id_
        self._answer = answer

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        if data[:2] == self._id and not self._answer.done():
            self._answer.set_result(data)

    def error_received(self, exc: Exception) -> None:
        if not self._answer.done():
            self._answer.set_exception(exc)
