"""One call from beginning to end: read it, decide, make it, answer. Nothing here waits."""

import errno
import os
import socket
from dataclasses import dataclass

from . import sockets
from .address import LONGEST, Address, parse
from .caller import borrow_socket, read_memory
from .decision import PROCEED, BindTo, Call, ConnectTo, Pod, Proceed, Refuse, decide, decide_unix
from .listener import Listener, Notification
from .routes import Routes


@dataclass(frozen=True, slots=True)
class UnderWay:
    """A connection that its caller waits for, and that is not there yet. The socket is ours."""

    call: int
    socket: socket.socket
    to: ConnectTo


def serve_call(
    listener: Listener, notification: Notification, pod: Pod, routes: Routes
) -> UnderWay | None:
    """Do with a call what is decided. Where its caller is out of reach, it proceeds.

    It has been answered, unless a connection comes back that is under way.
    """
    try:
        outcome = _outcome(listener, notification, pod, routes)
    except OSError:
        outcome = PROCEED
    if isinstance(outcome, UnderWay):
        return outcome
    if isinstance(outcome, Proceed):
        listener.proceed(notification.id)
    else:
        listener.answer(notification.id, outcome)
    return None


def _outcome(
    listener: Listener, notification: Notification, pod: Pod, routes: Routes
) -> int | Proceed | UnderWay:
    length = min(notification.length, LONGEST)
    address = parse(read_memory(notification.thread, notification.pointer, length))
    if address is None:
        return PROCEED
    if isinstance(address, str):
        decision = decide_unix(notification.verb, address)
        return decision.error if isinstance(decision, Refuse) else PROCEED
    with borrow_socket(notification.thread, notification.fd) as sock:
        if not listener.is_current(notification.id):
            return PROCEED  # what was read may be of another process with the same number
        return _act(notification, address, sock, pod, routes)


def _act(
    notification: Notification, address: Address, sock: socket.socket, pod: Pod, routes: Routes
) -> int | Proceed | UnderWay:
    protocol = sockets.protocol_of(sock)
    if protocol is None:
        return PROCEED
    decision = decide(Call(notification.verb, protocol, address), pod, routes)
    if isinstance(decision, Proceed):
        return PROCEED
    if isinstance(decision, Refuse):
        return decision.error
    if isinstance(decision, BindTo):
        return sockets.bind(sock, decision, pod, protocol)
    outcome = sockets.connect(sock, decision)
    if outcome == errno.EINPROGRESS and os.get_blocking(sock.fileno()):
        return UnderWay(notification.id, sock.dup(), decision)
    return outcome
