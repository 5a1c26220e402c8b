"""Whether this machine lets a process have a file system view of its own, and how."""

import os
from dataclasses import dataclass

from kilonova.local.nodes.process.keeper import linux

_OF_A_VIEW = linux.CLONE_NEWNS | linux.CLONE_NEWUTS


@dataclass(frozen=True, slots=True)
class Namespaces:
    """How a view is made: with the rights of root, or in a user namespace."""

    allowed: bool
    of_user: bool = False

    def make(self, user: int | None, group: int | None) -> None:
        """Put this process into namespaces of its own."""
        if not self.of_user:
            linux.unshare(_OF_A_VIEW)
            return
        uid, gid = os.geteuid(), os.getegid()
        linux.unshare(_OF_A_VIEW | linux.CLONE_NEWUSER)
        _write("/proc/self/setgroups", "deny")
        _write("/proc/self/uid_map", f"{uid if user is None else user} {uid} 1")
        _write("/proc/self/gid_map", f"{gid if group is None else group} {gid} 1")

    def join(self, pid: int) -> None:
        """Put this process into the namespaces of another."""
        names = ("user", "uts", "mnt") if self.of_user else ("uts", "mnt")
        opened: list[int] = []
        for name in names:
            theirs = f"/proc/{pid}/ns/{name}"
            if os.stat(theirs).st_ino != os.stat(f"/proc/self/ns/{name}").st_ino:
                opened.append(os.open(theirs, os.O_RDONLY | os.O_CLOEXEC))
        for fd in opened:
            linux.join_namespace(fd)
            os.close(fd)


def probe(scratch: str) -> Namespaces:
    """Try it, in a process that ends at once."""
    for candidate in (Namespaces(True), Namespaces(True, of_user=True)):
        if _works(candidate, scratch):
            return candidate
    return Namespaces(False)


def _works(candidate: Namespaces, scratch: str) -> bool:
    pid = os.fork()
    if pid == 0:
        try:
            candidate.make(None, None)
            linux.mount("", "/", "", linux.MS_REC | linux.MS_PRIVATE)
            linux.mount("tmpfs", scratch, "tmpfs", 0)
            os._exit(0)
        finally:
            os._exit(1)
    return os.waitpid(pid, 0)[1] == 0


def _write(file: str, text: str) -> None:
    fd = os.open(file, os.O_WRONLY | os.O_CLOEXEC)
    os.write(fd, text.encode())
    os.close(fd)
