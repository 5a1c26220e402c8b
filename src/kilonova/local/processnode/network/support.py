"""Detects whether the pod network works on this machine, by trying it."""

import array
import os
import select
import socket
from contextlib import suppress
from functools import cache

from .call_handler import handle_call
from .decision import NetworkPod
from .listener import ListenerClosed, SeccompListener
from .routes import POD_NETWORK, RouteMap
from .seccomp_filter import install_filter

_TEST_ADDRESS = str(POD_NETWORK[-2])
_TIMEOUT_MS = 5000


@cache
def is_supported() -> bool:
    """Whether a process under the filter gets its pod's address; tried once.

    It fails on an old kernel, on another architecture, in a container that forbids it, or if this
    process is itself in a pod of such a network, since the kernel allows one listener per process.
    """
    ours, theirs = socket.socketpair()
    with ours, theirs:
        child = os.fork()
        if child == 0:
            os._exit(_run_child(theirs))
        theirs.close()
        with suppress(OSError, ListenerClosed):  # the child's exit code is the result
            _handle_one_call(ours)
        ours.close()
        _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status) == 0


def _run_child(theirs: socket.socket) -> int:
    """In the child: 0 if a socket bound to localhost has the pod's address."""
    try:
        listener = install_filter()
        rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [listener]))
        theirs.sendmsg([b"."], [rights])
        os.close(listener)
        with socket.socket() as server:
            server.bind(("127.0.0.1", 0))
            return int(server.getsockname()[0] != _TEST_ADDRESS)
    except OSError:
        return 1


def _handle_one_call(ours: socket.socket) -> None:
    _, fds, _, _ = socket.recv_fds(ours, 1, 1)
    if not fds:
        return
    listener = SeccompListener(fds[0])
    try:
        poll = select.poll()
        poll.register(listener.fd, select.POLLIN)
        if poll.poll(_TIMEOUT_MS) and (call := listener.receive()) is not None:
            handle_call(listener, call, NetworkPod(_TEST_ADDRESS), RouteMap())
    finally:
        listener.close()  # calls that the child still makes fail
