"""Access to the process that waits for its call: its memory and its sockets.

The process may exit at any moment or be inaccessible: every function may raise OSError.
"""

import ctypes
import errno
import os
import socket

from .seccomp_filter import LIBC

_PIDFD_GETFD = 438
_PIDFD_THREAD = os.O_EXCL
"""Opens a pidfd for a thread that is not the thread group leader (Linux 6.9)."""


def read_memory(thread: int, pointer: int, length: int) -> bytes:
    """The bytes at an address; fewer if the mapped memory ends before."""
    memory = os.open(f"/proc/{thread}/mem", os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.pread(memory, length, pointer)
    except OverflowError as error:
        raise OSError(errno.EFAULT, "not an address of a process") from error
    finally:
        os.close(memory)


def borrow_socket(thread: int, fd: int) -> socket.socket:
    """A duplicate of one of its sockets, to be closed by the caller."""
    process = _open_process(thread)
    try:
        own = LIBC.syscall(_PIDFD_GETFD, process, fd, 0)
    finally:
        os.close(process)
    if own < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    try:
        return socket.socket(fileno=own)
    except OSError:
        os.close(own)
        raise


def _open_process(thread: int) -> int:
    try:
        return os.pidfd_open(thread, _PIDFD_THREAD)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
    return os.pidfd_open(_find_process_id(thread))


def _find_process_id(thread: int) -> int:
    with open(f"/proc/{thread}/status", encoding="utf-8", errors="replace") as status:
        for line in status:
            if line.startswith("Tgid:"):
                return int(line[5:])
    raise OSError(errno.ESRCH, f"thread {thread} belongs to no process")
