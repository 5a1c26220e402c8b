"""What this machine offers the shim, detected once when it starts."""

import asyncio
import hashlib
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass

from kilonova.local.processnode import network
from kilonova.local.processnode.cri.api import Capabilities, ContainerStartError
from kilonova.local.processnode.shim.isolation import cgroups, namespaces, process_start
from kilonova.local.processnode.shim.isolation.namespaces import NamespaceSupport
from kilonova.local.processnode.shim.isolation.process_groups import ProcessGroupFactory
from kilonova.local.processnode.shim.nonblocking import ChildReaper, wait_readable
from kilonova.local.processnode.shim.records import ShimRecords

_MAX_REPORT_SIZE = 64 * 1024


@dataclass(frozen=True, slots=True)
class ShimHost:
    """Resources of this machine for running containers."""

    records: ShimRecords
    groups: ProcessGroupFactory
    namespaces: NamespaceSupport
    scratch: str
    """An empty directory in which views are built."""
    children: ChildReaper
    network: network.PodNetwork | None

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            self.namespaces.is_allowed, self.groups.enforces_limits, self.network is not None
        )

    @property
    def install_filter(self) -> Callable[[], int] | None:
        """Called by a child process to join the pod network."""
        return None if self.network is None else network.install_filter

    async def launch_process(
        self, launch: process_start.ProcessLaunch, address: str
    ) -> tuple[int, "asyncio.Future[int]"]:
        """Start a process; returns its pid and future exit code. May raise
        `ContainerStartError`."""
        forked = process_start.fork_process(launch)
        end = self.children.wait_for_exit(forked.pid)
        with forked.report as report:
            report.setblocking(False)
            failure = await self._receive_report(report, address)
        if failure is not None:
            await end
            raise failure
        return forked.pid, end

    async def _receive_report(
        self, report: socket.socket, address: str
    ) -> ContainerStartError | None:
        while True:
            await wait_readable(report.fileno())
            report_bytes, fds, _, _ = socket.recv_fds(report, _MAX_REPORT_SIZE, 1)
            for fd in fds:
                assert self.network is not None
                self.network.add_listener(fd, address)
            if not fds:
                return process_start.parse_failure(report_bytes)


def detect_host(folder: str) -> ShimHost:
    """Detect what this machine allows the shim of that directory."""
    scratch = f"{folder}/view"
    os.makedirs(scratch, mode=0o700, exist_ok=True)
    spaces = namespaces.detect_namespaces(scratch)
    # Only now: it reaps every child, also the one that detected namespaces.
    children = ChildReaper()
    return ShimHost(
        ShimRecords(folder),
        cgroups.detect_process_groups(
            f"kilonova-{hashlib.sha256(folder.encode()).hexdigest()[:12]}"
        ),
        spaces,
        scratch,
        children,
        network.PodNetwork() if network.is_supported() else None,
    )
