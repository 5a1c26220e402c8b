"""The process that waits for its call: its memory and its sockets.

Each may be gone or out of reach at any moment: everything here may raise OSError.
"""

import ctypes
import errno
import os
import socket

from .filter import LIBC

_PIDFD_GETFD = 438
_PIDFD_THREAD = os.O_EXCL
"""Lets a thread be opened that is not the first of its process (Linux 6.9)."""


def read_memory(thread: int, pointer: int, length: int) -> bytes:
    """What is there; less if the memory ends before."""
    memory = os.open(f"/proc/{thread}/mem", os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.pread(memory, length, pointer)
    except OverflowError as error:
        raise OSError(errno.EFAULT, "not an address of a process") from error
    finally:
        os.close(memory)


def borrow_socket(thread: int, fd: int) -> socket.socket:
    """A duplicate of one of its sockets: the same connection, another number. Close it."""
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
    return os.pidfd_open(_process_of(thread))


def _process_of(thread: int) -> int:
    with open(f"/proc/{thread}/status", encoding="utf-8", errors="replace") as status:
        for line in status:
            if line.startswith("Tgid:"):
                return int(line[5:])
    raise OSError(errno.ESRCH, f"thread {thread} belongs to no process")
