"""Shares of devices for pods, by MPS.

A pod's limits are in the environment of its containers: the driver takes the lower one of those and
the server's. The server's limits are the **ceiling**, the largest share on the device: a process
that removes its environment gets no more than that. Limits count for processes that start later;
those that run keep theirs.

All state is found again: shares from the pods (`reconcile`), daemons by their pipe directories.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Set
from pathlib import Path
from typing import TypeVar

import msgspec

from kilonova.gpu.devices.errors import GpuError
from kilonova.gpu.sharing.mps.control import MpsControl, MpsError, MpsErrorKind
from kilonova.gpu.sharing.mps.daemon import ExclusiveMode, MpsDaemon
from kilonova.gpu.sharing.shares import MpsCapacity, MpsShare, admit_share, client_environment

T = TypeVar("T")


class ShareRefused(Exception):
    """A share that a device does not admit, and why."""

    def __init__(self, holder: str, device: str, why: str) -> None:
        super().__init__(f"share of {holder} on {device} is not admitted: {why}")
        self.holder = holder
        self.device = device
        self.why = why


class MpsClientSettings(msgspec.Struct, frozen=True):
    """What the containers of a pod need."""

    environment: Mapping[str, str]
    pipe_directory: str
    """To be mounted at the same path, read and write; `/dev/shm` is that of the host."""


class DeviceShare(msgspec.Struct, frozen=True):
    """A share of a device, by its UUID."""

    device: str
    share: MpsShare


class MpsClient(msgspec.Struct, frozen=True):
    """A process that uses a device through a server."""

    device: str
    server: int
    pid: int


class MpsSharing:
    """The shares on the devices of a node. Runs in one event loop; daemons are reached in threads.

    `blocking` runs a function that blocks.
    """

    def __init__(
        self,
        root: Path,
        control: MpsControl,
        backend: ExclusiveMode,
        capacities: Mapping[str, MpsCapacity],
        *,
        blocking: Callable[[Callable[[], object]], Awaitable[object]] = asyncio.to_thread,
    ) -> None:
        self._root = root
        self._control = control
        self._backend = backend
        self._capacities = dict(capacities)
        self._blocking = blocking
        self._shares: dict[str, DeviceShare] = {}
        self._daemons: dict[str, MpsDaemon] = {}
        self._locks: dict[str, asyncio.Lock] = {}

    def shares_on(self, device: str) -> Mapping[str, MpsShare]:
        """The shares on a device, by holder."""
        return {
            holder: each.share for holder, each in self._shares.items() if each.device == device
        }

    async def prepare(self, holder: str, wanted: DeviceShare) -> MpsClientSettings:
        """Give a holder its share, and its device a daemon; what its containers need.

        May be repeated, and then changes the share. `ShareRefused` if one of the sums is exceeded.
        """
        async with self._lock_of(wanted.device):
            self._admit(holder, wanted)
            before = self._shares.get(holder)
            self._shares[holder] = wanted
            daemon = self._daemon_of(wanted.device)
            try:
                await self._run(daemon.ensure)
                await self._set_ceiling(daemon)
            except BaseException:
                self._put_back(holder, before)
                raise
        pipe = str(daemon.directories.pipe)
        return MpsClientSettings(client_environment(wanted.share, pipe), pipe)

    async def release(self, holder: str) -> None:
        """Take a holder's share; the daemon of a device without any is stopped."""
        share = self._shares.get(holder)
        if share is None:
            return
        async with self._lock_of(share.device):
            self._shares.pop(holder, None)
            daemon = self._daemon_of(share.device)
            if self.shares_on(share.device):
                await self._set_ceiling(daemon)
            else:
                await self._run(daemon.stop)

    async def reconcile(self, wanted: Mapping[str, DeviceShare]) -> Mapping[str, str]:
        """Bring shares and daemons in line with the holders that exist, such as after a start.

        Shares that do not fit any more are given all the same: their pods run. Returns why devices
        have no daemon, by UUID.
        """
        self._shares = dict(wanted)
        failures: dict[str, str] = {}
        for device in self._capacities:
            async with self._lock_of(device):
                daemon = self._daemon_of(device)
                try:
                    if self.shares_on(device):
                        await self._run(daemon.ensure)
                        await self._set_ceiling(daemon)
                    else:
                        await self._run(daemon.stop)
                except (MpsError, GpuError) as error:
                    failures[device] = str(error)
        return failures

    async def check_health(self) -> Mapping[str, str]:
        """Start daemons that have crashed; what was wrong, by the UUID of the device."""
        problems: dict[str, str] = {}
        for device in sorted({each.device for each in self._shares.values()}):
            async with self._lock_of(device):
                daemon = self._daemon_of(device)
                try:
                    if await self._run(daemon.ensure):
                        await self._set_ceiling(daemon)
                        problems[device] = "the MPS daemon had ended, and was started again"
                        continue
                    faulty = await self._run(daemon.faulty_servers)
                except (MpsError, GpuError) as error:
                    problems[device] = str(error)
                    continue
                if faulty:
                    pids = ", ".join(map(str, faulty))
                    problems[device] = f"MPS server {pids} is in state FAULT: a client has failed"
        return problems

    async def clients(self, device: str) -> tuple[MpsClient, ...]:
        """The processes on a device, by the pids of the host."""
        commands = self._daemon_of(device).commands

        def read() -> tuple[MpsClient, ...]:
            return tuple(
                MpsClient(device, server, pid)
                for server in commands.servers()
                for pid in commands.clients(server)
            )

        return await self._run(read)

    async def kill_clients(self, device: str, pids: Set[int]) -> tuple[int, ...]:
        """End the work of these processes on a device; those that were clients of it.

        Their processes live on until their next call of CUDA: the kubelet kills them with the pod.
        """
        ended: list[int] = []
        commands = self._daemon_of(device).commands
        for client in await self.clients(device):
            if client.pid in pids:
                server, pid = client.server, client.pid
                await self._run(lambda s=server, p=pid: commands.terminate_client(s, p))
                ended.append(pid)
        return tuple(ended)

    def _admit(self, holder: str, wanted: DeviceShare) -> None:
        capacity = self._capacities.get(wanted.device)
        if capacity is None:
            raise ShareRefused(holder, wanted.device, "it is no device for MPS of this node")
        others = self.shares_on(wanted.device)
        rest = [share for other, share in others.items() if other != holder]
        before = self._shares.get(holder)
        if before is not None and before.device != wanted.device:
            raise ShareRefused(
                holder, wanted.device, f"it has a share of {before.device}; a pod has one alone"
            )
        why = admit_share(wanted.share, rest, capacity)
        if why:
            raise ShareRefused(holder, wanted.device, why)

    def _put_back(self, holder: str, before: DeviceShare | None) -> None:
        if before is None:
            self._shares.pop(holder, None)
        else:
            self._shares[holder] = before

    async def _set_ceiling(self, daemon: MpsDaemon) -> None:
        shares = self.shares_on(daemon.device).values()
        threads = max(each.threads_of_process for each in shares)
        memory = max(each.memory_of_process for each in shares)

        def set_limits() -> None:
            commands = daemon.commands
            commands.set_default_threads(threads)
            commands.set_default_memory(memory)
            for server in commands.servers():
                try:
                    commands.set_threads(server, threads)
                    commands.set_memory(server, memory)
                except MpsError as error:
                    # Servers end with their last client, at any time.
                    if error.kind is not MpsErrorKind.REFUSED or server in commands.servers():
                        raise

        await self._run(set_limits)

    async def _run(self, function: Callable[[], T]) -> T:
        results: list[T] = []
        await self._blocking(lambda: results.append(function()))
        return results[0]

    def _daemon_of(self, device: str) -> MpsDaemon:
        if device not in self._daemons:
            self._daemons[device] = MpsDaemon(device, self._root, self._control, self._backend)
        return self._daemons[device]

    def _lock_of(self, device: str) -> asyncio.Lock:
        return self._locks.setdefault(device, asyncio.Lock())
