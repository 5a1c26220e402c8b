"""What the keeper works with, found out once when it starts."""

import asyncio
import hashlib
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass

from kilonova.local.nodes.process import network
from kilonova.local.nodes.process.keeper import cgroups, child, namespaces
from kilonova.local.nodes.process.keeper.groups import Groups
from kilonova.local.nodes.process.keeper.namespaces import Namespaces
from kilonova.local.nodes.process.keeper.records import Records
from kilonova.local.nodes.process.keeper.waiting import Children, readable
from kilonova.local.nodes.process.runtime import Capabilities, StartFailed

_LARGEST_REPORT = 64 * 1024


@dataclass(frozen=True, slots=True)
class Machine:
    """This machine, as far as containers are concerned."""

    records: Records
    groups: Groups
    namespaces: Namespaces
    scratch: str
    """An empty folder, to build views on."""
    children: Children
    network: network.Network | None

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(self.namespaces.allowed, self.groups.limits, self.network is not None)

    @property
    def install_filter(self) -> Callable[[], int] | None:
        """What a process calls to come into the pod network."""
        return None if self.network is None else network.install_filter

    async def run(self, launch: child.Launch, address: str) -> tuple[int, "asyncio.Future[int]"]:
        """Start a process: its pid and its exit code to come; `StartFailed` if it cannot be."""
        forked = child.fork(launch)
        end = self.children.end_of(forked.pid)
        with forked.report as report:
            report.setblocking(False)
            failure = await self._hear(report, address)
        if failure is not None:
            await end
            raise failure
        return forked.pid, end

    async def _hear(self, report: socket.socket, address: str) -> StartFailed | None:
        while True:
            await readable(report.fileno())
            said, fds, _, _ = socket.recv_fds(report, _LARGEST_REPORT, 1)
            for fd in fds:
                assert self.network is not None
                self.network.adopt(fd, address)
            if not fds:
                return child.failure(said)


def explore(folder: str) -> Machine:
    """What this machine allows a keeper of that folder."""
    scratch = f"{folder}/view"
    os.makedirs(scratch, mode=0o700, exist_ok=True)
    spaces = namespaces.probe(scratch)
    # Only now: it reaps every child, also the probe's.
    children = Children()
    return Machine(
        Records(folder),
        cgroups.find(f"kilonova-{hashlib.sha256(folder.encode()).hexdigest()[:12]}"),
        spaces,
        scratch,
        children,
        network.Network() if network.supported() else None,
    )
