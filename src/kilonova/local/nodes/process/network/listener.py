"""The listener: takes calls from the kernel, and answers them.

A call has an id. It is *current* while its caller waits; a caller that died, or that a signal
took away, waits no more, and whatever is answered then goes nowhere.
"""

import errno
import fcntl
import os
import select
import struct
from dataclasses import dataclass
from enum import Enum

from .filter import ARCHITECTURE

_RECEIVE = 0xC0502100
_SEND = 0xC0182101
_IS_CURRENT = 0x40082102
_NOTIFICATION = struct.Struct("=QIIiIQ6Q")
_RESPONSE = struct.Struct("=QqiI")
_ID = struct.Struct("=Q")
_PROCEED = 1
"""The flag that lets the kernel go on with the call as it was made."""


class Verb(Enum):
    """What a process wants to do with a socket."""

    BIND = "bind"
    CONNECT = "connect"


@dataclass(frozen=True, slots=True)
class Notification:
    """A call as the kernel tells of it: the address is still in the caller's memory."""

    id: int
    thread: int
    verb: Verb
    fd: int
    pointer: int
    length: int


class ListenerEnded(Exception):
    """The last process under the filter is gone."""


class Listener:
    """Owns its file descriptor. No method waits."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._poll = select.poll()
        self._poll.register(fd, select.POLLIN)

    def receive(self) -> Notification | None:
        """The next call, or None if there is none; `ListenerEnded` if there will be none."""
        # Asking the kernel for a call when there is none would wait, on older kernels for ever.
        events = self._poll.poll(0)
        if not events:
            return None
        if not events[0][1] & select.POLLIN:
            raise ListenerEnded
        room = bytearray(_NOTIFICATION.size)
        try:
            fcntl.ioctl(self.fd, _RECEIVE, room, True)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.EINTR):
                return None  # the caller died between the two
            raise
        id_, thread, _, number, _, _, *arguments = _NOTIFICATION.unpack(room)
        assert ARCHITECTURE is not None
        verb = Verb.BIND if number == ARCHITECTURE.bind else Verb.CONNECT
        fd, pointer, length = (arguments[0], arguments[1], arguments[2])
        return Notification(id_, thread, verb, fd & 0xFFFFFFFF, pointer, length & 0xFFFFFFFF)

    def is_current(self, id_: int) -> bool:
        """Whether the caller still waits: what was read under its process id was its own."""
        try:
            fcntl.ioctl(self.fd, _IS_CURRENT, _ID.pack(id_))
        except OSError:
            return False
        return True

    def proceed(self, id_: int) -> None:
        """Let the kernel do what the caller asked for."""
        self._send(_RESPONSE.pack(id_, 0, 0, _PROCEED))

    def answer(self, id_: int, error: int) -> None:
        """Let the call return: an error number, or 0."""
        self._send(_RESPONSE.pack(id_, 0, -error, 0))

    def close(self) -> None:
        """Calls that wait, and all later ones, fail with ENOSYS."""
        os.close(self.fd)

    def _send(self, response: bytes) -> None:
        try:
            fcntl.ioctl(self.fd, _SEND, response)
        except OSError as error:
            if error.errno != errno.ENOENT:  # the caller waits no more
                raise
