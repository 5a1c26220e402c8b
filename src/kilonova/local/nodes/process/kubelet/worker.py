"""The life of one pod on this node: look, decide, act, tell, and again when something changes.

One task for each pod. What takes time (starting containers with their hooks, ending them, probes)
runs in tasks of its own that only wake the worker, so that it always answers at once.
"""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any

from kilonova.kube import KubeError, NotFound
from kilonova.kube.logging import get_logger
from kilonova.local.nodes.process.kubelet.containers import Containers
from kilonova.local.nodes.process.kubelet.devices import NotEnough, gpus_wanted
from kilonova.local.nodes.process.kubelet.ending import Grace, grace_seconds
from kilonova.local.nodes.process.kubelet.launching import PodPlace, followed
from kilonova.local.nodes.process.kubelet.means import HOST_ADDRESS, Means
from kilonova.local.nodes.process.kubelet.pods import PODS, Metadata, Pod
from kilonova.local.nodes.process.kubelet.podstatus import (
    Situation,
    Verdict,
    deadline_left,
    pod_status,
)
from kilonova.local.nodes.process.kubelet.sequence import plan
from kilonova.local.nodes.process.kubelet.starting import Starts
from kilonova.local.nodes.process.kubelet.telling import StatusWriter
from kilonova.local.nodes.process.kubelet.volumes import SetUpFailed
from kilonova.local.nodes.process.runtime import ContainerState

_RETRY_SECONDS = (0.5, 1.0, 2.0, 5.0, 10.0)
_REMOUNT_SECONDS = 10.0
_LONGEST_REST = 60.0
"""A laptop may sleep, which the clock on the wall knows afterwards, and the event loop does not."""
_log = get_logger(__name__)


class PodWorker:
    """Takes one pod through its life."""

    def __init__(self, means: Means, pod: Pod, states: Sequence[ContainerState]) -> None:
        self.pod = pod
        self._means = means
        self._place = PodPlace(means, pod.uid)
        self._wake = asyncio.Event()
        self.quiet = asyncio.Event()
        """Set when none of its processes runs, and none will be started."""
        self.containers = Containers(means, pod, self._place, states, self._wake.set)
        self._starts = Starts(means, self._place, self.containers)
        self._writer = StatusWriter(means.client)
        self._prepared = False
        self._stale = False
        self._problem = ""
        self._verdict: Verdict | None = None
        self._ending: asyncio.Task[None] | None = None
        self._grace: Grace | None = None
        self._ended = False
        self._gone = False
        self._shutting_down = False
        self._confirmed = False
        self._deleted = False
        self._is_history = False
        """It had ended before this kubelet started: there is nothing to tell."""

    def update(self, pod: Pod) -> None:
        """The pod has changed."""
        self._take(pod)
        self._wake.set()

    def leave(self) -> None:
        """The pod is no longer in the API: end it, and tell nobody."""
        self._gone = True
        self._wake.set()

    def shut_down(self) -> None:
        """End its processes, but not the pod: the next kubelet starts it again."""
        self._shutting_down = True
        self._wake.set()

    @property
    def seconds_left(self) -> float:
        """How long its processes may still take to end, once they were asked to."""
        return max(0.0, self._grace.remaining) if self._grace else grace_seconds(self.pod)

    async def run(self) -> None:
        """Work until the pod is gone, or until cancelled; its processes go on then."""
        self._is_history = self.pod.has_ended and not self.containers.any_runs
        if not self._is_history:
            self._place.recover(self.pod)
        self.containers.recover()
        failures = 0
        try:
            while not self._deleted:
                self._wake.clear()
                try:
                    delay = await self._step()
                    failures = 0
                except Exception as error:
                    delay = _RETRY_SECONDS[min(failures, len(_RETRY_SECONDS) - 1)]
                    failures += 1
                    self._report(error, delay)
                await self._rest(delay)
        finally:
            self.quiet.set()
            self._starts.abandon()
            self.containers.abandon()
            if self._ending is not None:
                self._ending.cancel()
            self._means.objects.release(self.pod.uid)

    async def _step(self) -> float | None:
        """Do what is to be done now; seconds until there is something to do by the clock."""
        delay: float | None = None
        if self._must_end():
            self._end()
        else:
            delay = await self._go_on()
        if self._ending is not None and self._ending.done():
            problem = self._ending.exception()
            if problem is not None:
                self._ending = None  # what could not be ended is ended again
                raise problem
            self.quiet.set()
            self._ended = not self._shutting_down or self.pod.is_leaving or self._gone
        if not self._gone and not self._is_history:
            await self._tell()
        if self._ended:
            await self._clear_up()
        return delay

    def _must_end(self) -> bool:
        if self._verdict is None:
            left = deadline_left(self.pod, self._means.clock.now())
            if left is not None and left <= 0 and not self.pod.has_ended:
                message = "Pod was active on the node longer than the specified deadline"
                self._verdict = Verdict("DeadlineExceeded", message)
                self._means.tell(self.pod, "DeadlineExceeded", message)
        return (
            self._ending is not None
            or self._gone
            or self._shutting_down
            or self.pod.is_leaving
            or self.pod.has_ended
            or self._verdict is not None
        )

    def _end(self) -> None:
        if self._ending is None:
            self._grace = Grace(grace_seconds(self.pod))
            self._ending = self._task(self._end_all(self._grace))
        elif self._grace is not None and self.pod.is_leaving:
            self._grace.shorten(grace_seconds(self.pod))

    async def _end_all(self, grace: Grace) -> None:
        await self._starts.halt()
        await self.containers.end(grace)

    async def _go_on(self) -> float | None:
        pod = self.pod
        if not self._fits():
            self._end()
            return None
        if not self._prepared or self._stale:
            await self._prepare()
        if not self._prepared:
            return _REMOUNT_SECONDS
        containers = self.containers
        wanted = plan(pod, containers.histories, containers.health(), containers.restarting)
        for stop in wanted.stop:
            containers.stop(stop)
        if wanted.over:
            self._end()
            return None
        backoff = self._starts.begin(wanted.start)
        delays = (
            backoff,
            deadline_left(pod, self._means.clock.now()),
            self._place.volumes.seconds_to_refresh(),
        )
        if self._place.volumes.seconds_to_refresh() == 0:
            self._stale = True
        due = [each for each in delays if each is not None]
        return min(*due, _LONGEST_REST) if due else None

    def _fits(self) -> bool:
        """Whether the node has the GPUs that the pod wants; it was not asked when it was bound."""
        devices = self._means.devices
        held = devices.held_by(self.pod.uid)
        wanted = max(
            sum(gpus_wanted(each) for each in self.pod.spec.containers),
            max((gpus_wanted(each) for each in self.pod.spec.init_containers), default=0),
        )
        if not wanted or held or self.containers.have_run:
            return True
        if wanted > devices.count:
            problem = NotEnough(wanted, 0, devices.count)
            reason = "OutOfnvidia.com/gpu"
            self._verdict = Verdict(reason, f"Pod was rejected: {problem}")
            self._means.tell(self.pod, reason, str(problem), warning=True)
            return False
        return True

    async def _prepare(self) -> None:
        pod = self.pod
        self._stale = False
        await self._means.objects.hold(pod.uid, followed(pod), self._sources_changed)
        try:
            await self._place.prepare(pod)
        except SetUpFailed as error:
            self._tell_problem("FailedMount", str(error))
            return
        if not self._place.address:
            text = "no address is left for another pod on this node"
            self._tell_problem("FailedCreatePodSandBox", text)
            return
        self._problem = ""
        self._prepared = True

    def _sources_changed(self) -> None:
        self._stale = True
        self._starts.retry()
        self._wake.set()

    def _tell_problem(self, reason: str, text: str) -> None:
        if text != self._problem:
            self._problem = text
            self._means.tell(self.pod, reason, text, warning=True)

    async def _tell(self) -> None:
        situation = Situation(
            self.containers.seen(),
            self._place.address or self.pod.status.pod_ip,
            HOST_ADDRESS,
            prepared=self._prepared,
            ending=self._ending is not None,
            ended=self._ended,
            verdict=self._verdict,
        )
        status = pod_status(self.pod, situation, self._means.clock.now())
        written = await self._writer.write(self.pod, status)
        if written is not None and written.uid == self.pod.uid:
            self._take(written)

    def _take(self, pod: Pod) -> None:
        old, new = self.pod.metadata, pod.metadata
        if int(new.resource_version) < int(old.resource_version):
            return
        # A change may be seen first in the answer to a write of the status: then the watch has
        # nothing new to say, and files of the downward API would stay as they were.
        if _shown(old) != _shown(new):
            self._stale = True
            self._wake.set()
        self.pod = pod
        self.containers.take(pod)

    async def _clear_up(self) -> None:
        """All its processes have ended, and that is told: nothing of it is needed any more."""
        await self.containers.forget()
        self._place.vacate()
        if self._gone:
            self._place.remove()
            self._deleted = True
        elif self.pod.is_leaving and not self._confirmed:
            metadata = self.pod.metadata
            try:
                await self._means.client.delete(
                    PODS, metadata.name, metadata.namespace, grace=0, uid=metadata.uid
                )
            except NotFound:
                self.leave()
            self._confirmed = True

    async def _rest(self, delay: float | None) -> None:
        try:
            async with asyncio.timeout(delay):
                await self._wake.wait()
        except TimeoutError:
            return

    def _task(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        task.add_done_callback(lambda _: self._wake.set())
        return task

    def _report(self, error: Exception, delay: float) -> None:
        pod = f"{self.pod.metadata.namespace}/{self.pod.metadata.name}"
        tell = _log.warning if isinstance(error, KubeError | OSError) else _log.exception
        tell("could not go on with a pod, will try again", pod=pod, error=str(error), delay=delay)


def _shown(metadata: Metadata) -> tuple[object, ...]:
    """What volumes may show of a pod that can change: its spec is counted by the generation."""
    return metadata.labels, metadata.annotations, metadata.generation
