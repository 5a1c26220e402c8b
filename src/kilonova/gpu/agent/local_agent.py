"""The agent of the node that it runs on: caches of one Node and its pods, events and telemetry of
its devices."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from kilonova.gpu.agent.blocking import IN_THREADS, Blocking
from kilonova.gpu.agent.context import AgentContext
from kilonova.gpu.agent.engine_instances import EngineInstances
from kilonova.gpu.agent.holders import read_holders
from kilonova.gpu.agent.node_agent import NodeAgent
from kilonova.gpu.agent.remediation.overlay import overlay_health, overlay_withheld
from kilonova.gpu.agent.resources import NODES, PODS, Node, Pod
from kilonova.gpu.agent.telemetry.collector import TelemetryCollector
from kilonova.gpu.agent.telemetry.health import MeasuredHealth
from kilonova.gpu.agent.verification.verifier import PodVerifier
from kilonova.gpu.devices.backend import GpuBackend, TelemetrySource
from kilonova.gpu.devices.errors import GpuError
from kilonova.gpu.devices.model import DeviceTelemetry, NodeInventory
from kilonova.gpu.kubelet.holdings import Holding
from kilonova.gpu.kubelet.interfaces import InventoryFeed
from kilonova.gpu.mig.engine import MigEngine
from kilonova.gpu.mig.execution.device_calls import DeviceCalls, ThreadCalls
from kilonova.gpu.mig.reservations import ReservedDevices
from kilonova.gpu.mig.states import StateChange
from kilonova.kube import (
    NO_RUNTIME_METRICS,
    Controller,
    Key,
    Reflector,
    Result,
    Runnable,
    RuntimeMetrics,
    Watch,
)
from kilonova.kube.observability.structured_logging import get_logger

_EVENT_RETRY_SECONDS = 10.0
_RESYNC_SECONDS = 60.0
"""How often the inventory is read where no event indicates that it has changed."""

_log = get_logger(__name__)


class LocalAgent:
    """The agent of one node. `open` it before its `runnables` run; `close` it at the end.

    `telemetry` measures the devices, if not the backend does.
    """

    def __init__(
        self,
        node: str,
        backend: GpuBackend,
        state: Path,
        context: AgentContext,
        *,
        calls: DeviceCalls | None = None,
        telemetry: TelemetrySource | None = None,
        runtime_metrics: RuntimeMetrics = NO_RUNTIME_METRICS,
        verifier: PodVerifier | None = None,
        may_reset: bool = True,
        blocking: Blocking = IN_THREADS,
    ) -> None:
        calls = calls or ThreadCalls()
        self.node = node
        self._backend = backend
        self._verifier = verifier
        self._blocking = blocking
        self.nodes: Reflector[Node] = Reflector(
            context.client, NODES, field_selector=f"metadata.name={node}"
        )
        self.pods: Reflector[Pod] = Reflector(
            context.client, PODS, field_selector=f"spec.nodeName={node}"
        )
        self._controller = Controller(
            "gpu agent",
            self._reconcile,
            [Watch(self.nodes), Watch(self.pods, self._node_key)],
            resync_period=_RESYNC_SECONDS,
            runtime_metrics=runtime_metrics,
        )
        self._context = replace(context, enqueue=self._enqueue)

        def build_engine(report: Callable[[StateChange], None]) -> MigEngine:
            return MigEngine(backend, state, calls=calls, report=report, may_reset=may_reset)

        self.agent = NodeAgent(
            node, backend, build_engine, calls, self._context, state, other_holders=self._owners
        )
        self._has_reconciled = asyncio.Event()
        self.instances = EngineInstances(self.agent.engine, self.wake, self._has_reconciled.wait)
        self.feed = InventoryFeed(NodeInventory())
        """The inventory with the health that the agent knows of, and what it withholds."""
        self.telemetry = TelemetryCollector(
            telemetry or backend,
            self._inventory,
            now=blocking.monotonic,
            call=blocking.in_thread,
            observe=self._observe,
        )
        self.read_holdings: Callable[[], Sequence[Holding]] = tuple
        """What device plugin and DRA driver gave to containers, where they run."""
        self._measured = MeasuredHealth(context.catalog)
        self._processes: set[tuple[str, int]] = set()
        self.changed = asyncio.Condition()
        """Is notified after each reconcile."""

    @property
    def runnables(self) -> Sequence[Runnable]:
        """What has to run."""
        events = _EventLoop(self._backend, self, self._blocking)
        return (
            self.nodes,
            self.pods,
            self._context.events,
            self._controller,
            events,
            self.telemetry,
        )

    async def open(self) -> None:
        """Take the node; raises `EngineIsRunning` if another agent has it."""
        await self.agent.open()
        await self.feed.publish(self.agent.inventory)

    async def close(self) -> None:
        """Give the node back."""
        await self.agent.close()

    def wake(self) -> None:
        """Have the node reconciled soon."""
        self._enqueue(self.node)

    async def wait_until_decided(self) -> None:
        """Wait for the first reconcile: `feed` says then which devices are withheld."""
        await self._has_reconciled.wait()

    def holder_names(self) -> Mapping[str, str]:
        """`namespace/name` of the pods that have devices, by their UID."""
        return {each.uid: each.key for each in read_holders(self.pods.store.objects())}

    async def _reconcile(self, key: Key) -> Result | None:
        node = self.nodes.store.get(("", self.node))
        if node is None:
            return None
        pods = list(self.pods.store.objects())
        delay = await self.agent.reconcile(node, pods)
        if self.agent.is_open:
            inventory = overlay_health(self.agent.observed, self.agent.health)
            inventory = overlay_withheld(inventory, self.agent.withheld)
            if inventory != self.feed.inventory:
                await self.feed.publish(inventory)
                self.telemetry.wake()
            if self._verifier is not None:
                await self._verifier.verify(inventory, pods, self.telemetry.samples)
            self._has_reconciled.set()
        async with self.changed:
            self.changed.notify_all()
        return None if delay is None else Result(max(delay, 0.05))

    def _node_key(self, pod: Pod) -> tuple[Key, ...]:
        return (("", self.node),) if pod.metadata.annotations.devices else ()

    def _enqueue(self, node: str) -> None:
        self._controller.queue.add(("", node))

    def _owners(self) -> Mapping[str, ReservedDevices]:
        """Owners without an annotation: claims, and pods of other schedulers."""
        holders = self.holder_names()
        return {uid: each for uid, each in self.instances.owners().items() if uid not in holders}

    def _inventory(self) -> NodeInventory | None:
        return self.agent.inventory if self.agent.is_open else None

    def _observe(self, samples: Sequence[DeviceTelemetry]) -> None:
        self.agent.engine.observe(samples)
        now = self._blocking.monotonic()
        measured = self._measured.assess(self.agent.inventory, samples, now)
        self.agent.set_measured_health(measured)
        processes = {(each.uuid, process.pid) for each in samples for process in each.processes}
        if processes != self._processes:
            self._processes = processes
            self.wake()


class _EventLoop:
    """Waits for events of the devices, in a thread."""

    name = "gpu events"

    def __init__(self, backend: GpuBackend, local: LocalAgent, blocking: Blocking) -> None:
        self._backend = backend
        self._local = local
        self._blocking = blocking

    async def run(self) -> None:
        failure = ""
        blocking = self._blocking
        since = blocking.monotonic()
        while True:
            try:
                events = await blocking.in_thread(self._backend.wait_events, blocking.event_seconds)
            except GpuError as error:
                if str(error) != failure:
                    _log.warning("device events not available, will retry", error=str(error))
                failure = str(error)
                await asyncio.sleep(_EVENT_RETRY_SECONDS)
                events = ()
            else:
                failure = ""
            if events:
                self._local.agent.take_events(events)
                self._local.wake()
            elif blocking.monotonic() - since >= _RESYNC_SECONDS:
                since = blocking.monotonic()
                self._local.agent.mark_stale()
                self._local.wake()
