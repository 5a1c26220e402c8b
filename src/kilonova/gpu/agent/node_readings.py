"""What the exporter of the agent's node serves: the agent's last telemetry, and who uses what."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import datetime

from kilonova.gpu.agent.blocking import InThread
from kilonova.gpu.agent.local_agent import LocalAgent
from kilonova.gpu.agent.resources import Pod
from kilonova.gpu.agent.telemetry.device_users import list_device_users
from kilonova.gpu.agent.telemetry.mig_allocations import MigAllocationCounter
from kilonova.gpu.agent.verification.evidence import read_pods_of
from kilonova.gpu.exporter import DeviceUser, ExporterReading, NodeReading

_ATTRIBUTION_SECONDS = 5.0
"""How often new processes are looked for among those of the telemetry."""


class LocalReadings:
    """Reads one node; a runnable, which finds out the pods of processes. `read` reads no device.

    `pods_of` blocks, and runs in a thread. `now` is the wall clock.
    """

    name = "gpu process attribution"

    def __init__(
        self,
        local: LocalAgent,
        now: Callable[[], datetime],
        *,
        pods_of: Callable[[Iterable[int]], Mapping[int, str]] = read_pods_of,
        in_thread: InThread = asyncio.to_thread,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._local = local
        self._now = now
        self._pods_of = pods_of
        self._in_thread = in_thread
        self._sleep = sleep
        self._mig = MigAllocationCounter()
        self._pods_of_processes: Mapping[int, str] = {}

    async def read(self) -> ExporterReading:
        """The node as it was last seen."""
        local = self._local
        telemetry, inventory = local.telemetry, local.feed.inventory
        users = self._list_users()
        self._mig.observe(local.node, users)
        measured = None
        if telemetry.sampled is not None:
            measured = self._now().timestamp() - (telemetry.now() - telemetry.sampled)
        node = NodeReading(
            local.node,
            inventory,
            tuple(telemetry.samples),
            telemetry.readings,
            users,
            self._pods_of_processes,
            measured,
            local.agent.xids.counts,
            self._mig.counts(local.node),
        )
        return ExporterReading((node,))

    async def run(self) -> None:
        """Keep the pods of processes, and count MIG instances that pods get."""
        store = self._local.pods.store
        await self._local.pods.wait_for_sync()
        self._mig.start(self._local.node, self._list_users())
        unwatch = store.add_event_handler(self._handle_pod)
        try:
            while True:
                await self._attribute()
                await self._sleep(_ATTRIBUTION_SECONDS)
        finally:
            unwatch()

    async def _attribute(self) -> None:
        samples = self._local.telemetry.samples
        pids = {each.pid for sample in samples for each in sample.processes}
        # A process stays in its pod; one that is in none may be of the host, or may just start.
        known = {pid: pod for pid, pod in self._pods_of_processes.items() if pid in pids}
        missing = pids - known.keys()
        if missing:
            known |= await self._in_thread(self._pods_of, missing)
        self._pods_of_processes = known

    def _list_users(self) -> tuple[DeviceUser, ...]:
        pods = self._local.pods.store.objects()
        return list_device_users(pods, self._local.feed.inventory, self._local.read_holdings())

    def _handle_pod(self, old: Pod | None, new: Pod | None) -> None:
        if any(each is not None and each.metadata.annotations.devices for each in (old, new)):
            self._mig.observe(self._local.node, self._list_users())
