"""The seccomp filter: stops `bind` and `connect` for the listener, allows everything else.

All that `install_filter` needs is made when the module is loaded, so that between fork and exec
there is only a system call or two.
"""

import ctypes
import errno
import os
from dataclasses import dataclass

_ALLOW = 0x7FFF0000
_NOTIFY = 0x7FC00000
_SET_MODE_FILTER = 1
_NEW_LISTENER = 1 << 3
_WAIT_KILLABLE = 1 << 5
"""Once the keeper has taken a call, only a deadly signal ends the caller's wait (Linux 5.19)."""
_PR_SET_NO_NEW_PRIVS = 38

_LOAD, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x15, 0x06
_NUMBER, _ARCHITECTURE = 0, 4
"""Where they are in what the kernel shows to a filter."""


@dataclass(frozen=True, slots=True)
class Architecture:
    """The numbers that differ between processors."""

    audit: int
    bind: int
    connect: int
    seccomp: int


_ARCHITECTURES = {
    "x86_64": Architecture(audit=0xC000003E, bind=49, connect=42, seccomp=317),
    "aarch64": Architecture(audit=0xC00000B7, bind=200, connect=203, seccomp=277),
}
ARCHITECTURE = _ARCHITECTURES.get(os.uname().machine)
"""None where there is no pod network."""


class _Instruction(ctypes.Structure):
    _fields_ = (
        ("code", ctypes.c_uint16),
        ("if_true", ctypes.c_uint8),
        ("if_false", ctypes.c_uint8),
        ("value", ctypes.c_uint32),
    )


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_uint16), ("instructions", ctypes.POINTER(_Instruction)))


def _program(architecture: Architecture) -> _Program:
    steps = (
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_JUMP_IF_EQUAL, 0, 3, architecture.audit),
        (_LOAD, 0, 0, _NUMBER),
        (_JUMP_IF_EQUAL, 2, 0, architecture.bind),
        (_JUMP_IF_EQUAL, 1, 0, architecture.connect),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _NOTIFY),
    )
    instructions = (_Instruction * len(steps))(*(_Instruction(*step) for step in steps))
    return _Program(len(steps), instructions)


LIBC = ctypes.CDLL(None, use_errno=True)
_PROGRAM = _program(ARCHITECTURE) if ARCHITECTURE else None


def install_filter() -> int:
    """Put the filter over this process, for good; returns the listener, which exec closes.

    For a child between fork and exec. The kernel wants no_new_privs unless the process has
    CAP_SYS_ADMIN, so call it before giving up privileges.
    """
    try:
        return _install()
    except PermissionError:
        LIBC.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        return _install()


def _install() -> int:
    try:
        return _seccomp(_NEW_LISTENER | _WAIT_KILLABLE)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        return _seccomp(_NEW_LISTENER)


def _seccomp(flags: int) -> int:
    if ARCHITECTURE is None or _PROGRAM is None:
        raise OSError(errno.ENOSYS, f"no pod network on {os.uname().machine}")
    listener = LIBC.syscall(ARCHITECTURE.seccomp, _SET_MODE_FILTER, flags, ctypes.byref(_PROGRAM))
    if listener < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return listener
