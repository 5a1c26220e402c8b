"""Socket addresses, parsed from the bytes that a process passes to the kernel. Pure.

An IPv4-mapped IPv6 address (::ffff:10.96.0.1), as dual-stack sockets use it, is treated as the IPv4
address.
"""

import socket
import struct
from typing import NamedTuple

MAX_ADDRESS_LENGTH = 128
"""The maximum length of a socket address."""
_IPV4_MAPPED_PREFIX = bytes(10) + b"\xff\xff"
_MIN_IPV4_LENGTH, _MIN_IPV6_LENGTH = 16, 24
"""The kernel rejects shorter ones."""


class SocketAddress(NamedTuple):
    """An IP address and port."""

    ip: str
    port: int


def parse_address(raw: bytes) -> SocketAddress | str | None:
    """An address, the path of a Unix socket, or None for any other family."""
    if len(raw) < 2:
        return None
    (family,) = struct.unpack_from("=H", raw)
    if family == socket.AF_INET and len(raw) >= _MIN_IPV4_LENGTH:
        port, ip = struct.unpack_from("!H4s", raw, 2)
        return SocketAddress(socket.inet_ntop(socket.AF_INET, ip), port)
    if family == socket.AF_INET6 and len(raw) >= _MIN_IPV6_LENGTH:
        port, ip = struct.unpack_from("!H4x16s", raw, 2)
        if ip[:12] == _IPV4_MAPPED_PREFIX:
            return SocketAddress(socket.inet_ntop(socket.AF_INET, ip[12:]), port)
        return SocketAddress(socket.inet_ntop(socket.AF_INET6, ip), port)
    if family == socket.AF_UNIX:
        return raw[2:].split(b"\0", 1)[0].decode(errors="replace")
    return None


def convert_to_family(address: SocketAddress, family: int) -> tuple[str, int]:
    """An IPv4 address in the form that a socket of that family takes."""
    if family == socket.AF_INET6 and ":" not in address.ip:
        return (f"::ffff:{address.ip}", address.port)
    return (address.ip, address.port)
