"""Launches, boots, interrupts and removes the machines of simulated Nodes.

Changes of Nodes only schedule actions; every action reads the Node again, so that it is harmless
if it happens twice, and a new process takes up where the last one stopped. Requests are decided one
after the other, since each takes capacity from the next.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from kilonova.api.json import JsonObject
from kilonova.api.times import parse_time
from kilonova.kube import Client, NotFound, PatchType, Reflector
from kilonova.kube.events import EventRecorder, ObjectReference
from kilonova.local.simnodes import objects
from kilonova.local.simnodes.fleet.file import FleetError
from kilonova.local.simnodes.fleet.model import FleetNode
from kilonova.local.simnodes.gpus.topology import build_topology_annotation
from kilonova.local.simnodes.lifecycle.capacity import (
    CAPACITY_NAME,
    CAPACITY_NAMESPACE,
    CONFIG_MAPS,
    InvalidRules,
    MachineRequest,
    find_exceeded_rule,
    parse_rules,
)
from kilonova.local.simnodes.lifecycle.descriptions import (
    DEFAULT_ZONE,
    describe_node,
    draw_boot_delay,
    read_number,
)
from kilonova.local.simnodes.lifecycle.interruptions import InterruptionWriter, parse_deadline
from kilonova.local.simnodes.lifecycle.node_objects import (
    INSUFFICIENT_CAPACITY,
    INVALID_DESCRIPTION,
    NODES,
    NUMBER_ANNOTATION,
    SimulatedNode,
)
from kilonova.local.simnodes.machine import SimulatedMachine
from kilonova.local.simnodes.registration import NodeRegistration
from kilonova.local.simnodes.timer_queue import TimerAction, TimerQueue


@dataclass(frozen=True, slots=True)
class LifecycleContext:
    """What the lifecycle acts with. `seed` decides boot delays."""

    client: Client
    nodes: Reflector[SimulatedNode]
    registration: NodeRegistration
    timers: TimerQueue
    events: EventRecorder
    now: Callable[[], datetime]
    seed: int


@dataclass(frozen=True, slots=True)
class MachineListener:
    """Called when a machine runs, and when it is gone."""

    added: Callable[[SimulatedMachine], None]
    removed: Callable[[SimulatedMachine], None]


@dataclass(frozen=True, slots=True)
class _Launch:
    number: int
    request: MachineRequest


class NodeLifecycle:
    """The machines of Nodes. `machines` are those that run, by name; it keeps them up to date.

    `is_managed` selects the Nodes that this process simulates.
    """

    def __init__(
        self,
        context: LifecycleContext,
        machines: dict[str, SimulatedMachine],
        is_managed: Callable[[SimulatedNode], bool],
        listener: MachineListener,
    ) -> None:
        self._context = context
        self._machines = machines
        self._is_managed = is_managed
        self._listener = listener
        self._interruptions = InterruptionWriter(context.client, context.events)
        self._waiting: dict[str, str] = {}
        """The uids of Nodes without a running machine, by name."""
        self._deadlines: dict[str, str] = {}
        """Announced interruptions by the uid of the Node."""
        self._launched: dict[str, _Launch] = {}
        """Machines by the uid of their Node; also of Nodes whose change is not observed yet."""
        self._used_numbers: set[int] = set()
        self._launch_lock = asyncio.Lock()

    def start(self) -> Callable[[], None]:
        """Take up the Nodes that exist, and follow their changes; call the result to stop.

        Machines that run are in `machines` when this returns, before the listener is called for
        any.
        """
        for node in list(self._context.nodes.store.objects()):
            self._observe(node, is_start=True)
        return self._context.nodes.store.add_event_handler(self._handle_node_change)

    def list_heartbeats(self) -> list[str]:
        """The names of the nodes that renew their Lease."""
        running = (name for name, machine in self._machines.items() if not machine.is_out)
        return [*running, *self._waiting]

    def _handle_node_change(self, old: SimulatedNode | None, new: SimulatedNode | None) -> None:
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self._remove(old)
        if new is not None:
            self._observe(new)

    def _observe(self, node: SimulatedNode, *, is_start: bool = False) -> None:
        name = node.metadata.name
        self._record_launch(node)
        machine = self._machines.get(name)
        if machine is not None:
            self._observe_interruption(machine, node)
        elif self._is_managed(node) and self._waiting.get(name) != node.metadata.uid:
            self._take_up(node, is_start=is_start)

    def _take_up(self, node: SimulatedNode, *, is_start: bool) -> None:
        """The first time that this process sees a Node."""
        name = node.metadata.name
        if node.is_booted:
            shape = self._describe(node)
            if shape is not None:
                self._add_machine(node, shape, is_start=is_start)
                if node.ready.status != "True":  # this process was away
                    self._schedule(node, 0.0, lambda: self._report_ready(shape))
            return
        self._waiting[name] = node.metadata.uid
        if node.ready.reason in (INSUFFICIENT_CAPACITY, INVALID_DESCRIPTION):
            return  # final: the client that requested it deletes it
        if node.is_launched:
            self._schedule_boot(node)
        else:
            self._schedule(node, 0.0, lambda: self._launch(node))

    def _add_machine(self, node: SimulatedNode, shape: FleetNode, *, is_start: bool) -> None:
        machine = SimulatedMachine.from_node(shape)
        self._waiting.pop(shape.name, None)
        self._machines[shape.name] = machine
        if not is_start:
            self._listener.added(machine)
        self._observe_interruption(machine, node)

    def _remove(self, node: SimulatedNode) -> None:
        name = node.metadata.name
        self._deadlines.pop(node.metadata.uid, None)
        launched = self._launched.pop(node.metadata.uid, None)
        if launched is not None:
            self._used_numbers.discard(launched.number)
        waited = self._waiting.pop(name, None)
        machine = self._machines.pop(name, None)
        if machine is not None:
            machine.is_removed = True
            self._listener.removed(machine)
        if machine is not None or waited is not None:

            async def delete_lease() -> None:
                if self._context.nodes.store.get(("", name)) is None:
                    await self._context.registration.delete_lease(name)

            self._context.timers.call_after(0.0, delete_lease)

    # Launch and boot

    async def _launch(self, node: SimulatedNode) -> None:
        async with self._launch_lock:
            await self._decide_launch(node)

    async def _decide_launch(self, node: SimulatedNode) -> None:
        context, name = self._context, node.metadata.name
        try:
            shape = describe_node(node, self._find_free_number())
        except FleetError as error:
            await self._report_invalid(node, str(error))
            return
        request = _request_of(node)
        problem = await self._find_capacity_problem(node, request)
        if problem:
            self._record_event(node, INSUFFICIENT_CAPACITY, problem, warning=True)
            await self._report_not_ready(node, INSUFFICIENT_CAPACITY, problem)
            return
        current = await context.client.patch(NODES, name, _build_launch_patch(node, shape))
        self._record_launch(current)
        if draw_boot_delay(shape.group, current, context.seed):
            status = objects.build_booting_status(context.now())
            await context.client.patch(NODES, name, {"status": status}, subresource="status")
        await context.registration.create_lease(name, node.metadata.uid)
        self._record_event(node, "Launched", f"Launched {request}")
        self._schedule_boot(current)

    async def _find_capacity_problem(self, node: SimulatedNode, request: MachineRequest) -> str:
        """Why the machine cannot be launched; empty if it can."""
        context = self._context
        try:
            found = await context.client.get(CONFIG_MAPS, CAPACITY_NAME, CAPACITY_NAMESPACE)
            rules = parse_rules(found)
        except NotFound:
            return ""
        except InvalidRules as error:
            self._record_event(node, "InvalidCapacityRules", str(error), warning=True)
            return ""
        others = (each.request for each in self._launched.values())
        rule = find_exceeded_rule(rules, request, others, context.now())
        if rule is None:
            return ""
        until = f" until {rule.until}" if rule.until else ""
        return f"insufficient capacity for {request}: at most {rule.limit} can be launched{until}"

    def _schedule_boot(self, node: SimulatedNode) -> None:
        shape = self._describe(node)
        if shape is None:
            return
        delay = draw_boot_delay(shape.group, node, self._context.seed)
        created = parse_time(node.metadata.creation_timestamp)
        passed = (self._context.now() - created).total_seconds()
        self._schedule(node, max(0.0, delay - passed), lambda: self._boot(node, shape))

    def _describe(self, node: SimulatedNode) -> FleetNode | None:
        """The machine of a Node; None, and a report, if its description became invalid."""
        try:
            return describe_node(node)
        except FleetError as error:
            problem = str(error)
            self._schedule(node, 0.0, lambda: self._report_invalid(node, problem))
            return None

    async def _boot(self, node: SimulatedNode, shape: FleetNode) -> None:
        context = self._context
        topology = build_topology_annotation(shape.name, shape.group.gpu, frozenset())
        body: JsonObject = {
            "metadata": {"annotations": {objects.TOPOLOGY: topology}},
            "status": objects.build_node_status(shape, context.now()),
        }
        current = await context.client.patch(
            NODES, shape.name, body, subresource="status", patch_type=PatchType.STRATEGIC
        )
        if shape.name not in self._machines:  # or the change of the Node was observed meanwhile
            self._add_machine(current, shape, is_start=False)
        self._record_event(node, "Booted", "Booted: the machine is ready")

    def _find_free_number(self) -> int:
        """Counted down from the maximum, since fleets are numbered from 0."""
        numbers = range(objects.MAX_NODES - 1, -1, -1)
        return next(each for each in numbers if each not in self._used_numbers)

    def _record_launch(self, node: SimulatedNode) -> None:
        uid = node.metadata.uid
        if node.is_launched and uid not in self._launched:
            launch = self._launched[uid] = _Launch(read_number(node), _request_of(node))
            self._used_numbers.add(launch.number)

    async def _report_ready(self, shape: FleetNode) -> None:
        machine = self._machines.get(shape.name)
        if machine is not None and not machine.is_out:
            status = objects.build_node_status(shape, self._context.now(), machine.faults.lost_gpus)
            body: JsonObject = {"status": status}
            await self._context.client.patch(
                NODES, shape.name, body, subresource="status", patch_type=PatchType.STRATEGIC
            )

    async def _report_invalid(self, node: SimulatedNode, problem: str) -> None:
        self._record_event(node, INVALID_DESCRIPTION, problem, warning=True)
        await self._report_not_ready(node, INVALID_DESCRIPTION, problem)

    async def _report_not_ready(self, node: SimulatedNode, reason: str, message: str) -> None:
        context, name = self._context, node.metadata.name
        status = objects.build_not_ready_status(reason, message, context.now())
        await context.client.patch(NODES, name, {"status": status}, subresource="status")
        await context.registration.create_lease(name, node.metadata.uid)

    # Interruptions

    def _observe_interruption(self, machine: SimulatedMachine, node: SimulatedNode) -> None:
        uid, value = node.metadata.uid, node.interruption
        if self._deadlines.get(uid, "") == value:
            return
        if not value:
            del self._deadlines[uid]
            self._schedule(node, 0.0, lambda: self._withdraw(node))
            return
        self._deadlines[uid] = value
        deadline = parse_deadline(value)
        if deadline is not None:
            self._schedule(node, 0.0, lambda: self._give_notice(node, deadline))
            delay = (deadline - self._context.now()).total_seconds()
            self._schedule(node, max(0.0, delay), lambda: self._take_back(node, value))
        elif value == "true":
            announce = self._interruptions.announce
            self._schedule(node, 0.0, lambda: announce(machine, node, self._context.now()))

    async def _give_notice(self, node: SimulatedNode, deadline: datetime) -> None:
        await self._interruptions.give_notice(node, deadline, self._context.now())

    async def _withdraw(self, node: SimulatedNode) -> None:
        await self._interruptions.withdraw(node, self._context.now())

    async def _take_back(self, node: SimulatedNode, value: str) -> None:
        if self._deadlines.get(node.metadata.uid) == value:
            await self._interruptions.take_back(node)

    def _schedule(self, node: SimulatedNode, delay: float, action: TimerAction) -> None:
        """Schedule an action for this very Node."""

        async def due() -> None:
            current = self._context.nodes.store.get(("", node.metadata.name))
            if current is not None and current.metadata.uid == node.metadata.uid:
                await action()

        self._context.timers.call_after(delay, due)

    def _record_event(
        self, node: SimulatedNode, reason: str, message: str, *, warning: bool = False
    ) -> None:
        about = ObjectReference.to(NODES, node.metadata.name, "", node.metadata.uid)
        self._context.events.event(about, reason, message, warning=warning)


def _request_of(node: SimulatedNode) -> MachineRequest:
    labels = node.metadata.labels
    return MachineRequest(labels.machine, labels.zone or DEFAULT_ZONE, labels.market or "on-demand")


def _build_launch_patch(node: SimulatedNode, shape: FleetNode) -> JsonObject:
    """The number of the machine, and labels that its Node lacks."""
    labels = objects.build_node_labels(shape)
    # The market is a label of the Node, and is left as it is.
    labels.pop(objects.MARKET_LABEL, None)
    spec: JsonObject = {}
    if not node.spec.pod_cidr:
        spec["podCIDR"] = objects.pod_cidr(shape.number)
    if not node.spec.provider_id:
        spec["providerID"] = f"sim://{shape.name}"
    return {
        "metadata": {
            "uid": node.metadata.uid,
            "labels": labels,
            "annotations": {NUMBER_ANNOTATION: str(shape.number)},
        },
        "spec": spec,
    }
