"""The worker of one pod: observes, decides, acts and reports status whenever something changes.

One task per pod. What takes time (starting containers with their hooks, stopping them, probes) runs
in tasks of its own that only wake the worker, so that the worker never blocks.
"""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any

from kilonova.kube import KubeError, NotFound
from kilonova.kube.observability.structured_logging import get_logger
from kilonova.local.processnode.cri.api import ContainerState
from kilonova.local.processnode.kubelet.containers.actions import compute_pod_actions
from kilonova.local.processnode.kubelet.containers.pod_containers import PodContainers
from kilonova.local.processnode.kubelet.containers.starter import ContainerStarter
from kilonova.local.processnode.kubelet.containers.termination import (
    GracePeriod,
    resolve_grace_seconds,
)
from kilonova.local.processnode.kubelet.context import HOST_ADDRESS, KubeletContext
from kilonova.local.processnode.kubelet.machine.devices import InsufficientGpus, pod_devices
from kilonova.local.processnode.kubelet.objects import PODS, Metadata, Pod
from kilonova.local.processnode.kubelet.pods.workspace import PodWorkspace, find_referenced_objects
from kilonova.local.processnode.kubelet.status.pod import (
    ObservedPod,
    PodFailure,
    build_pod_status,
    seconds_to_deadline,
)
from kilonova.local.processnode.kubelet.status.writer import PodStatusWriter
from kilonova.local.processnode.kubelet.volumes.manager import VolumeSetUpError

_RETRY_SECONDS = (0.5, 1.0, 2.0, 5.0, 10.0)
_REMOUNT_SECONDS = 10.0
_MAX_IDLE_SECONDS = 60.0
"""A laptop may be suspended: the wall clock jumps then, and the event loop's clock does not."""
_log = get_logger(__name__)


class PodWorker:
    """Manages one pod from admission to removal."""

    def __init__(self, context: KubeletContext, pod: Pod, states: Sequence[ContainerState]) -> None:
        self.pod = pod
        self._context = context
        self._workspace = PodWorkspace(context, pod.uid)
        self._wake = asyncio.Event()
        self.stopped = asyncio.Event()
        """Set when none of its processes runs, and none will be started."""
        self.containers = PodContainers(context, pod, self._workspace, states, self._wake.set)
        self._starter = ContainerStarter(context, self._workspace, self.containers)
        self._status_writer = PodStatusWriter(context.client)
        self._prepared = False
        self._volumes_stale = False
        self._last_problem = ""
        self._failure: PodFailure | None = None
        self._ending: asyncio.Task[None] | None = None
        self._grace: GracePeriod | None = None
        self._ended = False
        self._removed_from_api = False
        self._shutting_down = False
        self._deletion_confirmed = False
        self._deleted = False
        self._ended_before_start = False
        """The pod had ended before this kubelet started: there is nothing to report."""

    def update(self, pod: Pod) -> None:
        """The pod has changed."""
        self._accept_update(pod)
        self._wake.set()

    def handle_removal(self) -> None:
        """The pod is no longer in the API: kill its containers without reporting status."""
        self._removed_from_api = True
        self._wake.set()

    def shut_down(self) -> None:
        """Stop its processes but keep the Pod object: the next kubelet starts it again."""
        self._shutting_down = True
        self._wake.set()

    @property
    def grace_seconds_left(self) -> float:
        """How long its processes may still take to end, once they are being stopped."""
        return max(0.0, self._grace.remaining) if self._grace else resolve_grace_seconds(self.pod)

    async def run(self) -> None:
        """Work until the pod is removed, or until cancelled; its processes keep running then."""
        self._ended_before_start = self.pod.is_terminal and not self.containers.is_any_running
        if not self._ended_before_start:
            self._workspace.recover(self.pod)
        self.containers.recover()
        failures = 0
        try:
            while not self._deleted:
                self._wake.clear()
                try:
                    delay = await self._sync_pod()
                    failures = 0
                except Exception as error:
                    delay = _RETRY_SECONDS[min(failures, len(_RETRY_SECONDS) - 1)]
                    failures += 1
                    self._log_failure(error, delay)
                await self._wait_for_change(delay)
        finally:
            self.stopped.set()
            self._starter.cancel()
            self.containers.detach()
            if self._ending is not None:
                self._ending.cancel()
            self._context.object_cache.unregister_pod(self.pod.uid)

    async def _sync_pod(self) -> float | None:
        """One sync of the pod; returns the seconds until the next one that is due by the clock."""
        delay: float | None = None
        if self._must_end():
            self._start_termination()
        else:
            delay = await self._run_pod()
        if self._ending is not None and self._ending.done():
            problem = self._ending.exception()
            if problem is not None:
                self._ending = None  # containers that could not be killed are killed again
                raise problem
            self.stopped.set()
            self._ended = (
                not self._shutting_down or self.pod.is_terminating or self._removed_from_api
            )
        if not self._removed_from_api and not self._ended_before_start:
            await self._write_status()
        if self._ended:
            await self._clean_up()
        return delay

    def _must_end(self) -> bool:
        if self._failure is None:
            left = seconds_to_deadline(self.pod, self._context.clock.now())
            if left is not None and left <= 0 and not self.pod.is_terminal:
                message = "Pod was active on the node longer than the specified deadline"
                self._failure = PodFailure("DeadlineExceeded", message)
                self._context.record_event(self.pod, "DeadlineExceeded", message)
        return (
            self._ending is not None
            or self._removed_from_api
            or self._shutting_down
            or self.pod.is_terminating
            or self.pod.is_terminal
            or self._failure is not None
        )

    def _start_termination(self) -> None:
        if self._ending is None:
            self._grace = GracePeriod(resolve_grace_seconds(self.pod))
            self._ending = self._create_task(self._terminate_containers(self._grace))
        elif self._grace is not None and self.pod.is_terminating:
            self._grace.shorten(resolve_grace_seconds(self.pod))

    async def _terminate_containers(self, grace: GracePeriod) -> None:
        await self._starter.stop_starting()
        await self.containers.terminate_all(grace)

    async def _run_pod(self) -> float | None:
        pod = self.pod
        if not self._admit_devices():
            self._start_termination()
            return None
        if not self._prepared or self._volumes_stale:
            await self._prepare_workspace()
        if not self._prepared:
            return _REMOUNT_SECONDS
        containers = self.containers
        desired = compute_pod_actions(
            pod, containers.histories, containers.probe_health(), containers.restarting
        )
        for stop in desired.stop:
            containers.stop_container(stop)
        if desired.is_finished:
            self._start_termination()
            return None
        backoff = self._starter.start_due(desired.start)
        delays = (
            backoff,
            seconds_to_deadline(pod, self._context.clock.now()),
            self._workspace.volumes.seconds_to_refresh(),
        )
        if self._workspace.volumes.seconds_to_refresh() == 0:
            self._volumes_stale = True
        due = [each for each in delays if each is not None]
        return min(*due, _MAX_IDLE_SECONDS) if due else None

    def _admit_devices(self) -> bool:
        """Whether the node has the GPUs that the pod requests: binding did not check it."""
        devices = self._context.devices
        allocated = devices.allocations_of(self.pod.uid)
        if allocated or self.containers.has_run:
            return True
        capacity = devices.capacity
        for resource, requested in pod_devices(self.pod).items():
            if requested > capacity.get(resource, 0):
                problem = InsufficientGpus(resource, requested, 0, capacity.get(resource, 0))
                reason = f"OutOf{resource}"
                self._failure = PodFailure(reason, f"Pod was rejected: {problem}")
                self._context.record_event(self.pod, reason, str(problem), warning=True)
                return False
        return True

    async def _prepare_workspace(self) -> None:
        pod = self.pod
        self._volumes_stale = False
        await self._context.object_cache.register_pod(
            pod.uid, find_referenced_objects(pod), self._handle_source_change
        )
        try:
            await self._workspace.prepare(pod)
        except VolumeSetUpError as error:
            self._record_problem("FailedMount", str(error))
            return
        if not self._workspace.address:
            text = "no free pod address on this node"
            self._record_problem("FailedCreatePodSandBox", text)
            return
        self._last_problem = ""
        self._prepared = True

    def _handle_source_change(self) -> None:
        self._volumes_stale = True
        self._starter.clear_retry_delays()
        self._wake.set()

    def _record_problem(self, reason: str, text: str) -> None:
        if text != self._last_problem:
            self._last_problem = text
            self._context.record_event(self.pod, reason, text, warning=True)

    async def _write_status(self) -> None:
        observed = ObservedPod(
            self.containers.observe(),
            self._workspace.address or self.pod.status.pod_ip,
            HOST_ADDRESS,
            is_prepared=self._prepared,
            is_ending=self._ending is not None,
            has_ended=self._ended,
            failure=self._failure,
        )
        status = build_pod_status(self.pod, observed, self._context.clock.now())
        written = await self._status_writer.write(self.pod, status)
        if written is not None and written.uid == self.pod.uid:
            self._accept_update(written)

    def _accept_update(self, pod: Pod) -> None:
        old, new = self.pod.metadata, pod.metadata
        if int(new.resource_version) < int(old.resource_version):
            return
        # The response to a status write may contain a newer pod. The watch then brings no change,
        # and files of the downward API would not be updated.
        if _volume_visible_fields(old) != _volume_visible_fields(new):
            self._volumes_stale = True
            self._wake.set()
        self.pod = pod
        self.containers.update_pod(pod)

    async def _clean_up(self) -> None:
        """All processes have ended and the status is reported: release the pod's resources."""
        await self.containers.remove_all()
        self._workspace.release_resources()
        if self._removed_from_api:
            self._workspace.remove()
            self._deleted = True
        elif self.pod.is_terminating and not self._deletion_confirmed:
            metadata = self.pod.metadata
            try:
                await self._context.client.delete(
                    PODS,
                    metadata.name,
                    metadata.namespace,
                    grace_period_seconds=0,
                    uid=metadata.uid,
                )
            except NotFound:
                self.handle_removal()
            self._deletion_confirmed = True

    async def _wait_for_change(self, delay: float | None) -> None:
        try:
            async with asyncio.timeout(delay):
                await self._wake.wait()
        except TimeoutError:
            return

    def _create_task(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        task.add_done_callback(lambda _: self._wake.set())
        return task

    def _log_failure(self, error: Exception, delay: float) -> None:
        pod = f"{self.pod.metadata.namespace}/{self.pod.metadata.name}"
        log = _log.warning if isinstance(error, KubeError | OSError) else _log.exception
        log("pod sync failed, will retry", pod=pod, error=str(error), delay=delay)


def _volume_visible_fields(metadata: Metadata) -> tuple[object, ...]:
    """The mutable fields that volumes may show; changes of the spec are covered by generation."""
    return metadata.labels, metadata.annotations, metadata.generation
