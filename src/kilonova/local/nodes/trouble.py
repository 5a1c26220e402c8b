"""Makes trouble on simulated nodes, by script or by chance, and plays it.

Trouble is made by writing a fault into a Node's annotations (`faults`), and played when the
change of the Node comes back: so a person with kubectl has the same power, and a new process
finds what was wrong.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from random import Random

import msgspec
from msgspec.structs import force_setattr

from kilonova.api.meta import shared
from kilonova.kube import Client, NotFound, Reflector, Resource, TooManyRequests
from kilonova.kube.events import Recorder, Reference
from kilonova.kube.logging import get_logger
from kilonova.local.nodes import objects
from kilonova.local.nodes.faults import (
    FALLEN_OFF_THE_BUS,
    LOST_GPUS,
    OUT,
    PULL_ERRORS,
    XID,
    Faults,
    faults_of,
    lost_gpus,
    lost_gpus_text,
    until_text,
    xid_text,
)
from kilonova.local.nodes.fleet import Fleet, Step, seconds
from kilonova.local.nodes.lives import PodLives
from kilonova.local.nodes.machine import Machine
from kilonova.local.nodes.podstatus import is_of_a_daemon_set
from kilonova.local.nodes.timetable import Timetable
from kilonova.local.nodes.topologies import unhealthy_gpus

_XIDS_OF_PROGRAMS = (13, 31, 43, 94)
_EVICTION_RETRY = 5.0
_log = get_logger(__name__)


class _Metadata(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    uid: str
    resource_version: str
    annotations: dict[str, str] = {}

    def __post_init__(self) -> None:
        kept = {name: shared(value) for name, value in self.annotations.items()}
        force_setattr(self, "annotations", kept)


class SimNode(msgspec.Struct, frozen=True):
    """The fields of a Node in which trouble is told."""

    metadata: _Metadata


NODES = Resource("", "v1", "nodes", "Node", False, SimNode)


class Trouble:
    """All that goes wrong with machines; pods suffer through `PodLives`."""

    def __init__(
        self,
        client: Client,
        nodes: Reflector[SimNode],
        machines: Mapping[str, Machine],
        lives: PodLives,
        timetable: Timetable,
        random: Random,
        now: Callable[[], datetime],
        events: Recorder,
    ) -> None:
        self._client = client
        self._nodes = nodes
        self._machines = machines
        self._lives = lives
        self._timetable = timetable
        self._random = random
        self._now = now
        self._events = events

    def begin(self, fleet: Fleet) -> Callable[[], None]:
        """Play from now on what is wrong, and plan what will be; call the result to stop."""
        unsubscribe = self._nodes.store.subscribe(self._node_changed)
        for node in list(self._nodes.store.objects()):
            machine = self._machines.get(node.metadata.name)
            if machine is not None:  # of what was told before nobody has to suffer again
                machine.faults = Faults(lost_gpus=unhealthy_gpus(node.metadata.annotations))
                self._look(machine, node)
        for machine in self._machines.values():
            self._timetable.after(0.0, lambda machine=machine: self._look_again(machine))
            self._plan_outage(machine)
            self._plan_gpu_failures(machine)
        if fleet.zone_failures.life:
            for zone in sorted({each.shape.zone for each in self._machines.values()}):
                self._plan_zone_outage(zone, fleet)
        for step in fleet.script:
            self._timetable.after(seconds(step.after), lambda step=step: self._perform(step))
        return unsubscribe

    # By chance

    def _plan_outage(self, machine: Machine) -> None:
        if machine.node_life:

            async def fail() -> None:
                await self._set(machine, OUT, until_text(self._in(machine.outage)))
                self._plan_outage(machine)

            self._timetable.after(self._random.expovariate(1 / machine.node_life), fail)

    def _plan_gpu_failures(self, machine: Machine) -> None:
        failures = machine.shape.group.failures
        for life, is_loss in ((failures.gpu_life, True), (failures.xid_every, False)):
            if life and machine.gpu_count:
                self._plan_gpu_failure(machine, seconds(life) / machine.gpu_count, is_loss)

    def _plan_gpu_failure(self, machine: Machine, life: float, is_loss: bool) -> None:
        async def fail() -> None:
            gpu = self._random.randrange(machine.gpu_count)
            if is_loss:
                outage = seconds(machine.shape.group.failures.gpu_outage)
                await self._lose_gpu(machine, gpu, self._in(outage))
            else:
                code = self._random.choice(_XIDS_OF_PROGRAMS)
                await self._set(machine, XID, f"{code}@{gpu}")
            self._plan_gpu_failure(machine, life, is_loss)

        self._timetable.after(self._random.expovariate(1 / life), fail)

    def _plan_zone_outage(self, zone: str, fleet: Fleet) -> None:
        failures = fleet.zone_failures

        async def fail() -> None:
            until = until_text(self._in(seconds(failures.outage)))
            await self._set_all(self._in_zone(zone), OUT, until)
            self._plan_zone_outage(zone, fleet)

        self._timetable.after(self._random.expovariate(1 / seconds(failures.life)), fail)

    # By script

    async def _perform(self, step: Step) -> None:
        until = self._in(seconds(step.lasts)) if step.lasts else None
        name, _, gpu = step.target.partition("/")
        machine = self._machines.get(name)
        match step.act:
            case "zone-out":
                await self._set_all(self._in_zone(step.target), OUT, until_text(until))
            case "node-out" if machine is not None:
                await self._set(machine, OUT, until_text(until))
            case "pull-errors":
                chosen = [machine] if machine is not None else self._in_zone(step.target)
                await self._set_all(chosen, PULL_ERRORS, until_text(until))
            case "gpu-lost" if machine is not None:
                await self._lose_gpu(machine, int(gpu), until)
            case "xid" if machine is not None:
                await self._set(machine, XID, f"{step.code}@{gpu}")
            case "drain" if machine is not None:
                await self._drain(machine, until)
            case _:
                _log.warning("there is nothing of that name", act=step.act, target=step.target)

    async def _drain(self, machine: Machine, until: datetime | None) -> None:
        """Cordon, and evict what can be evicted, as `kubectl drain` does; then back, if asked."""
        name = machine.shape.name
        await self._client.patch(NODES, name, {"spec": {"unschedulable": True}})
        await self._evict_all(machine)
        if until is not None:

            async def uncordon() -> None:
                await self._client.patch(NODES, name, {"spec": {"unschedulable": None}})

            self._timetable.after((until - self._now()).total_seconds(), uncordon)

    async def _evict_all(self, machine: Machine) -> None:
        refused = False
        for pod in self._lives.on(machine):
            if pod.metadata.deletion_timestamp or is_of_a_daemon_set(pod):
                continue
            try:
                await self._client.evict(pod.metadata.name, pod.metadata.namespace)
            except NotFound:
                continue
            except TooManyRequests:
                refused = True
        if refused:
            self._timetable.after(_EVICTION_RETRY, lambda: self._evict_all(machine))

    # What is wrong is written into the Node …

    def _in(self, delay: float) -> datetime:
        return self._now() + timedelta(seconds=delay)

    def _in_zone(self, zone: str) -> list[Machine]:
        return [each for each in self._machines.values() if each.shape.zone == zone]

    async def _set(self, machine: Machine, fault: str, value: str | None) -> None:
        body = {"metadata": {"annotations": {fault: value}}}
        await self._client.patch(NODES, machine.shape.name, body)

    async def _set_all(self, machines: Iterable[Machine], fault: str, value: str) -> None:
        left = iter(list(machines))

        async def work() -> None:
            for machine in left:
                try:
                    await self._set(machine, fault, value)
                except NotFound:
                    continue

        await asyncio.gather(*(work() for _ in range(16)))

    async def _lose_gpu(self, machine: Machine, gpu: int, until: datetime | None) -> None:
        node = self._nodes.store.get(("", machine.shape.name))
        if node is None:
            return
        lost = lost_gpus(node.metadata.annotations.get(LOST_GPUS, ""))
        lost[gpu] = until
        await self._set(machine, LOST_GPUS, lost_gpus_text(lost))

    # … and played when it is read there.

    def _node_changed(self, _old: SimNode | None, new: SimNode | None) -> None:
        machine = self._machines.get(new.metadata.name) if new is not None else None
        if new is not None and machine is not None:
            self._look(machine, new)

    def _look(self, machine: Machine, node: SimNode) -> None:
        now = self._now()
        before, machine.faults = machine.faults, faults_of(node.metadata.annotations, now)
        faults = machine.faults
        if faults.next_end is not None and faults.next_end != before.next_end:
            delay = (faults.next_end - now).total_seconds()
            self._timetable.after(delay, lambda: self._look_again(machine))
        if before.out and not faults.out:
            self._timetable.after(0.0, lambda: self._come_back(machine))
        newly_lost = sorted(faults.lost_gpus - before.lost_gpus)
        if faults.out:
            return
        if newly_lost or before.lost_gpus != faults.lost_gpus:
            self._timetable.after(0.0, lambda: self._change_gpus(machine, node, newly_lost))
        if faults.xid is not None and faults.xid != before.xid:
            code, gpu = faults.xid
            self._timetable.after(0.0, lambda: self._play_xid(machine, node, code, gpu))

    async def _look_again(self, machine: Machine) -> None:
        """A fault may have ended: then its annotation goes."""
        node = self._nodes.store.get(("", machine.shape.name))
        if node is None:
            return
        now, found = self._now(), node.metadata.annotations
        faults = faults_of(found, now)
        body: dict[str, str | None] = {}
        if OUT in found and not faults.out:
            body[OUT] = None
        if PULL_ERRORS in found and not faults.pull_errors:
            body[PULL_ERRORS] = None
        lost = lost_gpus(found.get(LOST_GPUS, ""))
        still = {gpu: until for gpu, until in lost.items() if gpu in faults.lost_gpus}
        if still != lost:
            body[LOST_GPUS] = lost_gpus_text(still) or None
        if body:
            await self._client.patch(NODES, machine.shape.name, {"metadata": {"annotations": body}})
        self._look(machine, node)

    async def _come_back(self, machine: Machine) -> None:
        """The machine starts again: it says that it is ready, and so do its pods in a while."""
        state = objects.gpu_state(machine.shape, machine.faults.lost_gpus)
        state["status"]["conditions"] = objects.node_conditions(self._now())
        await self._client.patch(NODES, machine.shape.name, state, subresource="status")
        self._lives.machine_is_back(machine)

    async def _change_gpus(self, machine: Machine, node: SimNode, lost: Sequence[int]) -> None:
        state = objects.gpu_state(machine.shape, machine.faults.lost_gpus)
        await self._client.patch(NODES, machine.shape.name, state, subresource="status")
        for gpu in lost:
            await self._crash(machine, node, FALLEN_OFF_THE_BUS, gpu)

    async def _play_xid(self, machine: Machine, node: SimNode, code: int, gpu: int) -> None:
        await self._crash(machine, node, code, gpu)
        await self._set(machine, XID, None)

    async def _crash(self, machine: Machine, node: SimNode, code: int, gpu: int) -> None:
        about = Reference.to(NODES, machine.shape.name, "", node.metadata.uid)
        message = xid_text(code, gpu)
        self._events.event(about, "XidError", message, warning=True)
        await self._lives.crash_users_of(machine, gpu, message)
