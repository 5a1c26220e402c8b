"""Images that cannot be pulled: the containers wait, and the pull is tried again with back-off."""

from collections.abc import Awaitable, Callable

from kilonova.api.nodes.simulated_faults import ANNOTATION_PREFIX
from kilonova.local.kubelet_common.container_backoff import (
    INITIAL_DELAY,
    MAX_DELAY,
)
from kilonova.local.objects.core import Pod
from kilonova.local.simnodes.machine import SimulatedMachine
from kilonova.local.simnodes.pods.context import PodContext, object_reference
from kilonova.local.simnodes.pods.status import build_image_pull_status

IMAGE_PULL_ANNOTATION = ANNOTATION_PREFIX + "image-pull"


class ImagePulls:
    """Pulls of images that fail. `start_pod` is called when one succeeds."""

    def __init__(
        self, context: PodContext, start_pod: Callable[[SimulatedMachine, Pod], Awaitable[None]]
    ) -> None:
        self._context = context
        self._start_pod = start_pod

    def is_failing(self, machine: SimulatedMachine, pod: Pod) -> bool:
        """Whether an attempt to pull the images of a pod fails now."""
        if (
            pod.metadata.annotations.get(IMAGE_PULL_ANNOTATION) == "error"
            or machine.faults.pull_errors
        ):
            return True
        return self._context.random.random() < machine.node.group.failures.image_pull

    async def report_failure(
        self, machine: SimulatedMachine, pod: Pod, seconds: float = INITIAL_DELAY
    ) -> None:
        """Report that the images cannot be pulled, and try again after a back-off."""
        image = pod.spec.containers[0].image if pod.spec.containers else ""
        about = object_reference(pod)
        failed = f'Failed to pull image "{image}": simulated registry does not answer'
        self._context.events.event(about, "Failed", failed, warning=True)
        status = build_image_pull_status(
            pod, machine.node.number, self._context.now(), "ErrImagePull"
        )
        await self._context.set_status(pod, status)

        async def report_back_off(machine: SimulatedMachine, pod: Pod) -> None:
            waiting = f'Back-off pulling image "{image}"'
            self._context.events.event(about, "BackOff", waiting)
            reason = "ImagePullBackOff"
            status = build_image_pull_status(pod, machine.node.number, self._context.now(), reason)
            if pod.status.phase == "Pending" and not pod.metadata.deletion_timestamp:
                await self._context.set_status(pod, status)

        async def retry(machine: SimulatedMachine, pod: Pod) -> None:
            if pod.metadata.deletion_timestamp or pod.status.phase != "Pending":
                return
            if self.is_failing(machine, pod):
                await self.report_failure(machine, pod, min(2 * seconds, MAX_DELAY))
            else:
                await self._start_pod(machine, pod)

        self._context.schedule(seconds / 10, report_back_off, machine, pod)
        self._context.schedule(seconds, retry, machine, pod)
