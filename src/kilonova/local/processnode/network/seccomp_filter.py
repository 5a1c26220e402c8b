"""The seccomp filter: notifies the listener of `bind` and `connect`, allows everything else.

All that `install_filter` needs is computed when the module is loaded, so that between fork and exec
there is only a system call or two.
"""

import ctypes
import errno
import os
from dataclasses import dataclass

_SECCOMP_RET_ALLOW = 0x7FFF0000
_SECCOMP_RET_USER_NOTIF = 0x7FC00000
_SET_MODE_FILTER = 1
_NEW_LISTENER = 1 << 3
_WAIT_KILLABLE = 1 << 5
"""Once the listener has received a call, only a fatal signal interrupts the caller (Linux 5.19)."""
_PR_SET_NO_NEW_PRIVS = 38

_LOAD, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x15, 0x06
_NUMBER, _ARCHITECTURE = 0, 4
"""Offsets in `struct seccomp_data`."""


@dataclass(frozen=True, slots=True)
class Architecture:
    """Constants that differ between processor architectures."""

    audit: int
    bind: int
    connect: int
    seccomp: int


_ARCHITECTURES = {
    "x86_64": Architecture(audit=0xC000003E, bind=49, connect=42, seccomp=317),
    "aarch64": Architecture(audit=0xC00000B7, bind=200, connect=203, seccomp=277),
}
ARCHITECTURE = _ARCHITECTURES.get(os.uname().machine)
"""None on architectures without a pod network."""


class _Instruction(ctypes.Structure):
    _fields_ = (
        ("code", ctypes.c_uint16),
        ("if_true", ctypes.c_uint8),
        ("if_false", ctypes.c_uint8),
        ("value", ctypes.c_uint32),
    )


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_uint16), ("instructions", ctypes.POINTER(_Instruction)))


def _build_program(architecture: Architecture) -> _Program:
    steps = (
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_JUMP_IF_EQUAL, 0, 3, architecture.audit),
        (_LOAD, 0, 0, _NUMBER),
        (_JUMP_IF_EQUAL, 2, 0, architecture.bind),
        (_JUMP_IF_EQUAL, 1, 0, architecture.connect),
        (_RETURN, 0, 0, _SECCOMP_RET_ALLOW),
        (_RETURN, 0, 0, _SECCOMP_RET_USER_NOTIF),
    )
    instructions = (_Instruction * len(steps))(*(_Instruction(*step) for step in steps))
    return _Program(len(steps), instructions)


LIBC = ctypes.CDLL(None, use_errno=True)
_PROGRAM = _build_program(ARCHITECTURE) if ARCHITECTURE else None


def install_filter() -> int:
    """Install the filter in this process, irrevocably; returns the listener, which exec closes.

    For a child between fork and exec. The kernel requires no_new_privs unless the process has
    CAP_SYS_ADMIN, so call it before dropping privileges.
    """
    try:
        return _install_seccomp_filter()
    except PermissionError:
        LIBC.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        return _install_seccomp_filter()


def _install_seccomp_filter() -> int:
    try:
        return _call_seccomp(_NEW_LISTENER | _WAIT_KILLABLE)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        return _call_seccomp(_NEW_LISTENER)


def _call_seccomp(flags: int) -> int:
    if ARCHITECTURE is None or _PROGRAM is None:
        raise OSError(errno.ENOSYS, f"no pod network on {os.uname().machine}")
    listener = LIBC.syscall(ARCHITECTURE.seccomp, _SET_MODE_FILTER, flags, ctypes.byref(_PROGRAM))
    if listener < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return listener
