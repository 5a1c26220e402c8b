"""The processes of this machine, from /proc."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

_TICK_NANOSECONDS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class ProcessInfo:
    """A process at one moment. `started` distinguishes it from others with the same pid."""

    pid: int
    parent: int
    session: int
    started: int
    cpu_nanoseconds: int
    memory_bytes: int


def read_process(pid: int) -> ProcessInfo | None:
    """A process; None if it does not exist or is a zombie."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The second field is the name, in parentheses, and may contain any character.
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    if fields[0] in (b"Z", b"X"):
        return None
    cpu_ticks = sum(
        int(each) for each in fields[11:15]
    )  # its own, and of children that were reaped
    return ProcessInfo(
        pid,
        int(fields[1]),
        int(fields[3]),
        int(fields[19]),
        cpu_ticks * _TICK_NANOSECONDS,
        int(fields[21]) * _PAGE_BYTES,
    )


def list_processes() -> dict[int, ProcessInfo]:
    """All processes, by pid."""
    found = (read_process(int(name)) for name in os.listdir("/proc") if name.isdigit())
    return {each.pid: each for each in found if each is not None}


def find_descendants(table: Mapping[int, ProcessInfo], roots: Iterable[int]) -> set[int]:
    """The roots and their descendants among the processes of the table."""
    children: dict[int, list[int]] = {}
    for each in table.values():
        children.setdefault(each.parent, []).append(each.pid)
    members: set[int] = set()
    waiting = [pid for pid in roots if pid in table]
    while waiting:
        pid = waiting.pop()
        if pid not in members:
            members.add(pid)
            waiting.extend(children.get(pid, ()))
    return members


def has_environment_entry(pid: int, entry: bytes) -> bool:
    """Whether a process was started with `NAME=VALUE` in its environment."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return entry in file.read().split(b"\0")
    except OSError:
        return False
