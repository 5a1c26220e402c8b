"""All processes of a container, including those that were reparented.

A cgroup tracks them and enforces limits. Without cgroups they are found in /proc: by descent, by an
environment variable that children inherit, and by the session of the first process. A process that
left its session, cleared its environment and lost its parent is not found.
"""

import contextlib
import os
import signal
from collections.abc import Mapping, Sequence
from typing import Protocol

from kilonova.local.processnode.cri.api import ContainerStats, Limits
from kilonova.local.processnode.shim.isolation import procfs

CONTAINER_VARIABLE = "KILONOVA_CONTAINER"


class ProcessGroup(Protocol):
    """The processes of one container."""

    @property
    def procs_files(self) -> Sequence[str]:
        """cgroup.procs files to which a process writes 0 to join."""
        ...

    @property
    def env(self) -> Mapping[str, str]:
        """Environment variables by which its processes are found."""
        ...

    def set_limits(self, limits: Limits) -> None: ...

    def set_leader(self, pid: int) -> None:
        """Set its first process, a session leader; 0 once it has ended."""
        ...

    def pids(self) -> Sequence[int]: ...

    def kill(self) -> None:
        """Send SIGKILL to all; processes that are just forking may need another call."""
        ...

    def is_out_of_memory(self) -> bool:
        """Whether one of its processes was OOM-killed."""
        ...

    def read_stats(self) -> ContainerStats: ...

    def remove(self) -> bool:
        """Remove the group if it is empty; returns whether it was."""
        ...


class ProcessGroupFactory(Protocol):
    """Creates process groups."""

    @property
    def enforces_limits(self) -> bool:
        """Whether limits are enforced."""
        ...

    def get_group(self, container: str) -> ProcessGroup:
        """The group of a container, created if it does not exist."""
        ...

    def find_leftovers(self) -> Sequence[ProcessGroup]:
        """Groups left by a previous shim."""
        ...

    def close(self) -> None:
        """Remove the shared parent; no group exists any more."""
        ...


class EnvironmentGroup:
    """Found in /proc. Limits are not enforced."""

    def __init__(self, container: str) -> None:
        self.procs_files: Sequence[str] = ()
        self.env: Mapping[str, str] = {CONTAINER_VARIABLE: container}
        self._entry = f"{CONTAINER_VARIABLE}={container}".encode()
        self._session = 0

    def set_limits(self, limits: Limits) -> None:
        """Not possible; `enforces_limits` reports it."""

    def set_leader(self, pid: int) -> None:
        # The number of a session with members is not reused, even if its leader has died.
        self._session = pid

    def pids(self) -> Sequence[int]:
        return sorted(self._find_members(procfs.list_processes()))

    def kill(self) -> None:
        kill_processes(self.pids())

    def is_out_of_memory(self) -> bool:
        return False

    def read_stats(self) -> ContainerStats:
        table = procfs.list_processes()
        members = [table[pid] for pid in self._find_members(table)]
        return ContainerStats(
            sum(each.cpu_nanoseconds for each in members),
            sum(each.memory_bytes for each in members),
        )

    def remove(self) -> bool:
        return not self.pids()

    def _find_members(self, table: Mapping[int, procfs.ProcessInfo]) -> set[int]:
        found = [
            pid
            for pid, each in table.items()
            if procfs.has_environment_entry(pid, self._entry)
            or (self._session and each.session == self._session)
        ]
        return procfs.find_descendants(table, found)


class EnvironmentGroupFactory:
    """Groups without cgroups."""

    enforces_limits = False

    def get_group(self, container: str) -> ProcessGroup:
        return EnvironmentGroup(container)

    def find_leftovers(self) -> Sequence[ProcessGroup]:
        return ()  # each record of a container leads to its group

    def close(self) -> None:
        """Nothing to remove."""


def kill_processes(pids: Sequence[int]) -> None:
    """Send SIGKILL to those that still exist."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
