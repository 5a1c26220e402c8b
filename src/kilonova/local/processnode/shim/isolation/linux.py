"""System calls that Python 3.11 does not provide."""

import ctypes
import os
from collections.abc import Sequence

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWUSER = 0x10000000

MS_RDONLY = 1
MS_REMOUNT = 32
MS_BIND = 4096
MS_REC = 16384
MS_PRIVATE = 1 << 18

_PRESERVED_MOUNT_FLAGS = (  # flags from statvfs that a remount of another mount must repeat
    (os.ST_RDONLY, 1),
    (os.ST_NOSUID, 2),
    (os.ST_NODEV, 4),
    (os.ST_NOEXEC, 8),
    (os.ST_NOATIME, 1024),
    (os.ST_NODIRATIME, 2048),
    (os.ST_RELATIME, 1 << 21),
)
_PR_SET_PDEATHSIG = 1
_PR_CAPBSET_DROP = 24
_PR_CAP_AMBIENT = 47
_PR_CAP_AMBIENT_CLEAR_ALL = 4
_CAPABILITY_VERSION_3 = 0x20080522
_PR_SET_CHILD_SUBREAPER = 36
_MNT_DETACH = 2

_libc = ctypes.CDLL(None, use_errno=True)
# Resolved now: a forked child of a process with threads must not call the dynamic linker.
_prctl = _libc.prctl
_unshare = _libc.unshare
_setns = _libc.setns
_mount = _libc.mount
_umount = _libc.umount2
_pivot_root = _libc.pivot_root
_capget = _libc.capget
_capset = _libc.capset
_mount.argtypes = (
    ctypes.c_char_p,
    ctypes.c_char_p,
    ctypes.c_char_p,
    ctypes.c_ulong,
    ctypes.c_char_p,
)


def become_subreaper() -> None:
    """Orphaned descendants become children of this process."""
    _raise_on_error(_prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "prctl")


def set_parent_death_signal(signal: int) -> None:
    """Receive a signal when the parent exits."""
    _raise_on_error(_prctl(_PR_SET_PDEATHSIG, signal, 0, 0, 0), "prctl")


def drop_capabilities(numbers: Sequence[int]) -> None:
    """Drop capabilities from the bounding set and the inheritable set, also for root.

    No effect without CAP_SETPCAP: then there are none to drop.
    """
    for number in numbers:
        _prctl(_PR_CAPBSET_DROP, number, 0, 0, 0)
    _prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    sets = (ctypes.c_uint32 * 6)()  # effective, permitted, inheritable; low halves, then high ones
    if _capget(header, sets) == 0:
        for number in numbers:
            sets[2 + 3 * (number // 32)] &= ~(1 << number % 32)
        _capset(header, sets)


def unshare(flags: int) -> None:
    """Move to new namespaces."""
    _raise_on_error(_unshare(flags), "unshare")


def join_namespace(fd: int) -> None:
    """Join the namespace of a file in `/proc/PID/ns`."""
    _raise_on_error(_setns(fd, 0), "setns")


def mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
    """As mount(2)."""
    done = _mount(
        os.fsencode(source), os.fsencode(target), kind.encode(), flags, os.fsencode(options)
    )
    _raise_on_error(done, target)


def bind_mount(source: str, target: str) -> None:
    """Bind-mount a file or directory recursively."""
    mount(source, target, "", MS_BIND | MS_REC)


def remount_read_only(target: str) -> None:
    """Make this mount read-only."""
    mount_flags = os.statvfs(target).f_flag
    preserved = sum(flag for bit, flag in _PRESERVED_MOUNT_FLAGS if mount_flags & bit)
    mount("", target, "", MS_REMOUNT | MS_BIND | MS_RDONLY | preserved)


def unmount(target: str) -> None:
    """Detach a mount and those below it; open files stay valid."""
    _raise_on_error(_umount(os.fsencode(target), _MNT_DETACH), target)


def pivot_root(root: str) -> None:
    """Make a mount the root, and detach the old root."""
    os.chdir(root)
    # Both the same: the old root is mounted on top of the new one, and "." unmounts it.
    _raise_on_error(_pivot_root(b".", b"."), root)
    unmount(".")
    os.chdir("/")


def _raise_on_error(result: int, what: str) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)
