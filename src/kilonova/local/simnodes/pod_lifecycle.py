"""The lifecycle of pods on simulated nodes: pulled, started, ready, crashed, terminated.

A change of a pod only schedules its next step. The step checks the pod again when it is due, so a
pod that was deleted, replaced or restarted meanwhile is left alone. While its machine is out
nothing happens to a pod; when the machine is back its containers have to start again.

Restarts of containers back off as in a kubelet. The back-off is known to this process only: it is
reset when the process or the machine restarts.

No process runs in a container, so an init container completes immediately; only the startup init
container of `grove.io`, which waits for other cliques, completes when the pod's annotation releases
it.
"""

from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from random import Random

from kilonova.api.json import JsonObject
from kilonova.api.simulated_faults import ANNOTATION_PREFIX
from kilonova.api.times import parse_time
from kilonova.kube import Client, Reflector
from kilonova.kube.events import EventRecorder, ObjectReference
from kilonova.kube.observability.structured_logging import get_logger
from kilonova.local.kubelet_common.container_backoff import (
    INITIAL_DELAY,
    MAX_DELAY,
    ContainerBackoff,
    format_delay,
)
from kilonova.local.objects.core import PODS, ContainerStateTerminated, Pod
from kilonova.local.objects.indexes import BY_NODE, add_node_index
from kilonova.local.simnodes import pod_status
from kilonova.local.simnodes.gpus.claims import (
    ClaimedDevices,
    read_claimed_devices,
    uses_claims,
)
from kilonova.local.simnodes.machine import NO_CLAIMS, SimulatedMachine
from kilonova.local.simnodes.pod_status import restart_count
from kilonova.local.simnodes.timer_queue import TimerQueue

RUN_SECONDS_ANNOTATION = ANNOTATION_PREFIX + "run-seconds"
EXIT_CODE_ANNOTATION = ANNOTATION_PREFIX + "exit-code"
IMAGE_PULL_ANNOTATION = ANNOTATION_PREFIX + "image-pull"

_NODE_LOST_EXIT_CODE = 255
_MAX_CODE_DIGITS = 9
_CLAIM_RETRY_SECONDS = 1.0
_DEFAULT_JOB_SECONDS = "1"
"""The default run time of Job pods, so that Jobs complete."""
_log = get_logger(__name__)


class PodSimulator:
    """Simulates the pods of all machines."""

    def __init__(
        self,
        client: Client,
        pods: Reflector[Pod],
        machines: Mapping[str, SimulatedMachine],
        timers: TimerQueue,
        random: Random,
        now: Callable[[], datetime],
        events: EventRecorder,
    ) -> None:
        self._client = client
        self._pods = pods
        self._machines = machines
        self._timers = timers
        self._random = random
        self._now = now
        self._events = events
        self._backoffs: defaultdict[str, ContainerBackoff] = defaultdict(ContainerBackoff)
        """By the uid of a pod that ended and was restarted."""
        add_node_index(pods.store)

    def start(self, on_failure: Callable[[str, Exception], None]) -> Callable[[], None]:
        """Start to simulate pods; call the result to stop.

        `on_failure` is called with the pod and the error if a handler fails. Other pods go on: an
        error must end neither their nodes nor the shared pod cache.
        """

        def changed(old: Pod | None, new: Pod | None) -> None:
            try:
                self._handle_pod_change(old, new)
            except Exception as error:
                pod = new or old
                on_failure(pod_status.full_name(pod) if pod is not None else "", error)

        unsubscribe = self._pods.store.add_event_handler(changed)
        for pod in list(self._pods.store.objects()):
            changed(None, pod)
        return unsubscribe

    def pods_on(self, machine: SimulatedMachine) -> list[Pod]:
        """The pods that are bound to a machine."""
        return self._pods.store.by_index(BY_NODE, machine.node.name)

    def add_machine(self, machine: SimulatedMachine) -> None:
        """Simulate the pods that were bound to a machine before it was ready."""
        for pod in self.pods_on(machine):
            self._handle_pod_change(None, pod)

    def retry_waiting_pods(self, machine: SimulatedMachine) -> None:
        """Continue pods that waited for devices, which the agent may have made by now."""
        for pod in self.pods_on(machine):
            if pod.metadata.uid in machine.waiting_pods:
                self._schedule(0.0, self._start_pod, machine, pod)

    def handle_machine_restart(self, machine: SimulatedMachine) -> None:
        """Containers that were running have ended; pods that were waiting continue."""
        for pod in self.pods_on(machine):
            if pod.metadata.deletion_timestamp:
                self._schedule(0.0, self._delete_pod, machine, pod)
            elif pod.status.phase == "Pending":
                self._schedule_start(machine, pod)
            elif pod.status.phase == "Running":
                self._schedule(
                    machine.start.draw(self._random), self._restart_after_node_loss, machine, pod
                )

    async def crash_pods_using_gpu(self, machine: SimulatedMachine, gpu: int, message: str) -> None:
        """Crash the containers of the pods that use a GPU, or a part of it."""
        holders = machine.pods_using_gpu(gpu)
        for pod in self.pods_on(machine):
            running = pod.status.phase == "Running" and not pod_status.is_backing_off(pod)
            if pod.metadata.uid in holders and running:
                await self._exit_containers(machine, pod, 1, message)

    def _handle_pod_change(self, old: Pod | None, new: Pod | None) -> None:
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self._handle_pod_deletion(old)
            old = None
        machine = self._machines.get(new.spec.node_name) if new is not None else None
        if new is None or machine is None:
            return
        self._restore_allocations(machine, new)
        if pod_status.has_new_ephemeral_containers(new) and new.status.phase == "Running":
            self._schedule(
                machine.start.draw(self._random), self._start_ephemeral_containers, machine, new
            )
        if new.metadata.deletion_timestamp:
            if old is None or not old.metadata.deletion_timestamp:
                grace = new.metadata.deletion_grace_period_seconds or 0
                delay = min(machine.stop.draw(self._random), grace)
                self._schedule(delay, self._delete_pod, machine, new)
        elif new.status.phase == "Pending":
            if old is None or not old.spec.node_name:
                self._schedule_start(machine, new)
            elif _is_startup_released(new) and not _is_startup_released(old):
                self._schedule(machine.start.draw(self._random), self._start_pod, machine, new)
        elif new.status.phase == "Running" and not (
            old is not None
            and old.status.phase == "Running"
            and restart_count(old) == restart_count(new)
        ):
            if pod_status.is_backing_off(new):
                self._schedule(0.0, self._restart_containers, machine, new)
            else:
                self._schedule_end(
                    machine, new, already_run=self._seconds_running(new) if old is None else 0.0
                )

    def _handle_pod_deletion(self, pod: Pod) -> None:
        self._backoffs.pop(pod.metadata.uid, None)
        machine = self._machines.get(pod.spec.node_name)
        if machine is not None:
            machine.release(pod.metadata.uid)

    def _restore_allocations(self, machine: SimulatedMachine, pod: Pod) -> None:
        if pod.status.phase in ("Succeeded", "Failed"):
            machine.release(pod.metadata.uid)
        elif pod.status.pod_ip:
            machine.reserve_address(pod.metadata.uid, pod.status.pod_ip)
            has = pod_status.assigned_gpus(pod) or pod_status.reported_gpus(pod)
            machine.restore_gpus(pod.metadata.uid, pod_status.requested_gpus(pod), has)
            if _prepares_claims(machine, pod) and not machine.has_claims(pod.metadata.uid):
                self._schedule(0.0, self._restore_claims, machine, pod)

    async def _restore_claims(self, machine: SimulatedMachine, pod: Pod) -> None:
        claimed = await read_claimed_devices(self._client, machine.node, pod)
        if claimed:
            machine.restore_gpus(pod.metadata.uid, 0, (), claimed)

    def _seconds_running(self, pod: Pod) -> float:
        """How long a pod that another process started has been running."""
        started = pod_status.started_at(pod)
        return (self._now() - parse_time(started)).total_seconds() if started else 0.0

    def _schedule_start(self, machine: SimulatedMachine, pod: Pod) -> None:
        delay = machine.pull.draw(self._random) + machine.start.draw(self._random)
        self._schedule(delay, self._start_pod, machine, pod)

    def _schedule_end(self, machine: SimulatedMachine, pod: Pod, *, already_run: float) -> None:
        runs = pod.metadata.annotations.get(
            RUN_SECONDS_ANNOTATION, _DEFAULT_JOB_SECONDS if _is_job_pod(pod) else ""
        )
        if runs:
            try:
                self._schedule(max(0.0, float(runs) - already_run), self._finish_pod, machine, pod)
            except ValueError:
                _log.warning(
                    "invalid annotation value",
                    annotation=RUN_SECONDS_ANNOTATION,
                    value=runs,
                    pod=pod.metadata.name,
                )
        if machine.mean_pod_lifetime:
            lifetime = self._random.expovariate(1 / machine.mean_pod_lifetime)
            self._schedule(lifetime, self._crash_pod, machine, pod)

    def _schedule(
        self,
        delay: float,
        action: Callable[[SimulatedMachine, Pod], Awaitable[None]],
        machine: SimulatedMachine,
        pod: Pod,
    ) -> None:
        """Schedule a step for this very pod, skipped if it has been restarted by then."""
        key = (pod.metadata.namespace, pod.metadata.name)
        uid, count = pod.metadata.uid, restart_count(pod)

        async def due() -> None:
            current = self._pods.store.get(key)
            if current is None or current.metadata.uid != uid or machine.is_out:
                return  # when the machine is back, its pods are scheduled again
            if restart_count(current) == count:
                await action(machine, current)

        self._timers.call_after(delay, due)

    async def _delete_pod(self, _machine: SimulatedMachine, pod: Pod) -> None:
        metadata = pod.metadata
        await self._client.delete(
            PODS, metadata.name, metadata.namespace, grace_period_seconds=0, uid=metadata.uid
        )

    async def _start_pod(self, machine: SimulatedMachine, pod: Pod) -> None:
        if pod.metadata.deletion_timestamp or pod.status.phase != "Pending":
            return
        failures = machine.node.group.failures
        if self._is_pull_failing(machine, pod):
            await self._report_pull_failure(machine, pod, INITIAL_DELAY)
            return
        claimed: ClaimedDevices | None = NO_CLAIMS
        if _prepares_claims(machine, pod):
            claimed = await read_claimed_devices(self._client, machine.node, pod)
            if claimed is None:  # as a kubelet: it tries again until the claims are ready
                self._schedule(_CLAIM_RETRY_SECONDS, self._start_pod, machine, pod)
                return
        if not machine.admit(
            pod.metadata.uid,
            pod_status.requested_gpus(pod),
            pod_status.assigned_gpus(pod),
            claimed,
            pod_status.requested_instances(pod),
        ):
            status = pod_status.build_rejected_status(pod, machine.healthy_gpu_count, self._now())
        elif missing := machine.missing_devices(pod_status.assigned_gpus(pod)):
            if machine.waiting_pods.get(pod.metadata.uid) == missing:
                return
            machine.waiting_pods[pod.metadata.uid] = missing
            number = machine.node.number
            status = pod_status.build_creating_status(pod, number, missing, self._now())
        elif pod_status.is_waiting_for_startup(pod):
            if pod_status.is_initializing(pod):
                return
            address = machine.allocate_address(pod.metadata.uid)
            number = machine.node.number
            status = pod_status.build_initializing_status(pod, number, address, self._now())
        elif self._random.random() < failures.pod_start:
            message = "simulated start failure (failures.podStart)"
            status = pod_status.build_terminated_status(
                pod, 128, self._now(), "StartError", message
            )
        else:
            status = self._build_running_status(machine, pod, None)
        await self._set_status(pod, status)

    async def _start_ephemeral_containers(self, _machine: SimulatedMachine, pod: Pod) -> None:
        runs = pod.status.phase == "Running" and not pod.metadata.deletion_timestamp
        if runs and pod_status.has_new_ephemeral_containers(pod):
            await self._set_status(pod, pod_status.build_ephemeral_status(pod, self._now()))

    def _is_pull_failing(self, machine: SimulatedMachine, pod: Pod) -> bool:
        if (
            pod.metadata.annotations.get(IMAGE_PULL_ANNOTATION) == "error"
            or machine.faults.pull_errors
        ):
            return True
        return self._random.random() < machine.node.group.failures.image_pull

    async def _report_pull_failure(
        self, machine: SimulatedMachine, pod: Pod, seconds: float
    ) -> None:
        image = pod.spec.containers[0].image if pod.spec.containers else ""
        about = _object_reference(pod)
        failed = f'Failed to pull image "{image}": simulated registry does not answer'
        self._events.event(about, "Failed", failed, warning=True)
        status = pod_status.build_image_pull_status(
            pod, machine.node.number, self._now(), "ErrImagePull"
        )
        await self._set_status(pod, status)

        async def say(machine: SimulatedMachine, pod: Pod) -> None:
            waiting = f'Back-off pulling image "{image}"'
            self._events.event(about, "BackOff", waiting)
            reason = "ImagePullBackOff"
            status = pod_status.build_image_pull_status(
                pod, machine.node.number, self._now(), reason
            )
            if pod.status.phase == "Pending" and not pod.metadata.deletion_timestamp:
                await self._set_status(pod, status)

        async def again(machine: SimulatedMachine, pod: Pod) -> None:
            if pod.metadata.deletion_timestamp or pod.status.phase != "Pending":
                return
            if self._is_pull_failing(machine, pod):
                await self._report_pull_failure(machine, pod, min(2 * seconds, MAX_DELAY))
            else:
                await self._start_pod(machine, pod)

        self._schedule(seconds / 10, say, machine, pod)
        self._schedule(seconds, again, machine, pod)

    async def _finish_pod(self, machine: SimulatedMachine, pod: Pod) -> None:
        text = pod.metadata.annotations.get(EXIT_CODE_ANNOTATION, "0")
        code = int(text) if text.isdecimal() and len(text) <= _MAX_CODE_DIGITS else 1
        await self._end_if_running(machine, pod, code, "")

    async def _crash_pod(self, machine: SimulatedMachine, pod: Pod) -> None:
        await self._end_if_running(machine, pod, 1, "simulated container crash (failures.podMTBF)")

    async def _restart_after_node_loss(self, machine: SimulatedMachine, pod: Pod) -> None:
        self._backoffs.pop(pod.metadata.uid, None)
        if pod_status.is_backing_off(pod):
            await self._restart_containers(machine, pod)
        else:
            await self._end_if_running(machine, pod, _NODE_LOST_EXIT_CODE, "simulated node outage")

    async def _end_if_running(
        self, machine: SimulatedMachine, pod: Pod, code: int, message: str
    ) -> None:
        if pod.metadata.deletion_timestamp or pod_status.is_backing_off(pod):
            return
        if pod.status.phase == "Running":
            await self._exit_containers(machine, pod, code, message)

    async def _exit_containers(
        self, machine: SimulatedMachine, pod: Pod, code: int, message: str
    ) -> None:
        """The containers end; they are restarted if the pod's restart policy says so."""
        now, policy = self._now(), pod.spec.restart_policy
        devices = self._pod_devices(machine, pod)
        if policy != "Always" and not (policy == "OnFailure" and code):
            status = pod_status.build_terminated_status(pod, code, now, "", message, devices)
            await self._set_status(pod, status)
            return
        end, backoff = (
            pod_status.build_termination(pod, code, now),
            self._backoffs[pod.metadata.uid],
        )
        wait = backoff.remaining(now.timestamp(), now.timestamp())
        if devices.lost:  # a restart without them would fail: they may come back meanwhile
            wait = wait or INITIAL_DELAY
        if not wait:
            await self._start_containers_again(machine, pod, end)
            return
        about, pod_name = _object_reference(pod), pod_status.full_name(pod)
        for each in pod.spec.containers:
            text = f"Back-off restarting failed container {each.name} in pod {pod_name}"
            self._events.event(about, "BackOff", text, warning=True)
        delay = format_delay(backoff.delay or INITIAL_DELAY)
        await self._set_status(pod, pod_status.build_back_off_status(pod, end, now, delay, devices))
        self._schedule(wait, self._restart_containers, machine, pod)

    async def _restart_containers(self, machine: SimulatedMachine, pod: Pod) -> None:
        """The back-off of a pod's containers is over."""
        end = pod_status.last_termination(pod)
        waits = pod_status.is_backing_off(pod) and not pod.metadata.deletion_timestamp
        if waits and end is not None:
            await self._start_containers_again(machine, pod, end)

    async def _start_containers_again(
        self, machine: SimulatedMachine, pod: Pod, end: ContainerStateTerminated
    ) -> None:
        devices = self._pod_devices(machine, pod)
        if devices.lost:
            await self._fail_for_lost_devices(machine, pod, end, devices)
            return
        now = self._now().timestamp()
        finished = parse_time(end.finished_at).timestamp() if end.finished_at else now
        await self._set_status(pod, self._build_running_status(machine, pod, end))
        self._backoffs[pod.metadata.uid].record_restart(finished, now)

    async def _fail_for_lost_devices(
        self,
        machine: SimulatedMachine,
        pod: Pod,
        end: ContainerStateTerminated,
        devices: pod_status.PodDevices,
    ) -> None:
        """The devices of a pod are lost: it fails, so that its owner replaces it elsewhere."""
        message = (
            f"{pod_status.describe_rejection(pod, machine.healthy_gpu_count)}; {devices.problem}"
        )
        self._events.event(
            _object_reference(pod), pod_status.UNEXPECTED_ADMISSION_ERROR, message, warning=True
        )
        now, code = self._now(), end.exit_code or 1
        status = pod_status.build_terminated_status(
            pod, code, now, pod_status.UNEXPECTED_ADMISSION_ERROR, message, devices
        )
        await self._set_status(pod, status)

    def _pod_devices(self, machine: SimulatedMachine, pod: Pod) -> pod_status.PodDevices:
        uid = pod.metadata.uid
        lost = machine.lost_gpus_of(uid)
        return pod_status.PodDevices(machine.gpus_of(uid), lost) if lost else pod_status.NO_DEVICES

    def _build_running_status(
        self, machine: SimulatedMachine, pod: Pod, end: ContainerStateTerminated | None
    ) -> JsonObject:
        address = machine.allocate_address(pod.metadata.uid)
        return pod_status.build_running_status(pod, machine.node.number, address, self._now(), end)

    async def _set_status(self, pod: Pod, status: JsonObject) -> None:
        body = {"metadata": {"uid": pod.metadata.uid}, "status": status}
        await self._client.patch(
            PODS, pod.metadata.name, body, pod.metadata.namespace, subresource="status"
        )


def _object_reference(pod: Pod) -> ObjectReference:
    metadata = pod.metadata
    return ObjectReference.to(PODS, metadata.name, metadata.namespace, metadata.uid)


def _is_startup_released(pod: Pod) -> bool:
    """Whether its startup container, as reported in its status, may complete."""
    return pod_status.is_initializing(pod) and not pod_status.is_waiting_for_startup(pod)


def _is_job_pod(pod: Pod) -> bool:
    return any(each.kind == "Job" for each in pod.metadata.owner_references)


def _prepares_claims(machine: SimulatedMachine, pod: Pod) -> bool:
    return machine.has_dra_driver and uses_claims(pod)
