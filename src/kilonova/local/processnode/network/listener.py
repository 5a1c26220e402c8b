"""The seccomp listener: receives calls from the kernel and responds to them.

A call has an id. It is *current* while its caller waits; if the caller died or was interrupted by a
signal, a response has no effect.
"""

import errno
import fcntl
import os
import select
import struct
from dataclasses import dataclass
from enum import Enum

from .seccomp_filter import ARCHITECTURE

_RECEIVE = 0xC0502100
_SEND = 0xC0182101
_ID_VALID = 0x40082102
_NOTIFICATION = struct.Struct("=QIIiIQ6Q")
_RESPONSE = struct.Struct("=QqiI")
_ID = struct.Struct("=Q")
_FLAG_CONTINUE = 1
"""The kernel continues the call as it was made."""


class SocketVerb(Enum):
    """The system call that a process makes."""

    BIND = "bind"
    CONNECT = "connect"


@dataclass(frozen=True, slots=True)
class SeccompNotification:
    """A notified call: the socket address is still in the caller's memory."""

    id: int
    thread: int
    verb: SocketVerb
    fd: int
    pointer: int
    length: int


class ListenerClosed(Exception):
    """The last process under the filter has exited."""


class SeccompListener:
    """Owns its file descriptor. No method blocks."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._poll = select.poll()
        self._poll.register(fd, select.POLLIN)

    def receive(self) -> SeccompNotification | None:
        """The next call, or None if there is none; `ListenerClosed` if there will be none."""
        # Receiving blocks if there is no call, on older kernels forever.
        events = self._poll.poll(0)
        if not events:
            return None
        if not events[0][1] & select.POLLIN:
            raise ListenerClosed
        buffer = bytearray(_NOTIFICATION.size)
        try:
            fcntl.ioctl(self.fd, _RECEIVE, buffer, True)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.EINTR):
                return None  # the caller died after poll
            raise
        id_, thread, _, number, _, _, *arguments = _NOTIFICATION.unpack(buffer)
        assert ARCHITECTURE is not None
        verb = SocketVerb.BIND if number == ARCHITECTURE.bind else SocketVerb.CONNECT
        fd, pointer, length = (arguments[0], arguments[1], arguments[2])
        return SeccompNotification(id_, thread, verb, fd & 0xFFFFFFFF, pointer, length & 0xFFFFFFFF)

    def is_current(self, id_: int) -> bool:
        """Whether the caller still waits: then what was read by its pid was its own."""
        try:
            fcntl.ioctl(self.fd, _ID_VALID, _ID.pack(id_))
        except OSError:
            return False
        return True

    def proceed(self, id_: int) -> None:
        """Let the kernel execute the call unchanged."""
        self._send_response(_RESPONSE.pack(id_, 0, 0, _FLAG_CONTINUE))

    def respond(self, id_: int, error: int) -> None:
        """Return from the call with an error number, or 0."""
        self._send_response(_RESPONSE.pack(id_, 0, -error, 0))

    def close(self) -> None:
        """Close the listener: pending and later calls fail with ENOSYS."""
        os.close(self.fd)

    def _send_response(self, response: bytes) -> None:
        try:
            fcntl.ioctl(self.fd, _SEND, response)
        except OSError as error:
            if error.errno != errno.ENOENT:  # the caller no longer waits
                raise
