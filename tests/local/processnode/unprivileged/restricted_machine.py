"""`python restricted_machine.py KIND… -- COMMAND` runs a command on a restricted machine.

A seccomp filter rejects system calls, for the command and all its descendants, with the errors of
machines that forbid them, and without privileges.
"""

import ctypes
import errno
import os
import struct
import sys
from collections.abc import Sequence

_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_LOAD, _JUMP_IF_EQUAL, _JUMP_IF_SET, _RETURN = 0x20, 0x15, 0x45, 0x06
_NUMBER, _ARGUMENTS = 0, 16
_NEW_NAMESPACES = 0x10000000 | 0x00020000  # of users, of mounts
_NEW_LISTENER = 1 << 3
_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 38, 22, 2

_Step = tuple[int, int, int, int]
_NUMBERS = {
    "x86_64": {"unshare": 272, "mount": 165, "seccomp": 317},
    "aarch64": {"unshare": 97, "mount": 40, "seccomp": 277},
}[os.uname().machine]


def _build_filter(call: str, argument: int, bits: int, error: int) -> list[_Step]:
    """Fail a call that has any of some bits in one of its arguments."""
    return [
        (_LOAD, 0, 0, _NUMBER),
        (_JUMP_IF_EQUAL, 0, 3, _NUMBERS[call]),
        (_LOAD, 0, 0, _ARGUMENTS + 8 * argument),
        (_JUMP_IF_SET, 0, 1, bits),
        (_RETURN, 0, 0, _ERRNO | error),
    ]


KINDS = {
    # As Docker and hardened kernels do it.
    "namespaces": _build_filter("unshare", 0, _NEW_NAMESPACES, errno.EPERM),
    # As AppArmor does on Ubuntu 24.04: a user namespace may be made, and allows nothing.
    "mounts": _build_filter("mount", 3, 0xFFFFFFFF, errno.EACCES),
    # As kernels before 5.0, and sandboxes without seccomp listeners.
    "network": _build_filter("seccomp", 1, _NEW_LISTENER, errno.EINVAL),
}


def forbid(kinds: Sequence[str]) -> None:
    """Forbid this process the system calls of these kinds."""
    steps = [step for kind in kinds for step in KINDS[kind]] + [(_RETURN, 0, 0, _ALLOW)]
    code = b"".join(struct.pack("=HBBI", *step) for step in steps)
    program = ctypes.create_string_buffer(code, len(code))
    described = struct.pack("@HP", len(steps), ctypes.addressof(program))
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    prctl.argtypes = (ctypes.c_int, ctypes.c_ulong, ctypes.c_char_p, ctypes.c_ulong, ctypes.c_ulong)
    for wish in (
        (_PR_SET_NO_NEW_PRIVS, 1, None, 0, 0),
        (_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, described, 0, 0),
    ):
        if prctl(*wish) != 0:
            raise OSError(ctypes.get_errno(), "cannot forbid anything here")


if __name__ == "__main__":
    at = sys.argv.index("--")
    forbid(sys.argv[1:at])
    os.execvp(sys.argv[at + 1], sys.argv[at + 1 :])
