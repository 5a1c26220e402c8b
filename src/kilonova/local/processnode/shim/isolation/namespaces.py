"""Whether this machine allows mount namespaces, and how they are created."""

import os
from dataclasses import dataclass

from kilonova.local.processnode.shim.isolation import linux

_VIEW_NAMESPACES = linux.CLONE_NEWNS | linux.CLONE_NEWUTS


@dataclass(frozen=True, slots=True)
class NamespaceSupport:
    """How namespaces are created: as root, or in a user namespace."""

    is_allowed: bool
    uses_user_namespace: bool = False

    def unshare(self, user: int | None, group: int | None) -> None:
        """Move this process to namespaces of its own."""
        if not self.uses_user_namespace:
            linux.unshare(_VIEW_NAMESPACES)
            return
        uid, gid = os.geteuid(), os.getegid()
        linux.unshare(_VIEW_NAMESPACES | linux.CLONE_NEWUSER)
        _write_kernel_file("/proc/self/setgroups", "deny")
        _write_kernel_file("/proc/self/uid_map", f"{uid if user is None else user} {uid} 1")
        _write_kernel_file("/proc/self/gid_map", f"{gid if group is None else group} {gid} 1")

    def join_process(self, pid: int) -> None:
        """Join the namespaces of another process."""
        names = ("user", "uts", "mnt") if self.uses_user_namespace else ("uts", "mnt")
        opened: list[int] = []
        for name in names:
            theirs = f"/proc/{pid}/ns/{name}"
            if os.stat(theirs).st_ino != os.stat(f"/proc/self/ns/{name}").st_ino:
                opened.append(os.open(theirs, os.O_RDONLY | os.O_CLOEXEC))
        for fd in opened:
            linux.join_namespace(fd)
            os.close(fd)


def detect_namespaces(scratch: str) -> NamespaceSupport:
    """Try it in a process that exits at once."""
    for candidate in (NamespaceSupport(True), NamespaceSupport(True, uses_user_namespace=True)):
        if _try_namespaces(candidate, scratch):
            return candidate
    return NamespaceSupport(False)


def _try_namespaces(candidate: NamespaceSupport, scratch: str) -> bool:
    pid = os.fork()
    if pid == 0:
        try:
            candidate.unshare(None, None)
            linux.mount("", "/", "", linux.MS_REC | linux.MS_PRIVATE)
            linux.mount("tmpfs", scratch, "tmpfs", 0)
            os._exit(0)
        finally:
            os._exit(1)
    return os.waitpid(pid, 0)[1] == 0


def _write_kernel_file(file: str, text: str) -> None:
    fd = os.open(file, os.O_WRONLY | os.O_CLOEXEC)
    os.write(fd, text.encode())
    os.close(fd)
