"""Simulated nodes: they register, stay alive, and take pods through their lives.

One task keeps the heartbeats, one runs what is due; changes of pods only put something on
the list of what is due. An act looks at the pod again when its time has come, so a pod that
was deleted or replaced meanwhile is left alone.
"""

import asyncio
import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from enum import IntEnum
from itertools import count
from random import Random

from kilonova.api.json import JsonObject
from kilonova.kube import AlreadyExists, Client, Conflict, KubeError, NotFound, Reflector, Resource
from kilonova.kube.identity import Key
from kilonova.kube.logging import get_logger
from kilonova.kube.resource import plain
from kilonova.local.nodes import objects
from kilonova.local.nodes.fleet import Delay, Fleet, NodeShape, delay, seconds, shapes
from kilonova.local.nodes.objects import SimPod

NODES = plain("", "v1", "nodes", "Node", False)
LEASES = plain("coordination.k8s.io", "v1", "leases", "Lease", True)
PODS = Resource("", "v1", "pods", "Pod", True, SimPod)

RUN_SECONDS = "sim.kilonova.dev/run-seconds"
EXIT_CODE = "sim.kilonova.dev/exit-code"

_AT_ONCE = 64
_RETRY_SECONDS = 1.0
_log = get_logger(__name__)


class Act(IntEnum):
    """What may be due for a pod or a node."""

    START = 0
    FINISH = 1
    CRASH = 2
    REMOVE = 3
    NODE_OUT = 4
    NODE_BACK = 5


@dataclass(slots=True)
class _Machine:
    shape: NodeShape
    start: Delay
    stop: Delay
    pod_life: float
    node_life: float
    outage: float
    out: bool = False
    pods_seen: int = 0


@dataclass(order=True, slots=True)
class _Due:
    time: float
    number: int
    act: Act = field(compare=False)
    machine: _Machine = field(compare=False)
    key: Key = field(compare=False, default=("", ""))
    uid: str = field(compare=False, default="")


class SimulatedNodes:
    """Plays a fleet. `now` gives the time of day; delays run on the event loop's clock."""

    name = "simulated nodes"

    def __init__(
        self, client: Client, fleet: Fleet, now: Callable[[], datetime], pods: Reflector[SimPod]
    ) -> None:
        self._client = client
        self._now = now
        self._pods = pods
        self._random = Random(fleet.seed)  # noqa: S311 (a simulation)
        self._heartbeat = seconds(fleet.heartbeat)
        self._machines = {shape.name: _machine(shape) for shape in shapes(fleet)}
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
        await self._register_all()
        self._registered.set()
        unsubscribe = self._pods.store.subscribe(self._pod_changed)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._keep_alive())
                group.create_task(self._perform(group))
                for pod in list(self._pods.store.objects()):
                    self._pod_changed(None, pod)
                for machine in self._machines.values():
                    self._plan_outage(machine)
        finally:
            unsubscribe()

    async def _register_all(self) -> None:
        async with asyncio.TaskGroup() as group:
            for machine in self._machines.values():
                group.create_task(self._register(machine))

    async def _register(self, machine: _Machine) -> None:
        async with self._slots:
            shape = machine.shape
            while True:
                try:
                    await self._create_or_refresh(shape)
                    return
                except KubeError as error:
                    _log.warning("could not register", node=shape.name, error=str(error))
                    await asyncio.sleep(_RETRY_SECONDS)

    async def _create_or_refresh(self, shape: NodeShape) -> None:
        try:
            await self._client.create(NODES, objects.node_object(shape, self._now()))
        except AlreadyExists:
            status = {"status": objects.node_status(shape, self._now(), ready=True)}
            await self._client.patch(NODES, shape.name, status, subresource="status")
        lease = objects.lease_object(shape.name, self._now())
        try:
            await self._client.create(LEASES, lease, "kube-node-lease")
        except AlreadyExists:
            await self._renew(shape.name)

    async def _keep_alive(self) -> None:
        """Renew every Lease once per heartbeat, evenly spread over it."""
        machines = list(self._machines.values())
        if not machines:
            return
        loop = asyncio.get_running_loop()
        rounds = max(1, min(len(machines), int(self._heartbeat * 10)))
        pause = self._heartbeat / rounds
        position, due = 0, loop.time()
        while True:
            due += pause
            await asyncio.sleep(max(0.0, due - loop.time()))
            upto = position + -(-len(machines) // rounds)
            for machine in machines[position:upto]:
                if not machine.out:
                    await self._renew_quietly(machine.shape.name)
            position = upto if upto < len(machines) else 0

    async def _renew(self, name: str) -> None:
        renewed = {"spec": objects.lease_object(name, self._now())["spec"]}
        await self._client.patch(LEASES, name, renewed, "kube-node-lease")

    async def _renew_quietly(self, name: str) -> None:
        try:
            await self._renew(name)
        except NotFound:
            await self._create_or_refresh(self._machines[name].shape)
        except KubeError as error:
            _log.warning("could not renew", node=name, error=str(error))

    def _pod_changed(self, old: SimPod | None, new: SimPod | None) -> None:
        if new is None:
            return
        machine = self._machines.get(new.spec.node_name)
        if machine is None:
            return
        known = old is not None and old.metadata.uid == new.metadata.uid
        placed_before = known and old is not None and bool(old.spec.node_name)
        if new.metadata.deletion_timestamp:
            if not (known and old is not None and old.metadata.deletion_timestamp):
                self._plan(machine.stop.draw(self._random), Act.REMOVE, machine, new)
            return
        if new.status.phase == "Pending" and not placed_before:
            self._plan(machine.start.draw(self._random), Act.START, machine, new)
        elif new.status.phase == "Running" and (old is None or old.status.phase != "Running"):
            self._plan_end(machine, new)

    def _plan_end(self, machine: _Machine, pod: SimPod) -> None:
        runs = pod.metadata.annotations.get(RUN_SECONDS)
        if runs is not None:
            try:
                self._plan(max(0.0, float(runs)), Act.FINISH, machine, pod)
            except ValueError:
                _log.warning(
                    "not a number", annotation=RUN_SECONDS, value=runs, pod=pod.metadata.name
                )
        if machine.pod_life:
            self._plan(self._random.expovariate(1 / machine.pod_life), Act.CRASH, machine, pod)

    def _plan_outage(self, machine: _Machine) -> None:
        if machine.node_life:
            self._plan(self._random.expovariate(1 / machine.node_life), Act.NODE_OUT, machine, None)

    def _plan(self, after: float, act: Act, machine: _Machine, pod: SimPod | None) -> None:
        due = asyncio.get_running_loop().time() + after
        key = (pod.metadata.namespace, pod.metadata.name) if pod else ("", "")
        uid = pod.metadata.uid if pod else ""
        heapq.heappush(self._due, _Due(due, next(self._numbers), act, machine, key, uid))
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
        match due.act:
            case Act.START:
                await self._start(machine, pod)
            case Act.FINISH:
                await self._finish(pod)
            case Act.CRASH:
                await self._crash(machine, pod)
            case _:
                await self._client.delete(
                    PODS, pod.metadata.name, pod.metadata.namespace, grace=0, uid=due.uid
                )

    async def _start(self, machine: _Machine, pod: SimPod) -> None:
        if pod.metadata.deletion_timestamp or pod.status.phase != "Pending":
            return
        if self._random.random() < machine.shape.group.failures.pod_start:
            message = "the simulated start failed (failures.podStart)"
            await self._set_status(
                pod, objects.ended_status(pod, 128, self._now(), "StartError", message)
            )
            return
        await self._set_status(pod, self._running(machine, pod, 0))

    async def _finish(self, pod: SimPod) -> None:
        if pod.status.phase != "Running" or pod.metadata.deletion_timestamp:
            return
        text = pod.metadata.annotations.get(EXIT_CODE, "0")
        code = int(text) if text.isdigit() else 1
        await self._set_status(pod, objects.ended_status(pod, code, self._now(), "", ""))

    async def _crash(self, machine: _Machine, pod: SimPod) -> None:
        if pod.status.phase != "Running" or pod.metadata.deletion_timestamp:
            return
        if pod.spec.restart_policy == "Never":
            message = "the simulated container crashed (failures.podLife)"
            await self._set_status(pod, objects.ended_status(pod, 1, self._now(), "", message))
            return
        await self._set_status(pod, self._running(machine, pod, pod.restarts + 1))
        self._plan_end(machine, pod)

    def _running(self, machine: _Machine, pod: SimPod, restarts: int) -> JsonObject:
        address = pod.status.pod_ip
        if not address:
            address = objects.pod_address(machine.shape.number, machine.pods_seen)
            machine.pods_seen += 1
        return objects.running_status(pod, machine.shape.number, address, self._now(), restarts)

    async def _set_status(self, pod: SimPod, status: JsonObject) -> None:
        body = {"metadata": {"uid": pod.metadata.uid}, "status": status}
        await self._client.patch(
            PODS, pod.metadata.name, body, pod.metadata.namespace, subresource="status"
        )

    async def _switch(self, machine: _Machine, *, out: bool) -> None:
        """A node goes out, or comes back; while it is out, nothing happens on it."""
        machine.out = out
        conditions = objects.node_conditions(self._now(), ready=not out)
        await self._client.patch(
            NODES, machine.shape.name, {"status": {"conditions": conditions}}, subresource="status"
        )
        if out:
            self._plan(machine.outage, Act.NODE_BACK, machine, None)
        else:
            self._plan_outage(machine)


def _machine(shape: NodeShape) -> _Machine:
    group, failures = shape.group, shape.group.failures
    return _Machine(
        shape,
        delay(group.start),
        delay(group.stop),
        seconds(failures.pod_life) if failures.pod_life else 0.0,
        seconds(failures.node_life) if failures.node_life else 0.0,
        seconds(failures.outage),
    )
