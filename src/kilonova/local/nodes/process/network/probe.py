"""Whether the pod network works here: by trying it."""

import array
import os
import select
import socket
from contextlib import suppress
from functools import cache

from .decision import Pod
from .filter import install_filter
from .listener import Listener, ListenerEnded
from .routes import POD_NETWORK, Routes
from .serving import serve_call

_ADDRESS = str(POD_NETWORK[-2])
_PATIENCE_MS = 5000


@cache
def supported() -> bool:
    """Whether a process under the filter is given its pod's address; tried once.

    It may not be: an old kernel, another processor, a container that forbids it, or this process
    is itself in a pod of such a network, since the kernel gives a process one listener only.
    """
    ours, theirs = socket.socketpair()
    with ours, theirs:
        child = os.fork()
        if child == 0:
            os._exit(_try(theirs))
        theirs.close()
        with suppress(OSError, ListenerEnded):  # the child's end tells how it went
            _serve_one(ours)
        ours.close()
        _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status) == 0


def _try(theirs: socket.socket) -> int:
    """In the child: 0 if a socket that is bound to localhost comes out at the pod's address."""
    try:
        listener = install_filter()
        rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [listener]))
        theirs.sendmsg([b"."], [rights])
        os.close(listener)
        with socket.socket() as server:
            server.bind(("127.0.0.1", 0))
            return int(server.getsockname()[0] != _ADDRESS)
    except OSError:
        return 1


def _serve_one(ours: socket.socket) -> None:
    _, fds, _, _ = socket.recv_fds(ours, 1, 1)
    if not fds:
        return
    listener = Listener(fds[0])
    try:
        poll = select.poll()
        poll.register(listener.fd, select.POLLIN)
        if poll.poll(_PATIENCE_MS) and (call := listener.receive()) is not None:
            serve_call(listener, call, Pod(_ADDRESS), Routes())
    finally:
        listener.close()  # whatever the child still waits for fails
