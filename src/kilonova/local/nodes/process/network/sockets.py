"""What the keeper does with a borrowed socket in its owner's stead.

Functions return an error number, or 0, as the call would have.
"""

import errno
import os
import socket
import struct
from contextlib import suppress

from .address import Address, for_family
from .decision import BindTo, ConnectTo, Pod

_IPPROTO_MPTCP = 262
_PROTOCOLS = {
    (socket.SOCK_STREAM, socket.IPPROTO_TCP): "TCP",
    (socket.SOCK_STREAM, _IPPROTO_MPTCP): "TCP",
    (socket.SOCK_DGRAM, socket.IPPROTO_UDP): "UDP",
}
_IP_BIND_ADDRESS_NO_PORT = 24
_TIME = struct.Struct("@ll")


def protocol_of(sock: socket.socket) -> str | None:
    """TCP or UDP as a Service names it; None for other sockets."""
    if sock.family not in (socket.AF_INET, socket.AF_INET6):
        return None
    return _PROTOCOLS.get((sock.type, sock.proto))


def bind(sock: socket.socket, to: BindTo, pod: Pod, protocol: str) -> int:
    """Give the socket its pod's address, and note that the pod has the port."""
    wanted = (protocol, to.address.port)
    ipv6_alone = False
    try:
        ipv6_alone = _accept_ipv4(sock)
        if ipv6_alone or pod.bound.get(wanted):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        sock.bind(for_family(to.address, sock.family))
    except OSError as error:
        if error.errno == errno.EADDRINUSE and ipv6_alone and wanted in pod.bound:
            return _put_aside(sock, pod)
        return _number(error)
    pod.bound[protocol, sock.getsockname()[1]] = ipv6_alone
    return 0


def _accept_ipv4(sock: socket.socket) -> bool:
    """Make an IPv6 socket take IPv4 connections; whether it was not meant to."""
    if sock.family != socket.AF_INET6:
        return False
    if not sock.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY):
        return False
    sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    return True


def _put_aside(sock: socket.socket, pod: Pod) -> int:
    try:
        sock.bind(for_family(Address(pod.address, 0), sock.family))
    except OSError as error:
        return _number(error)
    return 0


def connect(sock: socket.socket, to: ConnectTo) -> int:
    """Begin to connect, whatever its owner's patience; never waits.

    EINPROGRESS: it is under way, and `finish_connect` tells the outcome.
    """
    with suppress(OSError):  # a socket that is bound keeps what it has
        _accept_ipv4(sock)
    if to.source is not None and sock.getsockname()[1] == 0:
        with suppress(OSError):
            sock.setsockopt(socket.IPPROTO_IP, _IP_BIND_ADDRESS_NO_PORT, 1)
            sock.bind(for_family(Address(to.source, 0), sock.family))
    target = for_family(to.address, sock.family)
    if not os.get_blocking(sock.fileno()):
        return sock.connect_ex(target)
    sock.setblocking(False)
    try:
        outcome = sock.connect_ex(target)
        if outcome == errno.EINPROGRESS:
            # On loopback it is over by now; the second call tells how.
            outcome = sock.connect_ex(target)
    finally:
        sock.setblocking(True)
    return errno.EINPROGRESS if outcome == errno.EALREADY else outcome


def finish_connect(sock: socket.socket, to: ConnectTo) -> int:
    """How a connection went that is no longer under way."""
    return sock.connect_ex(for_family(to.address, sock.family))


def patience(sock: socket.socket) -> float | None:
    """How long its owner waits for a connection; None is for ever (SO_SNDTIMEO)."""
    room = sock.getsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _TIME.size)
    seconds, microseconds = _TIME.unpack(room)
    return seconds + microseconds / 1e6 or None


def _number(error: OSError) -> int:
    return error.errno or errno.EIO
