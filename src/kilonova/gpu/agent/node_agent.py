"""The agent of one node: keeps the Node, its devices and its MIG instances as they should be.

`reconcile` observes (the inventory, events of the devices, the pods of the node), decides by pure
functions (`desire`, `remediation`), and writes what differs. It may be called at any time, for one
node by one task at a time. All that must not be forgotten is in the API or in the engine's journal:
after a crash at any point, the next agent goes on.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Protocol, TypeVar

from kilonova.api.gpu.health import HealthRecord, HealthRecords, parse_health
from kilonova.api.gpu.mig_strategy import NodeMigStrategy, parse_mig_strategy
from kilonova.gpu.agent.context import AgentContext
from kilonova.gpu.agent.desire.conditions import (
    MigProblem,
    build_taint,
    gpu_health_condition,
    mig_condition,
    unreadable_condition,
)
from kilonova.gpu.agent.desire.extended_resources import build_resources
from kilonova.gpu.agent.desire.mig import DesiredMig, desire_mig, is_idle, list_pending
from kilonova.gpu.agent.desire.node import DesiredNode
from kilonova.gpu.agent.desire.stock import StockDecision, decide_stock
from kilonova.gpu.agent.desire.topology import build_topology
from kilonova.gpu.agent.holders import Holder, read_holders
from kilonova.gpu.agent.learnt_demand import DEMAND_FILE, LearntDemand
from kilonova.gpu.agent.mig_control import MigControl
from kilonova.gpu.agent.node_events import NodeEventRecorder
from kilonova.gpu.agent.node_writer import NodeWriter
from kilonova.gpu.agent.prewarmer import Prewarmer
from kilonova.gpu.agent.remediation.assessment import HealthFinding, assess_devices, next_expiry
from kilonova.gpu.agent.remediation.eviction import evict_pods
from kilonova.gpu.agent.remediation.overlay import overlay_measured
from kilonova.gpu.agent.remediation.recovery import RecoveryPlan, plan_recovery, record_reset
from kilonova.gpu.agent.resources import Node, Pod
from kilonova.gpu.agent.strategy_wait import StrategyWait
from kilonova.gpu.agent.telemetry.xid_counter import XidCounter
from kilonova.gpu.devices.backend import GpuBackend
from kilonova.gpu.devices.errors import GpuError
from kilonova.gpu.devices.model import DeviceHealth, GpuEvent, NodeInventory
from kilonova.gpu.mig.engine import MigEngine
from kilonova.gpu.mig.execution.device_calls import DeviceCalls
from kilonova.gpu.mig.parted.config_file import ConfigFile
from kilonova.gpu.mig.parted.default_configs import generate_configs
from kilonova.gpu.mig.reservations import ReservedDevices
from kilonova.gpu.mig.states import StateChange
from kilonova.gpu.topology.labels import build_labels
from kilonova.kube.observability.structured_logging import get_logger

T = TypeVar("T")

_UNREADABLE_RETRY = 10.0
_CALL_SECONDS = 120.0

_log = get_logger(__name__)


class OpenEngine(Protocol):
    """Makes the MIG engine of a node, which reports changes; it is not open yet."""

    def __call__(self, report: Callable[[StateChange], None]) -> MigEngine: ...


def no_claims(inventory: NodeInventory) -> Sequence[Holder]:
    """No claim has devices."""
    del inventory
    return ()


class NodeAgent:
    """The agent of the node of a name. `open` it first, and `close` it at the end.

    `state` is the folder of the engine's journal, and of what the agent has learnt.
    `other_holders` are holders of devices for whom others make what they need: what they have is
    left alone. `read_claims` are claims for which the agent makes it.
    """

    def __init__(
        self,
        name: str,
        backend: GpuBackend,
        build_engine: OpenEngine,
        calls: DeviceCalls,
        context: AgentContext,
        state: Path,
        *,
        other_holders: Callable[[], Mapping[str, ReservedDevices]] = dict,
        read_claims: Callable[[NodeInventory], Sequence[Holder]] = no_claims,
    ) -> None:
        self.name = name
        self.backend = backend
        self.engine = build_engine(self._report_mig_change)
        self._calls = calls
        self._context = context
        self._other_holders = other_holders
        self._read_claims = read_claims
        self._mig = MigControl(
            name, self.engine, self._handle_mig_end, self._monotonic, context.metrics
        )
        self._writer = NodeWriter(context.client, context.metrics)
        self._events = NodeEventRecorder(context)
        self._strategy_wait = StrategyWait(context.client)
        self._is_open = False
        self._is_stale = False
        self._device_events: list[GpuEvent] = []
        self._mig_changes: list[StateChange] = []
        self._findings: list[HealthFinding] = []
        """What is not recorded as events yet."""
        self._idle_since: dict[str, float] = {}
        seconds = context.settings.prewarm_seconds
        self._prewarmer = Prewarmer(LearntDemand(seconds, state / DEMAND_FILE, context.now))
        self._replaced_at: float | None = None
        self._configs: ConfigFile = {}
        self._labels: Mapping[str, str | None] = {}
        self._withheld: Mapping[str, str] = {}
        self._used_whole: frozenset[str] = frozenset()
        self._has_read_health = False
        self._measured: Mapping[str, DeviceHealth] = {}
        self.xids = XidCounter()
        self.health: HealthRecords = {}
        """The records as last decided; at the start, those that the Node has."""

    @property
    def inventory(self) -> NodeInventory:
        """The devices as last read; `open` it first."""
        return self.engine.inventory

    @property
    def observed(self) -> NodeInventory:
        """The devices, as healthy as they are by what was measured, too."""
        return overlay_measured(self.engine.inventory, self._measured)

    def set_measured_health(self, measured: Mapping[str, DeviceHealth]) -> None:
        """The health of devices by their telemetry, by UUID."""
        if measured != self._measured:
            self._measured = measured
            self._context.enqueue(self.name)

    @property
    def withheld(self) -> Mapping[str, str]:
        """Why pods get MIG instances only of devices, by UUID, as last decided."""
        return self._withheld

    @property
    def is_open(self) -> bool:
        """Whether it has the node, and has read its devices."""
        return self._is_open

    @property
    def is_changing(self) -> bool:
        """Whether MIG instances are being made or destroyed."""
        return self._mig.is_changing

    async def open(self) -> None:
        """Take the node. `EngineIsRunning` if another agent has it; `GpuError` where its devices
        cannot be read."""
        if not self._is_open:
            found = await self.engine.open()
            self._is_open = True
            self._prewarmer.load(self._monotonic())
            if found.damaged_entries:
                message = (
                    f"{found.damaged_entries} entries of the MIG journal cannot be read; "
                    "reservations follow from the pods"
                )
                self._findings.append(HealthFinding("MIGJournalDamaged", message, True))
            if found.unfinished or found.missing:
                _log.info(
                    "MIG journal read",
                    node=self.name,
                    unfinished=len(found.unfinished),
                    missing=len(found.missing),
                    adopted=len(found.adopted),
                )

    async def close(self) -> None:
        """Give the node back. What exists stays."""
        await self._mig.stop()
        self.engine.close()
        self._is_open = False

    def take_events(self, events: Iterable[GpuEvent]) -> None:
        """Events of devices: the next `reconcile` takes them up."""
        events = tuple(events)
        self.xids.count(events, self._context.now())
        self._device_events += events
        self._is_stale = True

    def mark_stale(self) -> None:
        """The inventory may have changed: the next `reconcile` reads it."""
        self._is_stale = True

    def now(self) -> datetime:
        """The wall clock."""
        return self._context.now()

    async def wait_for_mig(self) -> None:
        """Wait for the change of MIG instances that is being made, if there is one."""
        await self._mig.wait()

    async def reconcile(self, node: Node, pods: Sequence[Pod]) -> float | None:
        """Bring everything in line; returns seconds after which to look again, if anything waits
        for time alone."""
        try:
            await self._read_devices()
        except GpuError as error:
            self._count_error(error)
            desired = DesiredNode(conditions=(unreadable_condition(error),), manages_taint=False)
            await self._writer.write(node, desired, self._context.now())
            return _UNREADABLE_RETRY
        holders = (*read_holders(pods), *self._read_claims(self.inventory))
        recovery = self._assess(node, holders)
        mig, problems = await self._desire_mig(node, holders)
        waiting = await self._strategy_wait.find_reason(
            node, self._build_labels(), self._monotonic()
        )
        if waiting:
            capable = (each for each in self.inventory.devices if each.geometry is not None)
            self._withheld = {each.uuid: waiting for each in capable}
        current = await self._writer.write(node, self._desire_node(problems), self._context.now())
        # Events and actions follow only after the Node reports it: a crash repeats them.
        findings, self._findings = self._findings, []
        self._events.record_findings(current, findings)
        changes, self._mig_changes = self._mig_changes, []
        self._events.record_mig_changes(current, changes, self.inventory)
        self._mig.start(mig)
        refused = await evict_pods(
            self._context, recovery.evictions, recovery.records, self.inventory
        )
        if recovery.resets:
            await self._reset(current, recovery)
        checks = [
            recovery.next_check,
            next_expiry(self.health, self._context.now()),
            self._mig.retry_delay,
            self._idle_check(),
            self._strategy_wait.next_check(self._monotonic()),
            refused,
            self._prewarmer.next_check,
            0.0 if recovery.resets else None,
        ]
        return min((each for each in checks if each is not None), default=None)

    async def _read_devices(self) -> None:
        await self.open()
        if self._is_stale:
            self._is_stale = False
            try:
                await self.engine.refresh()
            except GpuError:
                self._is_stale = True
                raise

    def _assess(self, node: Node, holders: Sequence[Holder]) -> RecoveryPlan:
        """Take up events, and decide what to do for unhealthy devices."""
        if not self._has_read_health:
            self.health = parse_health(node.metadata.annotations.health)
            self._has_read_health = True
        context, events = self._context, self._device_events
        self._device_events = []
        now = context.now()
        inventory = self.observed
        assessed = assess_devices(self.health, inventory, events, now)
        plan = plan_recovery(assessed.records, inventory, holders, now, context.settings.recovery)
        self._findings += [*assessed.findings, *plan.findings]
        self.health = plan.records
        return plan

    async def _desire_mig(
        self, node: Node, holders: Sequence[Holder]
    ) -> tuple[DesiredMig, list[MigProblem]]:
        context, inventory = self._context, self.inventory
        problems = await self._mig.reserve(inventory, holders, self._other_holders())
        decision = self._decide_stock(node, holders)
        now, decided = self._monotonic(), decision.stock
        stock = {**self._prewarmer.plan(inventory, holders, decided.keys(), now), **decided}
        first = desire_mig(inventory, holders, self.health, stock)
        idle = {each.uuid for each in inventory.devices if is_idle(each, first, stock)}
        self._idle_since = {uuid: self._idle_since.get(uuid, now) for uuid in idle}
        expired = {
            uuid
            for uuid, since in self._idle_since.items()
            if now - since >= context.settings.idle_seconds
        }
        desired = desire_mig(inventory, holders, self.health, stock, expired)
        self._labels, self._withheld = decision.labels, decision.withheld
        self._used_whole = desired.used_whole
        failed = [*problems, *decision.problems, *self._mig.problems(inventory)]
        return desired, [*failed, *list_pending(inventory, desired)]

    def _decide_stock(self, node: Node, holders: Sequence[Holder]) -> StockDecision:
        """What should be in stock; instances are replaced once per interval at most."""
        text = node.metadata.annotations.strategy
        strategy = parse_mig_strategy(text) if text else None
        interval = strategy.interval if isinstance(strategy, NodeMigStrategy) else 0.0
        now = self._monotonic()
        decision = decide_stock(
            node,
            self.inventory,
            holders,
            self.engine.instances,
            self._find_configs(),
            failure="; ".join(each.message for each in self._mig.problems(self.inventory)),
            may_replace=self._replaced_at is None or now - self._replaced_at >= interval,
        )
        if decision.replaces and not self._mig.is_changing:
            self._replaced_at = now
        return decision

    def _find_configs(self) -> ConfigFile:
        if not self._configs:
            geometries = [x.geometry for x in self.inventory.devices if x.geometry is not None]
            self._configs = self._context.configs or generate_configs(geometries)
        return self._configs

    def _idle_check(self) -> float | None:
        """Seconds until a device has been idle for long enough."""
        if not self._idle_since or self._mig.is_changing:
            return None
        idle_seconds = self._context.settings.idle_seconds
        left = min(self._idle_since.values()) + idle_seconds - self._monotonic()
        return left if left > 0 else None

    def _desire_node(self, problems: Sequence[MigProblem]) -> DesiredNode:
        inventory, settings = self.observed, self._context.settings
        withheld = self._withheld.keys() - self._used_whole  # a pod may keep what it has
        capacity, allocatable = build_resources(inventory, self.health, withheld)
        count = sum(len(each.instances) for each in inventory.devices)
        is_capable = any(each.geometry is not None for each in inventory.devices)
        mig = (mig_condition(problems, count),) if is_capable or problems else ()
        resources = settings.publishes_resources
        return DesiredNode(
            self._build_labels(),
            build_topology(inventory, self.health, self._withheld),
            self.health,
            capacity if resources else None,
            allocatable if resources else None,
            (gpu_health_condition(inventory, self.health), *mig),
            build_taint(inventory, self.health),
            settings.taints,
        )

    def _build_labels(self) -> Mapping[str, str | None]:
        labels: dict[str, str | None] = dict(self._labels)
        if self._context.settings.publishes_labels:
            labels |= build_labels(self.inventory, self._context.catalog)
        return labels

    async def _reset(self, node: Node, plan: RecoveryPlan) -> None:
        """Reset devices, and write down what came of it."""
        records: dict[str, HealthRecord] = dict(plan.records)
        for uuid in plan.resets:
            device = self.inventory.find(uuid)
            if device is None:
                continue
            error: GpuError | None = None
            try:
                await self._call(uuid, "reset", lambda uuid=uuid: self.backend.reset(uuid))
            except GpuError as raised:
                self._count_error(raised)
                error = raised
            now = self._context.now()
            records[uuid], finding = record_reset(records[uuid], device, error, now)
            self._events.record_findings(node, (finding,))
        self.health = records
        self._is_stale = True
        await self._writer.write(
            node, DesiredNode(health=records, manages_taint=False), self._context.now()
        )

    async def _call(self, device: str, operation: str, function: Callable[[], T]) -> T:
        return await self._calls.run(device, operation, function, _CALL_SECONDS)

    def _report_mig_change(self, change: StateChange) -> None:
        """A change of MIG mode or instances: the Node reports it soon."""
        if self._is_open:  # what was found at the start is no change
            self._mig_changes.append(change)
            self._context.enqueue(self.name)

    def _handle_mig_end(self) -> None:
        self._is_stale = True  # how devices are connected depends on their mode
        self._context.enqueue(self.name)

    def _count_error(self, error: GpuError) -> None:
        self._context.metrics.errors.labels(error.operation, error.kind.value).inc()

    def _monotonic(self) -> float:
        return asyncio.get_running_loop().time()
