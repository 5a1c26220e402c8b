"""How calls are handled, as a table."""

import errno
import socket
import struct

import pytest

from kilonova.local.processnode.network.address import (
    SocketAddress,
    convert_to_family,
    parse_address,
)
from kilonova.local.processnode.network.decision import (
    PROCEED,
    BindTo,
    CallDecision,
    ConnectTo,
    NetworkPod,
    Reject,
    SocketCall,
    decide_call,
    decide_unix_call,
)
from kilonova.local.processnode.network.listener import SocketVerb
from kilonova.local.processnode.network.routes import Backend, RouteError, RouteMap, ServiceRoute

POD = "127.64.0.9"
ONE, TWO = Backend("127.64.0.2", 8080), Backend("127.64.0.3", 8080)
DNS = Backend("127.0.0.1", 20053)
ROUTES = RouteMap(
    [
        ServiceRoute("10.96.0.10", 80, "TCP", (ONE, TWO)),
        ServiceRoute("10.96.0.10", 53, "UDP", (ONE,)),
        ServiceRoute("10.96.0.11", 80, "TCP"),
        ServiceRoute("10.0.0.53", 53, "UDP", (DNS,), is_virtual=False),
        ServiceRoute("10.0.0.53", 53, "TCP", (DNS,), is_virtual=False),
        ServiceRoute("127.0.0.1", 53, "UDP", (DNS,), is_virtual=False),
        ServiceRoute("fd00::53", 53, "UDP", (DNS,), is_virtual=False),
    ]
)
REFUSED = Reject(errno.ECONNREFUSED)


def pod() -> NetworkPod:
    return NetworkPod(POD, {("TCP", 8080): False, ("UDP", 53): False})


@pytest.mark.parametrize("protocol", ["TCP", "UDP"])
@pytest.mark.parametrize(
    ("ip", "port", "decision"),
    [
        ("0.0.0.0", 8080, BindTo(SocketAddress(POD, 8080))),
        ("::", 8080, BindTo(SocketAddress(POD, 8080))),
        ("127.0.0.1", 80, BindTo(SocketAddress(POD, 80))),
        ("::1", 80, BindTo(SocketAddress(POD, 80))),
        ("127.0.0.1", 0, BindTo(SocketAddress(POD, 0))),
        ("::1", 0, BindTo(SocketAddress(POD, 0))),
        ("0.0.0.0", 0, PROCEED),
        ("::", 0, PROCEED),
        (POD, 8080, PROCEED),
        ("127.0.0.2", 80, PROCEED),
        ("192.168.1.1", 80, PROCEED),
        ("fe80::1", 80, PROCEED),
    ],
)
def test_bind_decisions(ip: str, port: int, decision: CallDecision, protocol: str) -> None:
    assert (
        decide_call(SocketCall(SocketVerb.BIND, protocol, SocketAddress(ip, port)), pod(), ROUTES)
        == decision
    )


@pytest.mark.parametrize(
    ("protocol", "ip", "port", "decision"),
    [
        ("TCP", "127.0.0.1", 8080, ConnectTo(SocketAddress(POD, 8080))),
        ("TCP", "::1", 8080, ConnectTo(SocketAddress(POD, 8080))),
        ("TCP", "0.0.0.0", 8080, ConnectTo(SocketAddress(POD, 8080))),
        ("UDP", "127.0.0.1", 8080, PROCEED),
        ("TCP", "127.0.0.1", 8081, PROCEED),
        ("UDP", "127.0.0.1", 53, ConnectTo(SocketAddress(POD, 53))),
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
        ("TCP", "127.64.0.2", 9, ConnectTo(SocketAddress("127.64.0.2", 9), POD)),
        ("UDP", "127.64.0.2", 9, PROCEED),
        ("TCP", "127.96.0.10", 80, PROCEED),
        ("TCP", "93.184.216.34", 443, PROCEED),
        ("TCP", "2606:2800::1", 443, PROCEED),
    ],
)
def test_connect_decisions(protocol: str, ip: str, port: int, decision: CallDecision) -> None:
    call = SocketCall(SocketVerb.CONNECT, protocol, SocketAddress(ip, port))
    assert decide_call(call, pod(), ROUTES, select_backend=lambda backends: backends[0]) == decision


def test_nameserver_at_localhost_is_the_clusters_unless_the_pod_has_one() -> None:
    call = SocketCall(SocketVerb.CONNECT, "UDP", SocketAddress("127.0.0.1", 53))
    assert decide_call(call, NetworkPod(POD), ROUTES) == ConnectTo(DNS)


def test_session_affinity_keeps_the_backend() -> None:
    backends = tuple(Backend(f"127.64.1.{n}", 80) for n in range(20))
    route = ServiceRoute("10.96.0.1", 80, "TCP", backends, has_session_affinity=True)
    clients = [f"127.64.2.{n}" for n in range(100)]
    first = {client: route.select_backend(client) for client in clients}
    assert first == {client: route.select_backend(client) for client in clients}
    assert len(set(first.values())) > 10
    fewer = ServiceRoute("10.96.0.1", 80, "TCP", backends[1:], has_session_affinity=True)
    kept = [client for client in clients if first[client] != backends[0]]
    assert all(fewer.select_backend(client) == first[client] for client in kept)


@pytest.mark.parametrize(
    ("verb", "path", "decision"),
    [
        (SocketVerb.CONNECT, "/var/run/nscd/socket", REFUSED),
        (SocketVerb.CONNECT, "/run/systemd/resolve/io.systemd.Resolve", REFUSED),
        (SocketVerb.BIND, "/var/run/nscd/socket", PROCEED),
        (SocketVerb.CONNECT, "/tmp/socket", PROCEED),
        (SocketVerb.CONNECT, "", PROCEED),
    ],
)
def test_unix_socket_decisions(verb: SocketVerb, path: str, decision: CallDecision) -> None:
    assert decide_unix_call(verb, path) == decision


def in4(ip: str, port: int) -> bytes:
    return struct.pack("=H", socket.AF_INET) + struct.pack("!H", port) + socket.inet_aton(ip)


def in6(ip: str, port: int) -> bytes:
    body = struct.pack("!HI", port, 0) + socket.inet_pton(socket.AF_INET6, ip)
    return struct.pack("=H", socket.AF_INET6) + body


@pytest.mark.parametrize(
    ("raw", "address"),
    [
        (in4("10.96.0.1", 443) + bytes(8), SocketAddress("10.96.0.1", 443)),
        (in4("10.96.0.1", 443), None),
        (in6("::1", 80) + bytes(4), SocketAddress("::1", 80)),
        (in6("::1", 80), SocketAddress("::1", 80)),
        (in6("::1", 80)[:-1], None),
        (in6("::ffff:10.96.0.1", 80) + bytes(4), SocketAddress("10.96.0.1", 80)),
        (in6("::", 80) + bytes(4), SocketAddress("::", 80)),
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
    raw: bytes, address: SocketAddress | str | None
) -> None:
    assert parse_address(raw) == address


def test_ipv6_sockets_take_ipv4_addresses_mapped() -> None:
    assert convert_to_family(ONE, socket.AF_INET) == ("127.64.0.2", 8080)
    assert convert_to_family(ONE, socket.AF_INET6) == ("::ffff:127.64.0.2", 8080)
    assert convert_to_family(SocketAddress("::1", 1), socket.AF_INET6) == ("::1", 1)


def test_routes_travel_as_json() -> None:
    route = ServiceRoute(
        "10.96.0.10", 80, "TCP", (ONE, TWO), has_session_affinity=True, is_virtual=False
    )
    assert ServiceRoute.from_json(route.as_json()) == route


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"address": "10.96.0.1", "port": "x", "protocol": "TCP", "backends": []},
        {"address": "10.96.0.1", "port": 1, "protocol": "TCP", "backends": [["a"]]},
        {"address": "10.96.0.1", "port": 1, "protocol": "TCP", "backends": 7},
    ],
)
def test_invalid_route_is_rejected(value: dict[str, object]) -> None:
    with pytest.raises(RouteError, match="is not a route"):
        ServiceRoute.from_json(value)
