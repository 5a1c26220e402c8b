"""What becomes of a call, as a table."""

import errno
import socket
import struct

import pytest

from kilonova.local.nodes.process.network.address import Address, for_family, parse
from kilonova.local.nodes.process.network.decision import (
    PROCEED,
    BindTo,
    Call,
    ConnectTo,
    Decision,
    Pod,
    Refuse,
    decide,
    decide_unix,
)
from kilonova.local.nodes.process.network.listener import Verb
from kilonova.local.nodes.process.network.routes import Backend, Route, RouteError, Routes

POD = "127.64.0.9"
ONE, TWO = Backend("127.64.0.2", 8080), Backend("127.64.0.3", 8080)
DNS = Backend("127.0.0.1", 20053)
ROUTES = Routes(
    [
        Route("10.96.0.10", 80, "TCP", (ONE, TWO)),
        Route("10.96.0.10", 53, "UDP", (ONE,)),
        Route("10.96.0.11", 80, "TCP"),
        Route("10.0.0.53", 53, "UDP", (DNS,), virtual=False),
        Route("10.0.0.53", 53, "TCP", (DNS,), virtual=False),
        Route("127.0.0.1", 53, "UDP", (DNS,), virtual=False),
        Route("fd00::53", 53, "UDP", (DNS,), virtual=False),
    ]
)
REFUSED = Refuse(errno.ECONNREFUSED)


def pod() -> Pod:
    return Pod(POD, {("TCP", 8080): False, ("UDP", 53): False})


@pytest.mark.parametrize("protocol", ["TCP", "UDP"])
@pytest.mark.parametrize(
    ("ip", "port", "decision"),
    [
        ("0.0.0.0", 8080, BindTo(Address(POD, 8080))),
        ("::", 8080, BindTo(Address(POD, 8080))),
        ("127.0.0.1", 80, BindTo(Address(POD, 80))),
        ("::1", 80, BindTo(Address(POD, 80))),
        ("127.0.0.1", 0, BindTo(Address(POD, 0))),
        ("::1", 0, BindTo(Address(POD, 0))),
        ("0.0.0.0", 0, PROCEED),
        ("::", 0, PROCEED),
        (POD, 8080, PROCEED),
        ("127.0.0.2", 80, PROCEED),
        ("192.168.1.1", 80, PROCEED),
        ("fe80::1", 80, PROCEED),
    ],
)
def test_what_becomes_of_a_bind(ip: str, port: int, decision: Decision, protocol: str) -> None:
    assert decide(Call(Verb.BIND, protocol, Address(ip, port)), pod(), ROUTES) == decision


@pytest.mark.parametrize(
    ("protocol", "ip", "port", "decision"),
    [
        ("TCP", "127.0.0.1", 8080, ConnectTo(Address(POD, 8080))),
        ("TCP", "::1", 8080, ConnectTo(Address(POD, 8080))),
        ("TCP", "0.0.0.0", 8080, ConnectTo(Address(POD, 8080))),
        ("UDP", "127.0.0.1", 8080, PROCEED),
        ("TCP", "127.0.0.1", 8081, PROCEED),
        ("UDP", "127.0.0.1", 53, ConnectTo(Address(POD, 53))),
        ("TCP", "10.96.0.10", 80, ConnectTo(ONE, POD)),
        ("UDP", "10.96.0.10", 53, ConnectTo(ONE)),
        ("TCP", "10.96.0.10", 81, REFUSED),
        ("UDP", "10.96.0.10", 80, PROCEED),
        ("TCP", "10.96.0.11", 80, REFUSED),
        ("TCP", "10.96.0.12", 80, PROCEED),
        ("UDP", "10.0.0.53", 53, ConnectTo(DNS)),
        ("TCP", "10.0.0.53", 53, ConnectTo(DNS)),
        ("UDP", "fd00::53", 53, ConnectTo(DNS)),
        ("TCP", "10.0.0.53", 443, PROCEED),
        ("TCP", "127.64.0.2", 9, ConnectTo(Address("127.64.0.2", 9), POD)),
        ("UDP", "127.64.0.2", 9, PROCEED),
        ("TCP", "127.96.0.10", 80, PROCEED),
        ("TCP", "93.184.216.34", 443, PROCEED),
        ("TCP", "2606:2800::1", 443, PROCEED),
    ],
)
def test_what_becomes_of_a_connect(protocol: str, ip: str, port: int, decision: Decision) -> None:
    call = Call(Verb.CONNECT, protocol, Address(ip, port))
    assert decide(call, pod(), ROUTES, choose=lambda backends: backends[0]) == decision


def test_nameserver_at_localhost_is_the_clusters_unless_the_pod_has_one() -> None:
    call = Call(Verb.CONNECT, "UDP", Address("127.0.0.1", 53))
    assert decide(call, Pod(POD), ROUTES) == ConnectTo(DNS)


def test_sticky_route_keeps_a_client_where_it_was() -> None:
    backends = tuple(Backend(f"127.64.1.{n}", 80) for n in range(20))
    route = Route("10.96.0.1", 80, "TCP", backends, sticky=True)
    clients = [f"127.64.2.{n}" for n in range(100)]
    first = {client: route.backend(client) for client in clients}
    assert first == {client: route.backend(client) for client in clients}
    assert len(set(first.values())) > 10
    fewer = Route("10.96.0.1", 80, "TCP", backends[1:], sticky=True)
    kept = [client for client in clients if first[client] != backends[0]]
    assert all(fewer.backend(client) == first[client] for client in kept)


@pytest.mark.parametrize(
    ("verb", "path", "decision"),
    [
        (Verb.CONNECT, "/var/run/nscd/socket", REFUSED),
        (Verb.CONNECT, "/run/systemd/resolve/io.systemd.Resolve", REFUSED),
        (Verb.BIND, "/var/run/nscd/socket", PROCEED),
        (Verb.CONNECT, "/tmp/socket", PROCEED),
        (Verb.CONNECT, "", PROCEED),
    ],
)
def test_what_becomes_of_a_unix_socket(verb: Verb, path: str, decision: Decision) -> None:
    assert decide_unix(verb, path) == decision


def in4(ip: str, port: int) -> bytes:
    return struct.pack("=H", socket.AF_INET) + struct.pack("!H", port) + socket.inet_aton(ip)


def in6(ip: str, port: int) -> bytes:
    body = struct.pack("!HI", port, 0) + socket.inet_pton(socket.AF_INET6, ip)
    return struct.pack("=H", socket.AF_INET6) + body


@pytest.mark.parametrize(
    ("raw", "address"),
    [
        (in4("10.96.0.1", 443) + bytes(8), Address("10.96.0.1", 443)),
        (in4("10.96.0.1", 443), None),
        (in6("::1", 80) + bytes(4), Address("::1", 80)),
        (in6("::1", 80), Address("::1", 80)),
        (in6("::1", 80)[:-1], None),
        (in6("::ffff:10.96.0.1", 80) + bytes(4), Address("10.96.0.1", 80)),
        (in6("::", 80) + bytes(4), Address("::", 80)),
        (b"", None),
        (b"\2", None),
        (struct.pack("=H", socket.AF_UNIX) + b"/a\0b", "/a"),
        (struct.pack("=H", socket.AF_UNIX) + b"\0abstract", ""),
        (struct.pack("=H", socket.AF_UNSPEC) + bytes(14), None),
        (struct.pack("=H", socket.AF_NETLINK) + bytes(10), None),
        (b"\xff" * 128, None),
    ],
)
def test_addresses_are_read_as_the_kernel_reads_them(
    raw: bytes, address: Address | str | None
) -> None:
    assert parse(raw) == address


def test_ipv6_sockets_take_ipv4_addresses_mapped() -> None:
    assert for_family(ONE, socket.AF_INET) == ("127.64.0.2", 8080)
    assert for_family(ONE, socket.AF_INET6) == ("::ffff:127.64.0.2", 8080)
    assert for_family(Address("::1", 1), socket.AF_INET6) == ("::1", 1)


def test_routes_travel_as_json() -> None:
    route = Route("10.96.0.10", 80, "TCP", (ONE, TWO), sticky=True, virtual=False)
    assert Route.from_json(route.as_json()) == route


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"address": "10.96.0.1", "port": "x", "protocol": "TCP", "backends": []},
        {"address": "10.96.0.1", "port": 1, "protocol": "TCP", "backends": [["a"]]},
        {"address": "10.96.0.1", "port": 1, "protocol": "TCP", "backends": 7},
    ],
)
def test_what_is_no_route_is_refused(value: dict[str, object]) -> None:
    with pytest.raises(RouteError, match="is not a route"):
        Route.from_json(value)
