"""Simulated nodes: they register, stay alive, and take pods through their lives.

One task runs what is due; changes of pods only put something on the list of what is due. An
act looks at the pod again when its time has come, so a pod that was deleted, replaced or
restarted meanwhile is left alone.
"""

import asyncio
import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from itertools import count
from random import Random

from kilonova.api.json import JsonObject
from kilonova.kube import Client, Conflict, KubeError, NotFound, Reflector, Resource
from kilonova.kube.identity import Key
from kilonova.kube.logging import get_logger
from kilonova.local.nodes import objects
from kilonova.local.nodes.fleet import Fleet, shapes
from kilonova.local.nodes.heartbeats import Heartbeats, RequestedHeartbeats
from kilonova.local.nodes.machine import Machine
from kilonova.local.nodes.objects import SimPod
from kilonova.local.nodes.registration import NODES, Registration
from kilonova.local.times import parse_time

PODS = Resource("", "v1", "pods", "Pod", True, SimPod)

RUN_SECONDS = "sim.kilonova.dev/run-seconds"
EXIT_CODE = "sim.kilonova.dev/exit-code"

_AT_ONCE = 64
_RETRY_SECONDS = 1.0
_log = get_logger(__name__)


class Act(Enum):
    """What may be due for a pod or a node."""

    START = "start"
    FINISH = "finish"
    CRASH = "crash"
    REMOVE = "remove"
    NODE_OUT = "node out"
    NODE_BACK = "node back"


@dataclass(order=True, slots=True)
class _Due:
    time: float
    number: int
    act: Act = field(compare=False)
    machine: Machine = field(compare=False)
    key: Key = field(compare=False, default=("", ""))
    uid: str = field(compare=False, default="")
    restarts: int = field(compare=False, default=0)


class SimulatedNodes:
    """Plays a fleet. `now` gives the time of day; delays run on the event loop's clock.

    `alone` says that no other process plays nodes on this cluster: then those that the fleet
    does not have are left from another time, and are taken away.
    """

    name = "simulated nodes"

    def __init__(
        self,
        client: Client,
        fleet: Fleet,
        now: Callable[[], datetime],
        pods: Reflector[SimPod],
        *,
        alone: bool = False,
        heartbeats: Heartbeats | None = None,
    ) -> None:
        self._client = client
        self._now = now
        self._pods = pods
        self._alone = alone
        self._random = Random(fleet.seed)  # noqa: S311 (a simulation)
        self._machines = {shape.name: Machine.of(shape) for shape in shapes(fleet)}
        self._registration = Registration(
            client, now, fleet.heartbeat_seconds, heartbeats or RequestedHeartbeats(client)
        )
        self._due: list[_Due] = []
        self._numbers = count()
        self._wake = asyncio.Event()
        self._registered = asyncio.Event()
        self._slots = asyncio.Semaphore(_AT_ONCE)

    @property
    def names(self) -> list[str]:
        return list(self._machines)

    async def wait_registered(self) -> None:
        """Until all nodes of the fleet are in the API."""
        await self._registered.wait()

    async def run(self) -> None:
        """Play until cancelled."""
        machines = list(self._machines.values())
        if self._alone:
            await self._registration.retire_others(self._machines)
        await self._registration.register(machines)
        self._registered.set()
        unsubscribe = self._pods.store.subscribe(self._pod_changed)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._registration.keep_alive(machines))
                group.create_task(self._perform(group))
                for pod in list(self._pods.store.objects()):
                    self._pod_changed(None, pod)
                for machine in machines:
                    self._plan_outage(machine)
        finally:
            unsubscribe()

    def _pod_changed(self, old: SimPod | None, new: SimPod | None) -> None:
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self._pod_gone(old)
            old = None
        machine = self._machines.get(new.spec.node_name) if new is not None else None
        if new is None or machine is None:
            return
        self._note_address(machine, new)
        if new.metadata.deletion_timestamp:
            if old is None or not old.metadata.deletion_timestamp:
                grace = new.metadata.deletion_grace_period_seconds or 0
                self._plan(min(machine.stop.draw(self._random), grace), Act.REMOVE, machine, new)
        elif new.status.phase == "Pending":
            if old is None or not old.spec.node_name:
                self._plan(machine.start.draw(self._random), Act.START, machine, new)
        elif new.status.phase == "Running" and not (
            old is not None and old.status.phase == "Running" and old.restarts == new.restarts
        ):
            self._plan_end(machine, new, ran=self._ran(new) if old is None else 0.0)

    def _pod_gone(self, pod: SimPod) -> None:
        machine = self._machines.get(pod.spec.node_name)
        if machine is not None:
            machine.free_address(pod.metadata.uid)

    def _note_address(self, machine: Machine, pod: SimPod) -> None:
        if pod.status.phase in ("Succeeded", "Failed"):
            machine.free_address(pod.metadata.uid)
        elif pod.status.pod_ip:
            machine.keep_address(pod.metadata.uid, pod.status.pod_ip)

    def _ran(self, pod: SimPod) -> float:
        """How long a pod that another process started has been running."""
        started = pod.started_at
        return (self._now() - parse_time(started)).total_seconds() if started else 0.0

    def _plan_end(self, machine: Machine, pod: SimPod, *, ran: float) -> None:
        runs = pod.metadata.annotations.get(RUN_SECONDS)
        if runs is not None:
            try:
                self._plan(max(0.0, float(runs) - ran), Act.FINISH, machine, pod)
            except ValueError:
                _log.warning(
                    "not a number", annotation=RUN_SECONDS, value=runs, pod=pod.metadata.name
                )
        if machine.pod_life:
            self._plan(self._random.expovariate(1 / machine.pod_life), Act.CRASH, machine, pod)

    def _plan_outage(self, machine: Machine) -> None:
        if machine.node_life:
            self._plan(self._random.expovariate(1 / machine.node_life), Act.NODE_OUT, machine, None)

    def _plan(self, after: float, act: Act, machine: Machine, pod: SimPod | None) -> None:
        due = _Due(asyncio.get_running_loop().time() + after, next(self._numbers), act, machine)
        if pod is not None:
            due.key = (pod.metadata.namespace, pod.metadata.name)
            due.uid, due.restarts = pod.metadata.uid, pod.restarts
        heapq.heappush(self._due, due)
        self._wake.set()

    async def _perform(self, group: asyncio.TaskGroup) -> None:
        loop = asyncio.get_running_loop()
        while True:
            self._wake.clear()
            while self._due and self._due[0].time <= loop.time():
                due = heapq.heappop(self._due)
                await self._slots.acquire()
                group.create_task(self._act_once(due))
            wait = self._due[0].time - loop.time() if self._due else None
            try:
                async with asyncio.timeout(wait):
                    await self._wake.wait()
            except TimeoutError:
                continue

    async def _act_once(self, due: _Due) -> None:
        try:
            await self._act(due)
        except (NotFound, Conflict):
            return
        except KubeError as error:
            _log.warning("will try again", act=due.act.name, error=str(error))
            due.time = asyncio.get_running_loop().time() + _RETRY_SECONDS
            heapq.heappush(self._due, due)
            self._wake.set()
        finally:
            self._slots.release()

    async def _act(self, due: _Due) -> None:
        machine = due.machine
        if due.act in (Act.NODE_OUT, Act.NODE_BACK):
            await self._switch(machine, out=due.act is Act.NODE_OUT)
            return
        pod = self._pods.store.get(due.key)
        if pod is None or pod.metadata.uid != due.uid:
            return
        if machine.out:
            self._plan(machine.outage, due.act, machine, pod)
            return
        if due.act is Act.REMOVE:
            await self._client.delete(
                PODS, pod.metadata.name, pod.metadata.namespace, grace=0, uid=due.uid
            )
        elif pod.metadata.deletion_timestamp:
            return
        elif due.act is Act.START:
            if pod.status.phase == "Pending":
                await self._start(machine, pod)
        elif pod.status.phase == "Running" and pod.restarts == due.restarts:
            if due.act is Act.CRASH:
                message = "the simulated container crashed (failures.podLife)"
                await self._exit(machine, pod, 1, message)
            else:
                text = pod.metadata.annotations.get(EXIT_CODE, "0")
                await self._exit(machine, pod, int(text) if text.isdecimal() else 1, "")

    async def _start(self, machine: Machine, pod: SimPod) -> None:
        if self._random.random() < machine.shape.group.failures.pod_start:
            message = "the simulated start failed (failures.podStart)"
            status = objects.ended_status(pod, 128, self._now(), "StartError", message)
        else:
            status = self._running(machine, pod, None)
        await self._set_status(pod, status)

    async def _exit(self, machine: Machine, pod: SimPod, code: int, message: str) -> None:
        """The containers end; they are started again where the pod's policy says so."""
        policy = pod.spec.restart_policy
        if policy == "Always" or (policy == "OnFailure" and code):
            status = self._running(machine, pod, code)
        else:
            status = objects.ended_status(pod, code, self._now(), "", message)
        await self._set_status(pod, status)

    def _running(self, machine: Machine, pod: SimPod, exit_code: int | None) -> JsonObject:
        address = machine.address_for(pod.metadata.uid)
        return objects.running_status(pod, machine.shape.number, address, self._now(), exit_code)

    async def _set_status(self, pod: SimPod, status: JsonObject) -> None:
        body = {"metadata": {"uid": pod.metadata.uid}, "status": status}
        await self._client.patch(
            PODS, pod.metadata.name, body, pod.metadata.namespace, subresource="status"
        )

    async def _switch(self, machine: Machine, *, out: bool) -> None:
        """A node goes out, or comes back; while it is out, nothing happens on it."""
        machine.out = out
        conditions = {"status": {"conditions": objects.node_conditions(self._now(), ready=not out)}}
        try:
            await self._client.patch(NODES, machine.shape.name, conditions, subresource="status")
        except NotFound:
            _log.info("the node was deleted", node=machine.shape.name)
        if out:
            self._plan(machine.outage, Act.NODE_BACK, machine, None)
        else:
            self._plan_outage(machine)
