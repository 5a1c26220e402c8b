"""All processes of a container, however far they have forked away.

A cgroup knows them, and keeps limits. Where none may be made, they are found in /proc: by descent,
by a mark in the environment that children inherit, and by the session of the first process. What
has left its session, cleared its environment and lost its parent is not found.
"""

import contextlib
import os
import signal
from collections.abc import Mapping, Sequence
from typing import Protocol

from kilonova.local.nodes.process.keeper import processes
from kilonova.local.nodes.process.runtime import Consumption, Limits

MARK = "KILONOVA_CONTAINER"


class Group(Protocol):
    """The processes of one container."""

    @property
    def join(self) -> Sequence[str]:
        """Files to which a process writes 0 to come in."""
        ...

    @property
    def env(self) -> Mapping[str, str]:
        """What its processes need in their environment to be found."""
        ...

    def limit(self, limits: Limits) -> None: ...

    def led_by(self, pid: int) -> None:
        """Its first process, which leads a session, is known from now on; 0: it has ended."""
        ...

    def pids(self) -> Sequence[int]: ...

    def kill(self) -> None:
        """SIGKILL to all; those that were just forking may need another."""
        ...

    def out_of_memory(self) -> bool:
        """Whether the kernel killed one of them for its memory."""
        ...

    def consumption(self) -> Consumption: ...

    def remove(self) -> bool:
        """Once empty; False if it was not."""
        ...


class Groups(Protocol):
    """Where groups come from."""

    @property
    def limits(self) -> bool:
        """Whether limits are kept."""
        ...

    def group(self, container: str) -> Group:
        """The group of a container, made if it is new."""
        ...

    def leftovers(self) -> Sequence[Group]:
        """Those that a keeper left behind."""
        ...

    def close(self) -> None:
        """No group is left: leave no trace."""
        ...


class MarkedGroup:
    """Found in /proc. Keeps no limits."""

    def __init__(self, container: str) -> None:
        self.join: Sequence[str] = ()
        self.env: Mapping[str, str] = {MARK: container}
        self._entry = f"{MARK}={container}".encode()
        self._session = 0

    def limit(self, limits: Limits) -> None:
        """Nothing can be done; `Groups.limits` says so."""

    def led_by(self, pid: int) -> None:
        # Nobody else gets the number of a session that has members, even if its leader has died.
        self._session = pid

    def pids(self) -> Sequence[int]:
        return sorted(self._members(processes.everyone()))

    def kill(self) -> None:
        kill_all(self.pids())

    def out_of_memory(self) -> bool:
        return False

    def consumption(self) -> Consumption:
        table = processes.everyone()
        members = [table[pid] for pid in self._members(table)]
        return Consumption(
            sum(each.cpu_nanoseconds for each in members),
            sum(each.memory_bytes for each in members),
        )

    def remove(self) -> bool:
        return not self.pids()

    def _members(self, table: Mapping[int, processes.Process]) -> set[int]:
        found = [
            pid
            for pid, each in table.items()
            if processes.has_in_environment(pid, self._entry)
            or (self._session and each.session == self._session)
        ]
        return processes.family(table, found)


class MarkedGroups:
    """Groups without cgroups."""

    limits = False

    def group(self, container: str) -> Group:
        return MarkedGroup(container)

    def leftovers(self) -> Sequence[Group]:
        return ()  # each record of a container leads to its group

    def close(self) -> None:
        """Nothing was made."""


def kill_all(pids: Sequence[int]) -> None:
    """SIGKILL, as far as they still live."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
