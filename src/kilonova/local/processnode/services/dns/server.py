"""The cluster's nameserver, on this machine's loopback, for UDP and TCP.

It answers for `cluster.local`, and forwards all other queries to the machine's own nameservers,
returning their answers unchanged.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, cast

from kilonova.local.processnode.network.routes import Backend

if TYPE_CHECKING:
    from kilonova.local.processnode.services.dns.records import ServiceDirectory
    from kilonova.local.processnode.services.dns.responder import QueryResponder

_HOST = "127.0.0.1"
_RESOLV_CONF = Path("/etc/resolv.conf")
_PORT = 53
_IDLE_SECONDS = 30.0


def read_nameservers() -> list[str]:
    """The machine's nameservers, as the C library finds them."""
    try:
        lines = _RESOLV_CONF.read_text(errors="replace").splitlines()
    except OSError:
        lines = []
    words = [line.split() for line in lines]
    found = [each[1] for each in words if len(each) > 1 and each[0] == "nameserver"]
    return found or [_HOST]


def _default_upstream() -> list[Backend]:
    return [Backend(ip, _PORT) for ip in read_nameservers()]


class ClusterDns:
    """The nameserver, as a runnable of the cluster."""

    name = "cluster DNS"

    def __init__(
        self, directory: ServiceDirectory, upstream: Callable[[], list[Backend]] | None = None
    ) -> None:
        self._directory = directory
        self._upstream = upstream or _default_upstream
        self._address: asyncio.Future[Backend] = asyncio.get_running_loop().create_future()
        self._tasks: set[asyncio.Task[None]] = set()

    async def wait_listening(self) -> Backend:
        """The address at which it listens; waits until it does."""
        return await asyncio.shield(self._address)

    async def run(self) -> None:
        """Answer until cancelled."""
        loop = asyncio.get_running_loop()
        for_udp, for_tcp = _open_sockets()
        transport, _ = await loop.create_datagram_endpoint(lambda: _UdpProtocol(self), sock=for_udp)
        server = await asyncio.start_server(self._serve_tcp, sock=for_tcp)
        self._address.set_result(Backend(_HOST, for_tcp.getsockname()[1]))
        try:
            await loop.create_future()
        finally:
            server.close()
            transport.close()
            for task in self._tasks:
                task.cancel()

    def answer_udp(self, message: bytes, reply: Callable[[bytes], None]) -> None:
        """Answer a message, now or later."""

        async def answer() -> None:
            if answered := await self._responder.answer(message, by_udp=True):
                reply(answered)

        task = asyncio.create_task(answer())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve_tcp(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
                while True:
                    async with asyncio.timeout(_IDLE_SECONDS):
                        length = int.from_bytes(await reader.readexactly(2))
                        message = await reader.readexactly(length)
                    answered = await self._responder.answer(message, by_udp=False)
                    if answered is None:
                        break
                    writer.write(len(answered).to_bytes(2) + answered)
                    async with asyncio.timeout(_IDLE_SECONDS):
                        await writer.drain()
        finally:
            writer.close()
            self._tasks.discard(task)

    @cached_property
    def _responder(self) -> QueryResponder:
        # The first query imports the DNS library, which would slow down every start.
        from kilonova.local.processnode.services.dns.responder import QueryResponder

        return QueryResponder(self._directory, self._upstream)


class _UdpProtocol(asyncio.DatagramProtocol):
    def __init__(self, dns: ClusterDns) -> None:
        self._dns = dns

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.DatagramTransport", transport)

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        self._dns.answer_udp(data, lambda reply: self._transport.sendto(reply, addr))


def _open_sockets() -> tuple[socket.socket, socket.socket]:
    """Sockets for UDP and TCP on one port that is free for both."""
    for _ in range(100):
        for_tcp = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        for_udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            for_tcp.bind((_HOST, 0))
            for_udp.bind(for_tcp.getsockname())
        except OSError:
            for_tcp.close()
            for_udp.close()
        else:
            return for_udp, for_tcp
    raise OSError("no port is free for both UDP and TCP")
