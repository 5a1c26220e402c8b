"""The cluster's nameserver: names, answers, and invalid messages."""

import asyncio
import socket
import struct
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from dns.rcode import Rcode
from dns.rdatatype import RdataType
from hypothesis import given
from hypothesis import strategies as st

from kilonova.local.processnode.network.routes import Backend
from kilonova.local.processnode.services.dns.message import (
    DnsAnswer,
    MalformedQuery,
    encode_answer,
    parse_query,
)
from kilonova.local.processnode.services.dns.records import (
    CnameAlias,
    build_address_record,
    is_cluster_name,
    resolve_name,
)
from kilonova.local.processnode.services.dns.server import ClusterDns
from kilonova.local.processnode.services.dns.upstream import query_tcp, query_udp
from kilonova.local.processnode.services.objects import EndpointSlice, Service
from tests.local.processnode.services.service_objects import endpoint, endpoint_slice, service

IP = "10.96.1.2"
PORTS = ({"name": "http", "port": 80}, {"name": "dns", "port": 53, "protocol": "UDP"})


class Known:
    """A directory of a few Services."""

    def __init__(self, many: int = 0) -> None:
        self._services = {
            "web": service("web", *PORTS, clusterIP=IP),
            "db": service("db", {"name": "sql", "port": 5432}, clusterIP="None"),
            "idle": service("idle", {"port": 1}, clusterIP="None"),
            "out": service("out", type="ExternalName", externalName="Localhost."),
            "long": service("long", type="ExternalName", externalName="a" * 64),
            "in": service("in", type="ExternalName", externalName="web.default.svc.cluster.local"),
        }
        pods = [
            endpoint("127.64.0.1", hostname="db-0"),
            endpoint("127.64.0.2"),
            endpoint("127.64.0.3", ready=False),
            *(endpoint(f"127.65.{n // 256}.{n % 256}") for n in range(many)),
        ]
        ports = [{"name": "sql", "port": 15432}]
        self._slices = {"db": [endpoint_slice("db", endpoints=pods, ports=ports)]}

    def service(self, namespace: str, name: str) -> Service | None:
        return self._services.get(name) if namespace == "default" else None

    def slices(self, namespace: str, name: str) -> Sequence[EndpointSlice]:
        return self._slices.get(name, ())


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("web.default.svc.cluster.local", [IP]),
        ("web.default.svc", [IP]),
        ("db.default.svc.cluster.local", ["127.64.0.1", "127.64.0.2"]),
        ("db-0.db.default.svc.cluster.local", ["127.64.0.1"]),
        ("127-64-0-2.db.default.svc.cluster.local", ["127.64.0.2"]),
        ("127-64-0-9.shop.pod.cluster.local", ["127.64.0.9"]),
        ("default.svc.cluster.local", []),
        ("cluster.local", []),
        ("shop.pod.cluster.local", []),
        ("_http._tcp.web.default.svc.cluster.local", []),
        ("127-64-0-3.db.default.svc.cluster.local", None),
        ("db-1.db.default.svc.cluster.local", None),
        ("idle.default.svc.cluster.local", None),
        ("long.default.svc.cluster.local", None),
        ("web.other.svc.cluster.local", None),
        ("none.default.svc.cluster.local", None),
        ("a.b.c.web.default.svc.cluster.local", None),
        ("999-1-1-1.shop.pod.cluster.local", None),
        ("a.b.shop.pod.cluster.local", None),
        ("what.cluster.local", None),
    ],
)
def test_addresses_of_names(name: str, expected: list[str] | None) -> None:
    """None: the name does not exist. An empty list: it exists without an address."""
    answer = resolve_name(name, RdataType.A, Known())
    assert isinstance(answer, DnsAnswer)
    assert answer.code == (Rcode.NXDOMAIN if expected is None else Rcode.NOERROR)
    assert values_of(answer) == (expected or [])
    assert bool(answer.authority) == (not expected)


def values_of(answer: DnsAnswer) -> list[str]:
    return [str(value) for record in answer.records for value in record]


def test_name_that_has_only_ipv4_is_there_for_ipv6_too() -> None:
    answer = resolve_name("web.default.svc.cluster.local", RdataType.AAAA, Known())
    assert isinstance(answer, DnsAnswer)
    assert (answer.code, answer.records) == (Rcode.NOERROR, ())


@pytest.mark.parametrize(
    ("name", "values"),
    [
        (
            "_http._tcp.web.default.svc.cluster.local",
            ["0 100 80 web.default.svc.cluster.local."],
        ),
        (
            "_dns._udp.web.default.svc.cluster.local",
            ["0 100 53 web.default.svc.cluster.local."],
        ),
        (
            "web.default.svc.cluster.local",
            [
                "0 50 80 web.default.svc.cluster.local.",
                "0 50 53 web.default.svc.cluster.local.",
            ],
        ),
        (
            "_sql._tcp.db.default.svc.cluster.local",
            [
                "0 50 15432 db-0.db.default.svc.cluster.local.",
                "0 50 15432 127-64-0-2.db.default.svc.cluster.local.",
            ],
        ),
        ("_http._udp.web.default.svc.cluster.local", []),
    ],
)
def test_ports_of_names(name: str, values: list[str]) -> None:
    answer = resolve_name(name, RdataType.SRV, Known())
    assert isinstance(answer, DnsAnswer)
    assert values_of(answer) == values
    assert bool(answer.additional) == bool(values)


def test_external_name_is_an_alias() -> None:
    answer = resolve_name("out.default.svc.cluster.local", RdataType.A, Known())
    assert isinstance(answer, CnameAlias)
    assert answer.target == "localhost"


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        ("cluster.local", True),
        ("a.cluster.local", True),
        ("kubernetes.default.svc", True),
        ("notcluster.local", False),
        ("example.com", False),
        ("svc", True),
        ("", False),
    ],
)
def test_which_names_are_the_clusters(name: str, ours: bool) -> None:
    assert is_cluster_name(name) is ours


def encode_name(name: str) -> bytes:
    return b"".join(bytes([len(label)]) + label.encode() for label in name.split(".")) + b"\0"


def question(name: str, type_: int = RdataType.A, *, id_: int = 7, size: int = 0) -> bytes:
    extra = b"\0" + struct.pack("!HHIH", 41, size, 0, 0) if size else b""
    header = struct.pack("!6H", id_, 0x0100, 1, 0, 0, bool(size))
    return header + encode_name(name) + struct.pack("!HH", type_, 1) + extra


def test_question_is_repeated_with_its_case() -> None:
    query = parse_query(question("WEB.Default.svc"))
    assert (query.name, query.type, query.message.id) == ("web.default.svc", RdataType.A, 7)
    assert b"WEB" in encode_answer(query, DnsAnswer(), 512)


@pytest.mark.parametrize(
    ("message", "code"),
    [
        (b"", None),
        (b"\0" * 11, None),
        (struct.pack("!6H", 7, 0x8000, 1, 0, 0, 0), None),
        (struct.pack("!6H", 7, 0x2800, 1, 0, 0, 0), Rcode.NOTIMP),
        (struct.pack("!6H", 7, 0, 0, 0, 0, 0), Rcode.FORMERR),
        (struct.pack("!6H", 7, 0, 2, 0, 0, 0) + question("a")[12:], Rcode.FORMERR),
        (question("example.com")[:-3], Rcode.FORMERR),
        (question("example.com")[:15], Rcode.FORMERR),
        (question("a")[:12] + b"\xc0\x0c\0\1\0\1", Rcode.FORMERR),
        (question("a")[:12] + b"\x3f" * 500, Rcode.FORMERR),
        (question("a", size=4096)[:-1], Rcode.FORMERR),
        (question("a", size=4096)[:-2] + b"\0\4\0\3\0\1", Rcode.FORMERR),
    ],
)
def test_invalid_messages_are_rejected_or_ignored(message: bytes, code: Rcode | None) -> None:
    with pytest.raises(MalformedQuery) as caught:
        parse_query(message)
    reply = caught.value.reply
    assert (reply[3] & 15 if reply else None) == code


@given(st.binary(max_size=600))
def test_any_message_is_handled(message: bytes) -> None:
    with suppress(MalformedQuery):
        query = parse_query(message)
        answer = resolve_name(f"{query.name}.svc", query.type, Known())
        if isinstance(answer, DnsAnswer):
            assert len(encode_answer(query, answer, 512)) <= 512


def test_long_answer_is_truncated() -> None:
    query = parse_query(question("a", size=512))
    records = (build_address_record("a", IP),) * 100
    short = encode_answer(query, DnsAnswer(records=records), 512)
    whole = encode_answer(query, DnsAnswer(records=records), 4096)
    assert len(short) <= 512 < len(whole)
    assert (short[2] & 2, whole[2] & 2) == (2, 0)
    assert struct.unpack_from("!H", whole, 6) == (100,)
    assert 0 < struct.unpack_from("!H", short, 6)[0] < 100


@asynccontextmanager
async def serving(many: int = 0, upstream: Sequence[Backend] = ()) -> AsyncGenerator[Backend]:
    dns = ClusterDns(Known(many), lambda: list(upstream))
    task = asyncio.create_task(dns.run())
    try:
        yield await dns.wait_listening()
    finally:
        task.cancel()
        await asyncio.wait([task])


def addresses(answer: bytes | None) -> tuple[int, list[str]]:
    """The code, and the addresses of the answers whose names are pointers."""
    assert answer is not None
    found: list[str] = []
    at = answer.find(b"\xc0\x0c\0\1\0\1")
    while at >= 0:
        found.append(socket.inet_ntoa(answer[at + 12 : at + 16]))
        at = answer.find(b"\xc0\x0c\0\1\0\1", at + 16)
    return answer[3] & 15, found


@pytest.mark.parametrize("ask", [query_udp, query_tcp])
async def test_it_answers_over_udp_and_tcp(ask: Any) -> None:
    async with serving() as dns:
        answer = await ask(question("web.default.svc.cluster.local"), *dns)
        assert addresses(answer) == (0, [IP])
        answer = await ask(question("no.default.svc.cluster.local"), *dns)
        assert addresses(answer) == (Rcode.NXDOMAIN, [])


async def test_truncated_answer_is_retried_over_tcp() -> None:
    async with serving(many=300) as dns:
        name = question("db.default.svc.cluster.local")
        by_udp, by_tcp = await query_udp(name, *dns), await query_tcp(name, *dns)
        assert by_udp is not None
        assert by_udp[2] & 2
        assert len(addresses(by_tcp)[1]) == 302
        large = await query_udp(question("db.default.svc.cluster.local", size=8192), *dns)
        assert len(addresses(large)[1]) == 302


async def test_answer_beyond_a_datagram_is_truncated() -> None:
    async with serving(many=5000) as dns:
        asked = question("db.default.svc.cluster.local", size=65535)
        answer = await query_udp(asked, *dns)
        assert answer is not None
        assert answer[2] & 2


async def test_external_name_comes_with_its_addresses() -> None:
    async with serving() as dns:
        out = await query_udp(question("out.default.svc.cluster.local"), *dns)
        assert out is not None
        assert socket.inet_aton("127.0.0.1") in out
        inside = await query_udp(question("in.default.svc.cluster.local"), *dns)
        assert inside is not None
        assert socket.inet_aton(IP) in inside


@pytest.mark.parametrize("ask", [query_udp, query_tcp])
async def test_other_names_are_forwarded_to_the_machines_nameservers(ask: Any) -> None:
    """One cluster's DNS plays the machine's nameserver for another."""
    asked = question("web.default.example.com", id_=4711)
    async with serving() as elsewhere:
        closed = Backend("127.0.0.1", 1)
        async with serving(upstream=[closed, elsewhere]) as dns:
            answer = await ask(asked, *dns)
    assert answer is not None
    assert answer[:2] == asked[:2]
    assert answer[3] & 15 == Rcode.SERVFAIL  # as the other one has no nameserver to ask


async def test_invalid_packets_do_not_stop_the_server() -> None:
    async with serving() as dns:
        for nonsense in (b"", b"\0", b"\xff" * 600, question("a")[:14]):
            with socket.socket(type=socket.SOCK_DGRAM) as client:
                client.sendto(nonsense, dns)
            reader, writer = await asyncio.open_connection(*dns)
            writer.write(nonsense)
            writer.write_eof()
            async with asyncio.timeout(10):
                await reader.read()
            writer.close()
        answer = await query_udp(question("web.default.svc.cluster.local"), *dns)
        assert addresses(answer) == (0, [IP])
