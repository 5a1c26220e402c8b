"""Injects faults into simulated nodes, by script or at random, and simulates their effects.

A fault is injected by writing an annotation of the Node (`annotations`), and takes effect when the
change of the Node is observed: so kubectl can inject faults as well, and a new process finds the
faults of the last one.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from random import Random

from kilonova.api.json import JsonObject
from kilonova.api.nodes.simulated_faults import (
    LOST_GPUS_ANNOTATION,
    OUT_ANNOTATION,
    PULL_ERRORS_ANNOTATION,
    XID_ANNOTATION,
    NodeFaults,
    format_lost_gpus,
    format_until,
    parse_faults,
    parse_lost_gpus,
)
from kilonova.catalog.xids import FALLEN_OFF_BUS, find_xid
from kilonova.kube import Client, NotFound, PatchType, Reflector, TooManyRequests
from kilonova.kube.events import EventRecorder, ObjectReference
from kilonova.kube.observability.structured_logging import get_logger
from kilonova.local.simnodes import objects
from kilonova.local.simnodes.fleet.model import Fleet, ScriptStep, parse_seconds
from kilonova.local.simnodes.gpus.topology import read_unhealthy_gpus
from kilonova.local.simnodes.lifecycle.node_objects import (
    INTERRUPTION_ANNOTATION,
    NODES,
    SimulatedNode,
)
from kilonova.local.simnodes.machine import SimulatedMachine
from kilonova.local.simnodes.pods.lifecycle import PodSimulator
from kilonova.local.simnodes.pods.state import is_daemon_set_pod
from kilonova.local.simnodes.timer_queue import TimerAction, TimerQueue

_APPLICATION_XIDS = (13, 31, 43, 94)
_EVICTION_RETRY = 5.0
_log = get_logger(__name__)


class FaultInjector:
    """Faults of machines; their effects on pods are in `PodSimulator`."""

    def __init__(
        self,
        client: Client,
        nodes: Reflector[SimulatedNode],
        machines: Mapping[str, SimulatedMachine],
        pod_simulator: PodSimulator,
        timers: TimerQueue,
        random: Random,
        now: Callable[[], datetime],
        events: EventRecorder,
    ) -> None:
        self._client = client
        self._nodes = nodes
        self._machines = machines
        self._pod_simulator = pod_simulator
        self._timers = timers
        self._random = random
        self._now = now
        self._events = events

    def start(self, fleet: Fleet) -> Callable[[], None]:
        """Start to simulate faults and to schedule new ones; call the result to stop."""
        unsubscribe = self._nodes.store.add_event_handler(self._handle_node_change)
        for machine in list(self._machines.values()):
            self.add_machine(machine)
        if fleet.zone_failures.mtbf:
            for zone in sorted({each.node.zone for each in self._machines.values()}):
                self._schedule_zone_outage(zone, fleet)
        for step in fleet.script:
            self._timers.call_after(
                parse_seconds(step.after), lambda step=step: self._run_script_step(step)
            )
        return unsubscribe

    def add_machine(self, machine: SimulatedMachine) -> None:
        """Simulate the faults of a machine, from when it runs."""
        node = self._nodes.store.get(("", machine.node.name))
        if node is not None:  # an Xid from before this process has already had its effect
            machine.faults = NodeFaults(lost_gpus=read_unhealthy_gpus(node.metadata.annotations))
            self._apply_faults(machine, node)
        self._schedule(machine, 0.0, lambda: self._expire_faults(machine))
        self._schedule_outage(machine)
        self._schedule_gpu_failures(machine)
        self._schedule_interruption(machine)

    def _schedule(self, machine: SimulatedMachine, delay: float, action: TimerAction) -> None:
        """Schedule an action on a machine, unless it is gone by then."""

        async def act() -> None:
            if not machine.is_removed:
                await action()

        self._timers.call_after(delay, act)

    # At random

    def _schedule_interruption(self, machine: SimulatedMachine) -> None:
        mean_lifetime = machine.node.group.failures.interruption_mtbf
        if mean_lifetime:

            async def interrupt() -> None:
                await self._set_fault(machine, INTERRUPTION_ANNOTATION, "true")

            rate = 1 / parse_seconds(mean_lifetime)
            self._schedule(machine, self._random.expovariate(rate), interrupt)

    def _schedule_outage(self, machine: SimulatedMachine) -> None:
        if machine.mean_node_lifetime:

            async def fail() -> None:
                await self._set_fault(
                    machine, OUT_ANNOTATION, format_until(self._time_after(machine.outage_seconds))
                )
                self._schedule_outage(machine)

            self._schedule(machine, self._random.expovariate(1 / machine.mean_node_lifetime), fail)

    def _schedule_gpu_failures(self, machine: SimulatedMachine) -> None:
        failures = machine.node.group.failures
        for mtbf, is_loss in ((failures.gpu_mtbf, True), (failures.xid_interval, False)):
            if mtbf and machine.gpu_count:
                self._schedule_gpu_failure(
                    machine, parse_seconds(mtbf) / machine.gpu_count, is_loss
                )

    def _schedule_gpu_failure(
        self, machine: SimulatedMachine, mean_lifetime: float, is_loss: bool
    ) -> None:
        async def fail() -> None:
            gpu = self._random.randrange(machine.gpu_count)
            if is_loss:
                outage = parse_seconds(machine.node.group.failures.gpu_outage)
                await self._lose_gpu(machine, gpu, self._time_after(outage))
            else:
                code = self._random.choice(_APPLICATION_XIDS)
                await self._set_fault(machine, XID_ANNOTATION, f"{code}@{gpu}")
            self._schedule_gpu_failure(machine, mean_lifetime, is_loss)

        self._schedule(machine, self._random.expovariate(1 / mean_lifetime), fail)

    def _schedule_zone_outage(self, zone: str, fleet: Fleet) -> None:
        failures = fleet.zone_failures

        async def fail() -> None:
            until = format_until(self._time_after(parse_seconds(failures.outage)))
            await self._set_fault_on_all(self._machines_in_zone(zone), OUT_ANNOTATION, until)
            self._schedule_zone_outage(zone, fleet)

        self._timers.call_after(self._random.expovariate(1 / parse_seconds(failures.mtbf)), fail)

    # By script

    async def _run_script_step(self, step: ScriptStep) -> None:
        until = self._time_after(parse_seconds(step.duration)) if step.duration else None
        name, _, gpu = step.target.partition("/")
        machine = self._machines.get(name)
        match step.action:
            case "zone-outage":
                await self._set_fault_on_all(
                    self._machines_in_zone(step.target), OUT_ANNOTATION, format_until(until)
                )
            case "node-outage" if machine is not None:
                await self._set_fault(machine, OUT_ANNOTATION, format_until(until))
            case "pull-errors":
                chosen = [machine] if machine is not None else self._machines_in_zone(step.target)
                await self._set_fault_on_all(chosen, PULL_ERRORS_ANNOTATION, format_until(until))
            case "gpu-lost" if machine is not None:
                await self._lose_gpu(machine, int(gpu), until)
            case "xid" if machine is not None:
                await self._set_fault(machine, XID_ANNOTATION, f"{step.code}@{gpu}")
            case "interruption" if machine is not None:
                await self._set_fault(machine, INTERRUPTION_ANNOTATION, "true")
            case "drain" if machine is not None:
                await self._drain(machine, until)
            case _:
                _log.warning("script target not found", action=step.action, target=step.target)

    async def _drain(self, machine: SimulatedMachine, until: datetime | None) -> None:
        """Cordon and evict pods, as `kubectl drain` does; uncordon later, if requested."""
        name = machine.node.name
        await self._client.patch(NODES, name, {"spec": {"unschedulable": True}})
        await self._evict_all(machine)
        if until is not None:

            async def uncordon() -> None:
                await self._client.patch(NODES, name, {"spec": {"unschedulable": None}})

            self._schedule(machine, (until - self._now()).total_seconds(), uncordon)

    async def _evict_all(self, machine: SimulatedMachine) -> None:
        refused = False
        for pod in self._pod_simulator.pods_on(machine):
            if pod.metadata.deletion_timestamp or is_daemon_set_pod(pod):
                continue
            try:
                await self._client.evict(pod.metadata.name, pod.metadata.namespace)
            except NotFound:
                continue
            except TooManyRequests:
                refused = True
        if refused:
            self._schedule(machine, _EVICTION_RETRY, lambda: self._evict_all(machine))

    # Faults are written to the Node …

    def _time_after(self, delay: float) -> datetime:
        return self._now() + timedelta(seconds=delay)

    def _machines_in_zone(self, zone: str) -> list[SimulatedMachine]:
        return [each for each in self._machines.values() if each.node.zone == zone]

    async def _set_fault(self, machine: SimulatedMachine, fault: str, value: str | None) -> None:
        body = {"metadata": {"annotations": {fault: value}}}
        await self._client.patch(NODES, machine.node.name, body)

    async def _set_fault_on_all(
        self, machines: Iterable[SimulatedMachine], fault: str, value: str
    ) -> None:
        left = iter(list(machines))

        async def work() -> None:
            for machine in left:
                try:
                    await self._set_fault(machine, fault, value)
                except NotFound:
                    continue

        await asyncio.gather(*(work() for _ in range(16)))

    async def _lose_gpu(self, machine: SimulatedMachine, gpu: int, until: datetime | None) -> None:
        node = self._nodes.store.get(("", machine.node.name))
        if node is None:
            return
        lost = parse_lost_gpus(node.metadata.annotations.get(LOST_GPUS_ANNOTATION, ""))
        lost[gpu] = until
        await self._set_fault(machine, LOST_GPUS_ANNOTATION, format_lost_gpus(lost))

    # … and take effect when the change is observed.

    def _handle_node_change(self, _old: SimulatedNode | None, new: SimulatedNode | None) -> None:
        machine = self._machines.get(new.metadata.name) if new is not None else None
        if new is not None and machine is not None:
            self._apply_faults(machine, new)

    def _apply_faults(self, machine: SimulatedMachine, node: SimulatedNode) -> None:
        now = self._now()
        before, machine.faults = machine.faults, parse_faults(node.metadata.annotations, now)
        faults = machine.faults
        if faults.next_end is not None and faults.next_end != before.next_end:
            delay = (faults.next_end - now).total_seconds()
            self._schedule(machine, delay, lambda: self._expire_faults(machine))
        if before.is_out and not faults.is_out:
            self._schedule(machine, 0.0, lambda: self._restart_machine(machine))
        newly_lost = sorted(faults.lost_gpus - before.lost_gpus)
        if faults.is_out:
            return
        if newly_lost or before.lost_gpus != faults.lost_gpus:
            self._schedule(machine, 0.0, lambda: self._apply_gpu_change(machine, node, newly_lost))
        if faults.xid is not None and faults.xid != before.xid:
            code, gpu = faults.xid
            self._schedule(machine, 0.0, lambda: self._apply_xid(machine, node, code, gpu))

    async def _expire_faults(self, machine: SimulatedMachine) -> None:
        """Remove the annotations of faults that have ended."""
        node = self._nodes.store.get(("", machine.node.name))
        if node is None:
            return
        now, found = self._now(), node.metadata.annotations
        faults = parse_faults(found, now)
        body: dict[str, str | None] = {}
        if OUT_ANNOTATION in found and not faults.is_out:
            body[OUT_ANNOTATION] = None
        if PULL_ERRORS_ANNOTATION in found and not faults.pull_errors:
            body[PULL_ERRORS_ANNOTATION] = None
        lost = parse_lost_gpus(found.get(LOST_GPUS_ANNOTATION, ""))
        still = {gpu: until for gpu, until in lost.items() if gpu in faults.lost_gpus}
        if still != lost:
            body[LOST_GPUS_ANNOTATION] = format_lost_gpus(still) or None
        if body:
            await self._client.patch(NODES, machine.node.name, {"metadata": {"annotations": body}})
        self._apply_faults(machine, node)

    async def _restart_machine(self, machine: SimulatedMachine) -> None:
        """The machine boots: the node becomes ready, and its pods do after a while."""
        state = self._build_gpu_patch(machine)
        state["status"]["conditions"] = objects.build_node_conditions(self._now())
        await self._client.patch(
            NODES,
            machine.node.name,
            state,
            subresource="status",
            patch_type=PatchType.STRATEGIC,  # leaves the conditions of others
        )
        self._pod_simulator.handle_machine_restart(machine)

    async def _apply_gpu_change(
        self, machine: SimulatedMachine, node: SimulatedNode, lost: Sequence[int]
    ) -> None:
        if machine.made is None:
            state = self._build_gpu_patch(machine)
            await self._client.patch(NODES, machine.node.name, state, subresource="status")
        for gpu in lost:
            await self._crash_pods(machine, node, FALLEN_OFF_BUS, gpu)

    def _build_gpu_patch(self, machine: SimulatedMachine) -> JsonObject:
        """What the node publishes of its GPUs; nothing where a node agent does."""
        if machine.made is not None:
            return {"status": {}}
        return objects.build_gpu_patch(
            machine.node, machine.faults.lost_gpus, machine.mig_instances()
        )

    async def _apply_xid(
        self, machine: SimulatedMachine, node: SimulatedNode, code: int, gpu: int
    ) -> None:
        await self._crash_pods(machine, node, code, gpu)
        await self._set_fault(machine, XID_ANNOTATION, None)

    async def _crash_pods(
        self, machine: SimulatedMachine, node: SimulatedNode, code: int, gpu: int
    ) -> None:
        about = ObjectReference.to(NODES, machine.node.name, "", node.metadata.uid)
        message = f"GPU {gpu}: {find_xid(code)}"
        self._events.event(about, "XidError", message, warning=True)
        await self._pod_simulator.crash_pods_using_gpu(machine, gpu, message)
