"""The processes of this machine, as /proc has them."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

_TICK = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Process:
    """One, when it was looked at. `started` tells it from another with its pid, before or after."""

    pid: int
    parent: int
    session: int
    started: int
    cpu_nanoseconds: int
    memory_bytes: int


def look_at(pid: int) -> Process | None:
    """A process; None if there is none, or only what is left until its parent asks for it."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The name comes second, in parentheses, and may hold anything.
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    if fields[0] in (b"Z", b"X"):
        return None
    spent = sum(int(each) for each in fields[11:15])  # its own, and of children that ended
    return Process(
        pid,
        int(fields[1]),
        int(fields[3]),
        int(fields[19]),
        spent * _TICK,
        int(fields[21]) * _PAGE,
    )


def everyone() -> dict[int, Process]:
    """All processes, by pid."""
    found = (look_at(int(name)) for name in os.listdir("/proc") if name.isdigit())
    return {each.pid: each for each in found if each is not None}


def family(table: Mapping[int, Process], roots: Iterable[int]) -> set[int]:
    """Of the processes in the table: the roots and their descendants."""
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


def has_in_environment(pid: int, entry: bytes) -> bool:
    """Whether a process was started with `NAME=VALUE` in its environment."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return entry in file.read().split(b"\0")
    except OSError:
        return False
