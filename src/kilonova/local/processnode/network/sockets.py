"""Operations on a caller's duplicated socket on behalf of the caller.

Functions return an error number, or 0, as the system call would.
"""

import errno
import os
import socket
import struct
from contextlib import suppress

from .address import SocketAddress, convert_to_family
from .decision import BindTo, ConnectTo, NetworkPod

_IPPROTO_MPTCP = 262
_PROTOCOLS = {
    (socket.SOCK_STREAM, socket.IPPROTO_TCP): "TCP",
    (socket.SOCK_STREAM, _IPPROTO_MPTCP): "TCP",
    (socket.SOCK_DGRAM, socket.IPPROTO_UDP): "UDP",
}
_IP_BIND_ADDRESS_NO_PORT = 24
_TIMEVAL = struct.Struct("@ll")


def get_protocol(sock: socket.socket) -> str | None:
    """TCP or UDP as in a Service; None for other sockets."""
    if sock.family not in (socket.AF_INET, socket.AF_INET6):
        return None
    return _PROTOCOLS.get((sock.type, sock.proto))


def bind_to_pod(sock: socket.socket, destination: BindTo, pod: NetworkPod, protocol: str) -> int:
    """Bind the socket to its pod's address, and record the port of the pod."""
    desired = (protocol, destination.address.port)
    ipv6_alone = False
    try:
        ipv6_alone = _disable_ipv6_only(sock)
        if ipv6_alone or pod.bound_ports.get(desired):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        sock.bind(convert_to_family(destination.address, sock.family))
    except OSError as error:
        if error.errno == errno.EADDRINUSE and ipv6_alone and desired in pod.bound_ports:
            return _bind_to_free_port(sock, pod)
        return _error_number(error)
    pod.bound_ports[protocol, sock.getsockname()[1]] = ipv6_alone
    return 0


def _disable_ipv6_only(sock: socket.socket) -> bool:
    """Make an IPv6 socket accept IPv4 connections; returns whether it was IPv6-only."""
    if sock.family != socket.AF_INET6:
        return False
    if not sock.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY):
        return False
    sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    return True


def _bind_to_free_port(sock: socket.socket, pod: NetworkPod) -> int:
    try:
        sock.bind(convert_to_family(SocketAddress(pod.address, 0), sock.family))
    except OSError as error:
        return _error_number(error)
    return 0


def start_connect(sock: socket.socket, destination: ConnectTo) -> int:
    """Start to connect without blocking, also for a blocking socket.

    EINPROGRESS: it is in progress, and `finish_connect` returns the outcome.
    """
    with suppress(OSError):  # a bound socket keeps its address
        _disable_ipv6_only(sock)
    if destination.source is not None and sock.getsockname()[1] == 0:
        with suppress(OSError):
            sock.setsockopt(socket.IPPROTO_IP, _IP_BIND_ADDRESS_NO_PORT, 1)
            sock.bind(convert_to_family(SocketAddress(destination.source, 0), sock.family))
    target = convert_to_family(destination.address, sock.family)
    if not os.get_blocking(sock.fileno()):
        return sock.connect_ex(target)
    sock.setblocking(False)
    try:
        outcome = sock.connect_ex(target)
        if outcome == errno.EINPROGRESS:
            # On loopback the connection is complete by now; the second call returns the outcome.
            outcome = sock.connect_ex(target)
    finally:
        sock.setblocking(True)
    return errno.EINPROGRESS if outcome == errno.EALREADY else outcome


def finish_connect(sock: socket.socket, destination: ConnectTo) -> int:
    """The outcome of a connection that is no longer in progress."""
    return sock.connect_ex(convert_to_family(destination.address, sock.family))


def get_send_timeout(sock: socket.socket) -> float | None:
    """The caller's connect timeout (SO_SNDTIMEO); None if there is none."""
    option = sock.getsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _TIMEVAL.size)
    seconds, microseconds = _TIMEVAL.unpack(option)
    return seconds + microseconds / 1e6 or None


def _error_number(error: OSError) -> int:
    return error.errno or errno.EIO
