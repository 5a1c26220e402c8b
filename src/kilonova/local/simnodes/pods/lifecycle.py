"""The lifecycle of pods on simulated nodes: pulled, started, ready, crashed, terminated.

A change of a pod only schedules its next step. The step checks the pod again when it is due, so a
pod that was deleted, replaced or restarted meanwhile is left alone. While its machine is out
nothing happens to a pod; when the machine is back its containers have to start again.

No process runs in a container, so an init container completes immediately; only the startup init
container of `grove.io`, which waits for other cliques, completes when the pod's annotation releases
it.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from random import Random

from kilonova.api.nodes.simulated_faults import ANNOTATION_PREFIX
from kilonova.api.times import parse_time
from kilonova.kube import Client, Reflector
from kilonova.kube.events import EventRecorder
from kilonova.kube.observability.structured_logging import get_logger
from kilonova.local.objects.core import PODS, Pod
from kilonova.local.objects.indexes import add_node_index
from kilonova.local.simnodes.gpus.claims import (
    ClaimedDevices,
    read_claimed_devices,
    uses_claims,
)
from kilonova.local.simnodes.machine import NO_CLAIMS, SimulatedMachine
from kilonova.local.simnodes.pods.container_restarts import ContainerRestarts
from kilonova.local.simnodes.pods.context import PodContext
from kilonova.local.simnodes.pods.image_pulls import ImagePulls
from kilonova.local.simnodes.pods.state import (
    assigned_gpus,
    full_name,
    has_new_ephemeral_containers,
    is_backing_off,
    is_initializing,
    is_job_pod,
    is_startup_released,
    is_waiting_for_startup,
    reported_gpus,
    requested_gpus,
    requested_instances,
    restart_count,
    started_at,
)
from kilonova.local.simnodes.pods.status import (
    build_creating_status,
    build_ephemeral_status,
    build_initializing_status,
    build_rejected_status,
    build_terminated_status,
)
from kilonova.local.simnodes.timer_queue import TimerQueue

RUN_SECONDS_ANNOTATION = ANNOTATION_PREFIX + "run-seconds"
EXIT_CODE_ANNOTATION = ANNOTATION_PREFIX + "exit-code"

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
        self._context = PodContext(client, pods, timers, random, now, events)
        self._machines = machines
        self._restarts = ContainerRestarts(self._context)
        self._pulls = ImagePulls(self._context, self._start_pod)
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
                on_failure(full_name(pod) if pod is not None else "", error)

        unsubscribe = self._context.pods.store.add_event_handler(changed)
        for pod in list(self._context.pods.store.objects()):
            changed(None, pod)
        return unsubscribe

    def pods_on(self, machine: SimulatedMachine) -> list[Pod]:
        """The pods that are bound to a machine."""
        return self._context.pods_on(machine)

    def add_machine(self, machine: SimulatedMachine) -> None:
        """Simulate the pods that were bound to a machine before it was ready."""
        for pod in self._context.pods_on(machine):
            self._handle_pod_change(None, pod)

    def retry_waiting_pods(self, machine: SimulatedMachine) -> None:
        """Continue pods that waited for devices, which the agent may have made by now."""
        for pod in self._context.pods_on(machine):
            if pod.metadata.uid in machine.waiting_pods:
                self._context.schedule(0.0, self._start_pod, machine, pod)

    def handle_machine_restart(self, machine: SimulatedMachine) -> None:
        """Containers that were running have ended; pods that were waiting continue."""
        for pod in self._context.pods_on(machine):
            if pod.metadata.deletion_timestamp:
                self._context.schedule(0.0, self._delete_pod, machine, pod)
            elif pod.status.phase == "Pending":
                self._schedule_start(machine, pod)
            elif pod.status.phase == "Running":
                self._context.schedule(
                    machine.start.draw(self._context.random),
                    self._restart_after_node_loss,
                    machine,
                    pod,
                )

    async def crash_pods_using_gpu(self, machine: SimulatedMachine, gpu: int, message: str) -> None:
        """Crash the containers of the pods that use a GPU, or a part of it."""
        holders = machine.pods_using_gpu(gpu)
        for pod in self._context.pods_on(machine):
            running = pod.status.phase == "Running" and not is_backing_off(pod)
            if pod.metadata.uid in holders and running:
                await self._restarts.exit_containers(machine, pod, 1, message)

    def _handle_pod_change(self, old: Pod | None, new: Pod | None) -> None:
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self._handle_pod_deletion(old)
            old = None
        machine = self._machines.get(new.spec.node_name) if new is not None else None
        if new is None or machine is None:
            return
        self._restore_allocations(machine, new)
        if has_new_ephemeral_containers(new) and new.status.phase == "Running":
            self._context.schedule(
                machine.start.draw(self._context.random),
                self._start_ephemeral_containers,
                machine,
                new,
            )
        if new.metadata.deletion_timestamp:
            if old is None or not old.metadata.deletion_timestamp:
                grace = new.metadata.deletion_grace_period_seconds or 0
                delay = min(machine.stop.draw(self._context.random), grace)
                self._context.schedule(delay, self._delete_pod, machine, new)
        elif new.status.phase == "Pending":
            if old is None or not old.spec.node_name:
                self._schedule_start(machine, new)
            elif is_startup_released(new) and not is_startup_released(old):
                self._context.schedule(
                    machine.start.draw(self._context.random), self._start_pod, machine, new
                )
        elif new.status.phase == "Running" and not (
            old is not None
            and old.status.phase == "Running"
            and restart_count(old) == restart_count(new)
        ):
            if is_backing_off(new):
                self._context.schedule(0.0, self._restarts.restart_containers, machine, new)
            else:
                self._schedule_end(
                    machine, new, already_run=self._seconds_running(new) if old is None else 0.0
                )

    def _handle_pod_deletion(self, pod: Pod) -> None:
        self._restarts.forget(pod.metadata.uid)
        machine = self._machines.get(pod.spec.node_name)
        if machine is not None:
            machine.release(pod.metadata.uid)

    def _restore_allocations(self, machine: SimulatedMachine, pod: Pod) -> None:
        if pod.status.phase in ("Succeeded", "Failed"):
            machine.release(pod.metadata.uid)
        elif pod.status.pod_ip:
            machine.reserve_address(pod.metadata.uid, pod.status.pod_ip)
            has = assigned_gpus(pod) or reported_gpus(pod)
            machine.restore_gpus(pod.metadata.uid, requested_gpus(pod), has)
            if _prepares_claims(machine, pod) and not machine.has_claims(pod.metadata.uid):
                self._context.schedule(0.0, self._restore_claims, machine, pod)

    async def _restore_claims(self, machine: SimulatedMachine, pod: Pod) -> None:
        claimed = await read_claimed_devices(self._context.client, machine.node, pod)
        if claimed:
            machine.restore_gpus(pod.metadata.uid, 0, (), claimed)

    def _seconds_running(self, pod: Pod) -> float:
        """How long a pod that another process started has been running."""
        started = started_at(pod)
        return (self._context.now() - parse_time(started)).total_seconds() if started else 0.0

    def _schedule_start(self, machine: SimulatedMachine, pod: Pod) -> None:
        delay = machine.pull.draw(self._context.random) + machine.start.draw(self._context.random)
        self._context.schedule(delay, self._start_pod, machine, pod)

    def _schedule_end(self, machine: SimulatedMachine, pod: Pod, *, already_run: float) -> None:
        runs = pod.metadata.annotations.get(
            RUN_SECONDS_ANNOTATION, _DEFAULT_JOB_SECONDS if is_job_pod(pod) else ""
        )
        if runs:
            try:
                self._context.schedule(
                    max(0.0, float(runs) - already_run), self._finish_pod, machine, pod
                )
            except ValueError:
                _log.warning(
                    "invalid annotation value",
                    annotation=RUN_SECONDS_ANNOTATION,
                    value=runs,
                    pod=pod.metadata.name,
                )
        if machine.mean_pod_lifetime:
            lifetime = self._context.random.expovariate(1 / machine.mean_pod_lifetime)
            self._context.schedule(lifetime, self._crash_pod, machine, pod)

    async def _delete_pod(self, _machine: SimulatedMachine, pod: Pod) -> None:
        metadata = pod.metadata
        await self._context.client.delete(
            PODS, metadata.name, metadata.namespace, grace_period_seconds=0, uid=metadata.uid
        )

    async def _start_pod(self, machine: SimulatedMachine, pod: Pod) -> None:
        if pod.metadata.deletion_timestamp or pod.status.phase != "Pending":
            return
        failures = machine.node.group.failures
        if self._pulls.is_failing(machine, pod):
            await self._pulls.report_failure(machine, pod)
            return
        claimed: ClaimedDevices | None = NO_CLAIMS
        if _prepares_claims(machine, pod):
            claimed = await read_claimed_devices(self._context.client, machine.node, pod)
            if claimed is None:  # as a kubelet: it tries again until the claims are ready
                self._context.schedule(_CLAIM_RETRY_SECONDS, self._start_pod, machine, pod)
                return
        if not machine.admit(
            pod.metadata.uid,
            requested_gpus(pod),
            assigned_gpus(pod),
            claimed,
            requested_instances(pod),
        ):
            status = build_rejected_status(pod, machine.healthy_gpu_count, self._context.now())
        elif missing := machine.missing_devices(assigned_gpus(pod), claimed):
            if machine.waiting_pods.get(pod.metadata.uid) == missing:
                return
            machine.waiting_pods[pod.metadata.uid] = missing
            number = machine.node.number
            status = build_creating_status(pod, number, missing, self._context.now())
        elif is_waiting_for_startup(pod):
            if is_initializing(pod):
                return
            address = machine.allocate_address(pod.metadata.uid)
            number = machine.node.number
            status = build_initializing_status(pod, number, address, self._context.now())
        elif self._context.random.random() < failures.pod_start:
            message = "simulated start failure (failures.podStart)"
            status = build_terminated_status(pod, 128, self._context.now(), "StartError", message)
        else:
            status = self._context.build_running_status(machine, pod, None)
        await self._context.set_status(pod, status)

    async def _start_ephemeral_containers(self, _machine: SimulatedMachine, pod: Pod) -> None:
        runs = pod.status.phase == "Running" and not pod.metadata.deletion_timestamp
        if runs and has_new_ephemeral_containers(pod):
            await self._context.set_status(pod, build_ephemeral_status(pod, self._context.now()))

    async def _finish_pod(self, machine: SimulatedMachine, pod: Pod) -> None:
        text = pod.metadata.annotations.get(EXIT_CODE_ANNOTATION, "0")
        code = int(text) if text.isdecimal() and len(text) <= _MAX_CODE_DIGITS else 1
        await self._end_if_running(machine, pod, code, "")

    async def _crash_pod(self, machine: SimulatedMachine, pod: Pod) -> None:
        await self._end_if_running(machine, pod, 1, "simulated container crash (failures.podMTBF)")

    async def _restart_after_node_loss(self, machine: SimulatedMachine, pod: Pod) -> None:
        self._restarts.forget(pod.metadata.uid)
        if is_backing_off(pod):
            await self._restarts.restart_containers(machine, pod)
        else:
            await self._end_if_running(machine, pod, _NODE_LOST_EXIT_CODE, "simulated node outage")

    async def _end_if_running(
        self, machine: SimulatedMachine, pod: Pod, code: int, message: str
    ) -> None:
        if pod.metadata.deletion_timestamp or is_backing_off(pod):
            return
        if pod.status.phase == "Running":
            await self._restarts.exit_containers(machine, pod, code, message)


def _prepares_claims(machine: SimulatedMachine, pod: Pod) -> bool:
    return machine.has_dra_driver and uses_claims(pod)
