"""Socket addresses, from the bytes that a process gives to the kernel. Pure.

An IPv4 address that is written as an IPv6 one (::ffff:10.96.0.1), as programs do that use IPv6
sockets for both, is the IPv4 address here.
"""

import socket
import struct
from typing import NamedTuple

LONGEST = 128
"""No socket address is longer."""
_MAPPED = bytes(10) + b"\xff\xff"
_SHORTEST_IPV4, _SHORTEST_IPV6 = 16, 24
"""Shorter ones are refused by the kernel."""


class Address(NamedTuple):
    """Where something listens."""

    ip: str
    port: int


def parse(raw: bytes) -> Address | str | None:
    """An address, the path of a Unix socket, or None for what is neither."""
    if len(raw) < 2:
        return None
    (family,) = struct.unpack_from("=H", raw)
    if family == socket.AF_INET and len(raw) >= _SHORTEST_IPV4:
        port, ip = struct.unpack_from("!H4s", raw, 2)
        return Address(socket.inet_ntop(socket.AF_INET, ip), port)
    if family == socket.AF_INET6 and len(raw) >= _SHORTEST_IPV6:
        port, ip = struct.unpack_from("!H4x16s", raw, 2)
        if ip[:12] == _MAPPED:
            return Address(socket.inet_ntop(socket.AF_INET, ip[12:]), port)
        return Address(socket.inet_ntop(socket.AF_INET6, ip), port)
    if family == socket.AF_UNIX:
        return raw[2:].split(b"\0", 1)[0].decode(errors="replace")
    return None


def for_family(address: Address, family: int) -> tuple[str, int]:
    """An IPv4 address as a socket of that family takes it."""
    if family == socket.AF_INET6 and ":" not in address.ip:
        return (f"::ffff:{address.ip}", address.port)
    return (address.ip, address.port)
