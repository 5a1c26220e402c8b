"""The lives of pods on simulated nodes: pulled, started, ready, crashed, gone.

A change of a pod only plans what comes next. An act looks at the pod again when its time has
come, so a pod that was deleted, replaced or restarted meanwhile is left alone. While its machine
is out nothing happens to a pod; when the machine is back its containers have to start again.

Containers that keep ending are started again later and later, as by a kubelet: how much later is
known to this process alone, and the next one begins anew, as does a machine that is back.

Nothing runs in a container, so an init container has ended as soon as it began; only that of
`grove.io` which waits for other cliques does wait, until the pod's annotation releases it.
"""

from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from random import Random

from kilonova.api.json import JsonObject
from kilonova.api.times import parse_time
from kilonova.kube import Client, Reflector
from kilonova.kube.events import Recorder, Reference
from kilonova.kube.logging import get_logger
from kilonova.local.controllers.indexes import BY_NODE, index_by_node
from kilonova.local.controllers.objects import PODS, Pod, Terminated
from kilonova.local.nodes import podstatus
from kilonova.local.nodes.backoff import FIRST_DELAY, LONGEST_DELAY, Backoff, spoken_delay
from kilonova.local.nodes.faults import PREFIX
from kilonova.local.nodes.machine import Machine
from kilonova.local.nodes.podstatus import restarts
from kilonova.local.nodes.timetable import Timetable

RUN_SECONDS = PREFIX + "run-seconds"
EXIT_CODE = PREFIX + "exit-code"
IMAGE_PULL = PREFIX + "image-pull"

_LOST_WITH_THE_MACHINE = 255
_LONGEST_CODE = 9
_JOB_SECONDS = "1"
"""How long the pod of a Job runs that does not say: whoever waits for it should see it end."""
_log = get_logger(__name__)


class PodLives:
    """Plays the pods of all machines."""

    def __init__(
        self,
        client: Client,
        pods: Reflector[Pod],
        machines: Mapping[str, Machine],
        timetable: Timetable,
        random: Random,
        now: Callable[[], datetime],
        events: Recorder,
    ) -> None:
        self._client = client
        self._pods = pods
        self._machines = machines
        self._timetable = timetable
        self._random = random
        self._now = now
        self._events = events
        self._backoffs: defaultdict[str, Backoff] = defaultdict(Backoff)
        """By the uid of a pod that ended and was started again."""
        index_by_node(pods.store)

    def begin(self, fail: Callable[[str, Exception], None]) -> Callable[[], None]:
        """Play from now on; call what is returned to stop.

        `fail` hears of what goes wrong with which pod. The others go on: neither their nodes nor
        the cache of pods, which is others' too, must end with it.
        """

        def changed(old: Pod | None, new: Pod | None) -> None:
            try:
                self._changed(old, new)
            except Exception as error:
                pod = new or old
                fail(podstatus.full_name(pod) if pod is not None else "", error)

        unsubscribe = self._pods.store.subscribe(changed)
        for pod in list(self._pods.store.objects()):
            changed(None, pod)
        return unsubscribe

    def on(self, machine: Machine) -> list[Pod]:
        """The pods that are bound to a machine."""
        return self._pods.store.find(BY_NODE, machine.shape.name)

    def machine_is_back(self, machine: Machine) -> None:
        """What ran on it has ended; what waited goes on."""
        for pod in self.on(machine):
            if pod.metadata.deletion_timestamp:
                self._plan(0.0, self._remove, machine, pod)
            elif pod.status.phase == "Pending":
                self._plan_start(machine, pod)
            elif pod.status.phase == "Running":
                self._plan(machine.start.draw(self._random), self._lost, machine, pod)

    async def crash_users_of(self, machine: Machine, gpu: int, message: str) -> None:
        """End the containers of the pods that have a GPU, or some of it."""
        holders = machine.holders(gpu)
        for pod in self.on(machine):
            running = pod.status.phase == "Running" and not podstatus.is_backing_off(pod)
            if pod.metadata.uid in holders and running:
                await self._exit(machine, pod, 1, message)

    def _changed(self, old: Pod | None, new: Pod | None) -> None:
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self._gone(old)
            old = None
        machine = self._machines.get(new.spec.node_name) if new is not None else None
        if new is None or machine is None:
            return
        self._note_holdings(machine, new)
        if podstatus.has_new_ephemeral(new) and new.status.phase == "Running":
            self._plan(machine.start.draw(self._random), self._start_ephemeral, machine, new)
        if new.metadata.deletion_timestamp:
            if old is None or not old.metadata.deletion_timestamp:
                grace = new.metadata.deletion_grace_period_seconds or 0
                delay = min(machine.stop.draw(self._random), grace)
                self._plan(delay, self._remove, machine, new)
        elif new.status.phase == "Pending":
            if old is None or not old.spec.node_name:
                self._plan_start(machine, new)
            elif _goes_on(new) and not _goes_on(old):
                self._plan(machine.start.draw(self._random), self._start, machine, new)
        elif new.status.phase == "Running" and not (
            old is not None and old.status.phase == "Running" and restarts(old) == restarts(new)
        ):
            if podstatus.is_backing_off(new):
                self._plan(0.0, self._restart, machine, new)
            else:
                self._plan_end(machine, new, ran=self._ran(new) if old is None else 0.0)

    def _gone(self, pod: Pod) -> None:
        self._backoffs.pop(pod.metadata.uid, None)
        machine = self._machines.get(pod.spec.node_name)
        if machine is not None:
            machine.release(pod.metadata.uid)

    def _note_holdings(self, machine: Machine, pod: Pod) -> None:
        if pod.status.phase in ("Succeeded", "Failed"):
            machine.release(pod.metadata.uid)
        elif pod.status.pod_ip:
            machine.keep_address(pod.metadata.uid, pod.status.pod_ip)
            has = podstatus.given_gpus(pod) or podstatus.reported_gpus(pod)
            machine.keep_gpus(pod.metadata.uid, podstatus.gpus(pod), has)

    def _ran(self, pod: Pod) -> float:
        """How long a pod that another process started has been running."""
        started = podstatus.started_at(pod)
        return (self._now() - parse_time(started)).total_seconds() if started else 0.0

    def _plan_start(self, machine: Machine, pod: Pod) -> None:
        delay = machine.pull.draw(self._random) + machine.start.draw(self._random)
        self._plan(delay, self._start, machine, pod)

    def _plan_end(self, machine: Machine, pod: Pod, *, ran: float) -> None:
        runs = pod.metadata.annotations.get(RUN_SECONDS, _JOB_SECONDS if _is_of_a_job(pod) else "")
        if runs:
            try:
                self._plan(max(0.0, float(runs) - ran), self._finish, machine, pod)
            except ValueError:
                _log.warning(
                    "not a number", annotation=RUN_SECONDS, value=runs, pod=pod.metadata.name
                )
        if machine.pod_life:
            life = self._random.expovariate(1 / machine.pod_life)
            self._plan(life, self._crash, machine, pod)

    def _plan(
        self,
        after: float,
        act: Callable[[Machine, Pod], Awaitable[None]],
        machine: Machine,
        pod: Pod,
    ) -> None:
        """Do something to this very pod, unless it has been restarted by then."""
        key = (pod.metadata.namespace, pod.metadata.name)
        uid, count = pod.metadata.uid, restarts(pod)

        async def due() -> None:
            current = self._pods.store.get(key)
            if current is None or current.metadata.uid != uid or machine.out:
                return  # a machine that comes back looks at its pods anew
            if restarts(current) == count:
                await act(machine, current)

        self._timetable.after(after, due)

    async def _remove(self, _machine: Machine, pod: Pod) -> None:
        known = pod.metadata
        await self._client.delete(PODS, known.name, known.namespace, grace=0, uid=known.uid)

    async def _start(self, machine: Machine, pod: Pod) -> None:
        if pod.metadata.deletion_timestamp or pod.status.phase != "Pending":
            return
        failures = machine.shape.group.failures
        if self._pull_fails(machine, pod):
            await self._back_off(machine, pod, FIRST_DELAY)
            return
        if not machine.admit(pod.metadata.uid, podstatus.gpus(pod), podstatus.given_gpus(pod)):
            status = podstatus.refused_status(pod, machine.healthy_gpus, self._now())
        elif podstatus.is_held(pod):
            if podstatus.is_initializing(pod):
                return
            address = machine.address_for(pod.metadata.uid)
            number = machine.shape.number
            status = podstatus.initializing_status(pod, number, address, self._now())
        elif self._random.random() < failures.pod_start:
            message = "the simulated start failed (failures.podStart)"
            status = podstatus.ended_status(pod, 128, self._now(), "StartError", message)
        else:
            status = self._running(machine, pod, None)
        await self._set_status(pod, status)

    async def _start_ephemeral(self, _machine: Machine, pod: Pod) -> None:
        runs = pod.status.phase == "Running" and not pod.metadata.deletion_timestamp
        if runs and podstatus.has_new_ephemeral(pod):
            await self._set_status(pod, podstatus.ephemeral_status(pod, self._now()))

    def _pull_fails(self, machine: Machine, pod: Pod) -> bool:
        if pod.metadata.annotations.get(IMAGE_PULL) == "error" or machine.faults.pull_errors:
            return True
        return self._random.random() < machine.shape.group.failures.image_pull

    async def _back_off(self, machine: Machine, pod: Pod, seconds: float) -> None:
        image = pod.spec.containers[0].image if pod.spec.containers else ""
        about = _reference(pod)
        failed = f'Failed to pull image "{image}": simulated registry does not answer'
        self._events.event(about, "Failed", failed, warning=True)
        status = podstatus.pulling_status(pod, machine.shape.number, self._now(), "ErrImagePull")
        await self._set_status(pod, status)

        async def say(machine: Machine, pod: Pod) -> None:
            waiting = f'Back-off pulling image "{image}"'
            self._events.event(about, "BackOff", waiting)
            reason = "ImagePullBackOff"
            status = podstatus.pulling_status(pod, machine.shape.number, self._now(), reason)
            if pod.status.phase == "Pending" and not pod.metadata.deletion_timestamp:
                await self._set_status(pod, status)

        async def again(machine: Machine, pod: Pod) -> None:
            if pod.metadata.deletion_timestamp or pod.status.phase != "Pending":
                return
            if self._pull_fails(machine, pod):
                await self._back_off(machine, pod, min(2 * seconds, LONGEST_DELAY))
            else:
                await self._start(machine, pod)

        self._plan(seconds / 10, say, machine, pod)
        self._plan(seconds, again, machine, pod)

    async def _finish(self, machine: Machine, pod: Pod) -> None:
        text = pod.metadata.annotations.get(EXIT_CODE, "0")
        code = int(text) if text.isdecimal() and len(text) <= _LONGEST_CODE else 1
        await self._end(machine, pod, code, "")

    async def _crash(self, machine: Machine, pod: Pod) -> None:
        await self._end(machine, pod, 1, "the simulated container crashed (failures.podLife)")

    async def _lost(self, machine: Machine, pod: Pod) -> None:
        self._backoffs.pop(pod.metadata.uid, None)
        if podstatus.is_backing_off(pod):
            await self._restart(machine, pod)
        else:
            await self._end(machine, pod, _LOST_WITH_THE_MACHINE, "the simulated node was out")

    async def _end(self, machine: Machine, pod: Pod, code: int, message: str) -> None:
        if pod.metadata.deletion_timestamp or podstatus.is_backing_off(pod):
            return
        if pod.status.phase == "Running":
            await self._exit(machine, pod, code, message)

    async def _exit(self, machine: Machine, pod: Pod, code: int, message: str) -> None:
        """The containers end; they are started again where the pod's policy says so."""
        now, policy = self._now(), pod.spec.restart_policy
        devices = self._devices(machine, pod)
        if policy != "Always" and not (policy == "OnFailure" and code):
            status = podstatus.ended_status(pod, code, now, "", message, devices)
            await self._set_status(pod, status)
            return
        end, backoff = podstatus.end_of(pod, code, now), self._backoffs[pod.metadata.uid]
        wait = backoff.remaining(now.timestamp(), now.timestamp())
        if devices.lost:  # a start without them would fail: they may come back meanwhile
            wait = wait or FIRST_DELAY
        if not wait:
            await self._start_again(machine, pod, end)
            return
        about, place = _reference(pod), podstatus.full_name(pod)
        for each in pod.spec.containers:
            text = f"Back-off restarting failed container {each.name} in pod {place}"
            self._events.event(about, "BackOff", text, warning=True)
        delay = spoken_delay(backoff.delay or FIRST_DELAY)
        await self._set_status(pod, podstatus.backing_off_status(pod, end, now, delay, devices))
        self._plan(wait, self._restart, machine, pod)

    async def _restart(self, machine: Machine, pod: Pod) -> None:
        """The containers of a pod have waited for long enough."""
        end = podstatus.last_end(pod)
        waits = podstatus.is_backing_off(pod) and not pod.metadata.deletion_timestamp
        if waits and end is not None:
            await self._start_again(machine, pod, end)

    async def _start_again(self, machine: Machine, pod: Pod, end: Terminated) -> None:
        devices = self._devices(machine, pod)
        if devices.lost:
            await self._refuse(machine, pod, end, devices)
            return
        now = self._now().timestamp()
        finished = parse_time(end.finished_at).timestamp() if end.finished_at else now
        await self._set_status(pod, self._running(machine, pod, end))
        self._backoffs[pod.metadata.uid].count(finished, now)

    async def _refuse(
        self, machine: Machine, pod: Pod, end: Terminated, devices: podstatus.Devices
    ) -> None:
        """The devices of a pod are lost: it fails, so that its owner replaces it elsewhere."""
        message = f"{podstatus.refusal(pod, machine.healthy_gpus)}; {devices.problem}"
        self._events.event(_reference(pod), podstatus.REFUSED, message, warning=True)
        now, code = self._now(), end.exit_code or 1
        status = podstatus.ended_status(pod, code, now, podstatus.REFUSED, message, devices)
        await self._set_status(pod, status)

    def _devices(self, machine: Machine, pod: Pod) -> podstatus.Devices:
        uid = pod.metadata.uid
        lost = machine.lost_gpus_of(uid)
        return podstatus.Devices(machine.gpus_of(uid), lost) if lost else podstatus.NO_DEVICES

    def _running(self, machine: Machine, pod: Pod, end: Terminated | None) -> JsonObject:
        address = machine.address_for(pod.metadata.uid)
        return podstatus.running_status(pod, machine.shape.number, address, self._now(), end)

    async def _set_status(self, pod: Pod, status: JsonObject) -> None:
        body = {"metadata": {"uid": pod.metadata.uid}, "status": status}
        await self._client.patch(
            PODS, pod.metadata.name, body, pod.metadata.namespace, subresource="status"
        )


def _reference(pod: Pod) -> Reference:
    known = pod.metadata
    return Reference.to(PODS, known.name, known.namespace, known.uid)


def _goes_on(pod: Pod) -> bool:
    """Whether its startup container, of which its status tells, need not wait any longer."""
    return podstatus.is_initializing(pod) and not podstatus.is_held(pod)


def _is_of_a_job(pod: Pod) -> bool:
    return any(each.kind == "Job" for each in pod.metadata.owner_references)
