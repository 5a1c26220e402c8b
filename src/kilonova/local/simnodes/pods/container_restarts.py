"""Restarts of containers: they back off as in a kubelet.

The back-off is known to this process only: it is reset when the process or the machine restarts.
"""

from collections import defaultdict

from kilonova.api.times import parse_time
from kilonova.local.kubelet_common.container_backoff import (
    INITIAL_DELAY,
    ContainerBackoff,
    format_delay,
)
from kilonova.local.objects.core import ContainerStateTerminated, Pod
from kilonova.local.simnodes.machine import SimulatedMachine
from kilonova.local.simnodes.pods.context import PodContext, object_reference
from kilonova.local.simnodes.pods.state import (
    full_name,
    is_backing_off,
    last_termination,
)
from kilonova.local.simnodes.pods.status import (
    NO_DEVICES,
    UNEXPECTED_ADMISSION_ERROR,
    PodDevices,
    build_back_off_status,
    build_terminated_status,
    build_termination,
    describe_rejection,
)


class ContainerRestarts:
    """Ends and restarts the containers of pods."""

    def __init__(self, context: PodContext) -> None:
        self._context = context
        self._backoffs: defaultdict[str, ContainerBackoff] = defaultdict(ContainerBackoff)
        """By the uid of a pod that ended and was restarted."""

    def forget(self, uid: str) -> None:
        """Forget the back-off of a pod."""
        self._backoffs.pop(uid, None)

    async def exit_containers(
        self, machine: SimulatedMachine, pod: Pod, code: int, message: str
    ) -> None:
        """The containers end; they are restarted if the pod's restart policy requires it."""
        now, policy = self._context.now(), pod.spec.restart_policy
        devices = self._pod_devices(machine, pod)
        if policy != "Always" and not (policy == "OnFailure" and code):
            status = build_terminated_status(pod, code, now, "", message, devices)
            await self._context.set_status(pod, status)
            return
        end, backoff = (
            build_termination(pod, code, now),
            self._backoffs[pod.metadata.uid],
        )
        wait = backoff.remaining(now.timestamp(), now.timestamp())
        if devices.lost:  # a restart without them would fail: they may come back meanwhile
            wait = wait or INITIAL_DELAY
        if not wait:
            await self._start_containers_again(machine, pod, end)
            return
        about, pod_name = object_reference(pod), full_name(pod)
        for each in pod.spec.containers:
            text = f"Back-off restarting failed container {each.name} in pod {pod_name}"
            self._context.events.event(about, "BackOff", text, warning=True)
        delay = format_delay(backoff.delay or INITIAL_DELAY)
        await self._context.set_status(pod, build_back_off_status(pod, end, now, delay, devices))
        self._context.schedule(wait, self.restart_containers, machine, pod)

    async def restart_containers(self, machine: SimulatedMachine, pod: Pod) -> None:
        """The back-off of a pod's containers is over."""
        end = last_termination(pod)
        waits = is_backing_off(pod) and not pod.metadata.deletion_timestamp
        if waits and end is not None:
            await self._start_containers_again(machine, pod, end)

    async def _start_containers_again(
        self, machine: SimulatedMachine, pod: Pod, end: ContainerStateTerminated
    ) -> None:
        devices = self._pod_devices(machine, pod)
        if devices.lost:
            await self._fail_for_lost_devices(machine, pod, end, devices)
            return
        now = self._context.now().timestamp()
        finished = parse_time(end.finished_at).timestamp() if end.finished_at else now
        await self._context.set_status(pod, self._context.build_running_status(machine, pod, end))
        self._backoffs[pod.metadata.uid].record_restart(finished, now)

    async def _fail_for_lost_devices(
        self,
        machine: SimulatedMachine,
        pod: Pod,
        end: ContainerStateTerminated,
        devices: PodDevices,
    ) -> None:
        """The devices of a pod are lost: it fails, so that its owner replaces it elsewhere."""
        message = f"{describe_rejection(pod, machine.healthy_gpu_count)}; {devices.problem}"
        self._context.events.event(
            object_reference(pod), UNEXPECTED_ADMISSION_ERROR, message, warning=True
        )
        now, code = self._context.now(), end.exit_code or 1
        status = build_terminated_status(
            pod, code, now, UNEXPECTED_ADMISSION_ERROR, message, devices
        )
        await self._context.set_status(pod, status)

    def _pod_devices(self, machine: SimulatedMachine, pod: Pod) -> PodDevices:
        uid = pod.metadata.uid
        lost = machine.lost_gpus_of(uid)
        return PodDevices(machine.gpus_of(uid), lost) if lost else NO_DEVICES
