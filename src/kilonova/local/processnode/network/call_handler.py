"""Handles one call: read its arguments, decide, execute, respond. Never blocks."""

import errno
import os
import socket
from dataclasses import dataclass

from . import sockets
from .address import MAX_ADDRESS_LENGTH, SocketAddress, parse_address
from .caller import borrow_socket, read_memory
from .decision import (
    PROCEED,
    BindTo,
    ConnectTo,
    NetworkPod,
    Proceed,
    Reject,
    SocketCall,
    decide_call,
    decide_unix_call,
)
from .listener import SeccompListener, SeccompNotification
from .routes import RouteMap


@dataclass(frozen=True, slots=True)
class PendingConnection:
    """A connection that is still being established while its caller waits. Owns its socket."""

    notification_id: int
    socket: socket.socket
    target: ConnectTo


def handle_call(
    listener: SeccompListener, notification: SeccompNotification, pod: NetworkPod, routes: RouteMap
) -> PendingConnection | None:
    """Handle a call. If the caller's memory or socket cannot be accessed, the call proceeds.

    The call has been answered, unless a pending connection is returned.
    """
    try:
        outcome = _resolve_call(listener, notification, pod, routes)
    except OSError:
        outcome = PROCEED
    if isinstance(outcome, PendingConnection):
        return outcome
    if isinstance(outcome, Proceed):
        listener.proceed(notification.id)
    else:
        listener.respond(notification.id, outcome)
    return None


def _resolve_call(
    listener: SeccompListener, notification: SeccompNotification, pod: NetworkPod, routes: RouteMap
) -> int | Proceed | PendingConnection:
    length = min(notification.length, MAX_ADDRESS_LENGTH)
    address = parse_address(read_memory(notification.thread, notification.pointer, length))
    if address is None:
        return PROCEED
    if isinstance(address, str):
        decision = decide_unix_call(notification.verb, address)
        return decision.error if isinstance(decision, Reject) else PROCEED
    with borrow_socket(notification.thread, notification.fd) as sock:
        if not listener.is_current(notification.id):
            return PROCEED  # the data may have been read from another process with a reused pid
        return _apply_decision(notification, address, sock, pod, routes)


def _apply_decision(
    notification: SeccompNotification,
    address: SocketAddress,
    sock: socket.socket,
    pod: NetworkPod,
    routes: RouteMap,
) -> int | Proceed | PendingConnection:
    protocol = sockets.get_protocol(sock)
    if protocol is None:
        return PROCEED
    decision = decide_call(SocketCall(notification.verb, protocol, address), pod, routes)
    if isinstance(decision, Proceed):
        return PROCEED
    if isinstance(decision, Reject):
        return decision.error
    if isinstance(decision, BindTo):
        return sockets.bind_to_pod(sock, decision, pod, protocol)
    outcome = sockets.start_connect(sock, decision)
    if outcome == errno.EINPROGRESS and os.get_blocking(sock.fileno()):
        return PendingConnection(notification.id, sock.dup(), decision)
    return outcome
