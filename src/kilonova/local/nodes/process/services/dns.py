"""The cluster's nameserver, on this machine's loopback, for UDP and TCP.

It answers for `cluster.local`, and passes every other query on to the machine's own nameservers,
and their answer back, byte for byte.
"""

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import cast

from kilonova.local.nodes.process.network.routes import Backend
from kilonova.local.nodes.process.services.message import (
    Answer,
    BadQuery,
    Query,
    Record,
    Type,
    address_value,
    failure,
    read_query,
    write_answer,
)
from kilonova.local.nodes.process.services.records import TTL, Alias, Directory, is_ours, look_up
from kilonova.local.nodes.process.services.upstream import ask_by_tcp, ask_by_udp

_HOST = "127.0.0.1"
_RESOLVER_FILE = Path("/etc/resolv.conf")
_PORT = 53
_IDLE_SECONDS = 30.0
_AT_A_TIME = 256
"""Queries that are under way to the machine's nameservers; more wait."""
_LONGEST = 65535
_DATAGRAM = 65507
"""More does not fit into one, whatever a client takes."""


def nameservers() -> list[str]:
    """The machine's own, as the C library finds them."""
    try:
        lines = _RESOLVER_FILE.read_text(errors="replace").splitlines()
    except OSError:
        lines = []
    words = [line.split() for line in lines]
    found = [each[1] for each in words if len(each) > 1 and each[0] == "nameserver"]
    return found or [_HOST]


def _upstream() -> list[Backend]:
    return [Backend(ip, _PORT) for ip in nameservers()]


class ClusterDns:
    """A part of the cluster."""

    name = "cluster DNS"

    def __init__(
        self, directory: Directory, upstream: Callable[[], list[Backend]] | None = None
    ) -> None:
        self._directory = directory
        self._upstream = upstream or _upstream
        self._address: asyncio.Future[Backend] = asyncio.get_running_loop().create_future()
        self._room = asyncio.Semaphore(_AT_A_TIME)
        self._tasks: set[asyncio.Task[None]] = set()

    async def listening(self) -> Backend:
        """Where it listens, as soon as it does."""
        return await asyncio.shield(self._address)

    async def run(self) -> None:
        """Answer until cancelled."""
        loop = asyncio.get_running_loop()
        for_udp, for_tcp = _two_sockets()
        transport, _ = await loop.create_datagram_endpoint(lambda: _Udp(self), sock=for_udp)
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
            if answered := await self._answer(message, by_udp=True):
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
                    answered = await self._answer(message, by_udp=False)
                    if answered is None:
                        break
                    writer.write(len(answered).to_bytes(2) + answered)
                    async with asyncio.timeout(_IDLE_SECONDS):
                        await writer.drain()
        finally:
            writer.close()
            self._tasks.discard(task)

    async def _answer(self, message: bytes, *, by_udp: bool) -> bytes | None:
        try:
            query = read_query(message)
        except BadQuery as bad:
            return bad.reply
        if not is_ours(query.name):
            return await self._pass_on(query, message, by_udp=by_udp)
        answer = look_up(query.name, query.type, self._directory)
        if isinstance(answer, Alias):
            answer = await self._follow(answer, query)
        return write_answer(query, answer, min(query.size, _DATAGRAM) if by_udp else _LONGEST)

    async def _pass_on(self, query: Query, message: bytes, *, by_udp: bool) -> bytes:
        ask = ask_by_udp if by_udp else ask_by_tcp
        async with self._room:
            for server in self._upstream():
                if answered := await ask(message, *server):
                    return answered
        return failure(query)

    async def _follow(self, alias: Alias, query: Query) -> Answer:
        """A client expects the addresses of the name that another stands for with it."""
        if query.type != Type.A:
            return Answer(records=(alias.record,))
        if is_ours(alias.target):
            found = look_up(alias.target, query.type, self._directory)
            records = found.records if isinstance(found, Answer) else ()
        else:
            records = await _addresses(alias.target)
        return Answer(records=(alias.record, *records))


class _Udp(asyncio.DatagramProtocol):
    def __init__(self, dns: ClusterDns) -> None:
        self._dns = dns

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.DatagramTransport", transport)

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        self._dns.answer_udp(data, lambda reply: self._transport.sendto(reply, addr))


async def _addresses(name: str) -> tuple[Record, ...]:
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(name, None, family=socket.AF_INET, type=socket.SOCK_STREAM)
    except OSError:
        return ()
    return tuple(Record(name, Type.A, address_value(str(each[4][0])), TTL) for each in found)


def _two_sockets() -> tuple[socket.socket, socket.socket]:
    """For UDP and TCP, at one port that both have free."""
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
