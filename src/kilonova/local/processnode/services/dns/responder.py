"""Answers to messages: by the cluster's records, or by the machine's own nameservers."""

import asyncio
import socket
from collections.abc import Callable

from dns.rdatatype import RdataType
from dns.rrset import RRset

from kilonova.local.processnode.network.routes import Backend
from kilonova.local.processnode.services.dns.message import (
    DnsAnswer,
    DnsQuery,
    MalformedQuery,
    encode_answer,
    encode_server_failure,
    parse_query,
)
from kilonova.local.processnode.services.dns.records import (
    CnameAlias,
    ServiceDirectory,
    build_address_record,
    is_cluster_name,
    resolve_name,
)
from kilonova.local.processnode.services.dns.upstream import query_tcp, query_udp

_MAX_UPSTREAM_QUERIES = 256
"""Queries in flight to the machine's nameservers; more wait."""
_MAX_TCP_MESSAGE = 65535
_MAX_UDP_MESSAGE = 65507
"""The maximum payload of a UDP datagram."""


class QueryResponder:
    """Answers queries about the Services of `directory`, and forwards others to `upstream`."""

    def __init__(self, directory: ServiceDirectory, upstream: Callable[[], list[Backend]]) -> None:
        self._directory = directory
        self._upstream = upstream
        self._upstream_slots = asyncio.Semaphore(_MAX_UPSTREAM_QUERIES)

    async def answer(self, message: bytes, *, by_udp: bool) -> bytes | None:
        """The reply to a message; None if it deserves none."""
        try:
            query = parse_query(message)
        except MalformedQuery as bad:
            return bad.reply
        if not is_cluster_name(query.name):
            return await self._forward_query(query, message, by_udp=by_udp)
        answer = resolve_name(query.name, query.type, self._directory)
        if isinstance(answer, CnameAlias):
            answer = await self._resolve_alias(answer, query)
        return encode_answer(
            query, answer, min(query.size, _MAX_UDP_MESSAGE) if by_udp else _MAX_TCP_MESSAGE
        )

    async def _forward_query(self, query: DnsQuery, message: bytes, *, by_udp: bool) -> bytes:
        ask = query_udp if by_udp else query_tcp
        async with self._upstream_slots:
            for server in self._upstream():
                if answered := await ask(message, *server):
                    return answered
        return encode_server_failure(query)

    async def _resolve_alias(self, alias: CnameAlias, query: DnsQuery) -> DnsAnswer:
        """Clients expect the addresses of the alias target in the same answer."""
        if query.type != RdataType.A:
            return DnsAnswer(records=(alias.record,))
        if is_cluster_name(alias.target):
            found = resolve_name(alias.target, query.type, self._directory)
            records = found.records if isinstance(found, DnsAnswer) else ()
        else:
            records = await _resolve_host(alias.target)
        return DnsAnswer(records=(alias.record, *records))


async def _resolve_host(name: str) -> tuple[RRset, ...]:
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(name, None, family=socket.AF_INET, type=socket.SOCK_STREAM)
    except OSError:
        return ()
    return tuple(build_address_record(name, str(each[4][0])) for each in found)
