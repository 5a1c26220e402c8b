"""Starts a pod's containers one after the other, each with its postStart hook."""

import asyncio
import math
from collections import defaultdict
from collections.abc import Sequence

from kilonova.local.kubelet_common.container_backoff import ContainerBackoff, format_delay
from kilonova.local.processnode.cri.api import ContainerSpec, ContainerStartError
from kilonova.local.processnode.kubelet.containers.actions import ContainerStop, TerminationCause
from kilonova.local.processnode.kubelet.containers.pod_containers import PodContainers
from kilonova.local.processnode.kubelet.containers.runs import ContainerRun, build_run, build_run_id
from kilonova.local.processnode.kubelet.context import KubeletContext
from kilonova.local.processnode.kubelet.environment.variables import ContainerConfigError
from kilonova.local.processnode.kubelet.machine.devices import InsufficientGpus
from kilonova.local.processnode.kubelet.objects import Container
from kilonova.local.processnode.kubelet.pods.workspace import MissingCommand, PodWorkspace
from kilonova.local.processnode.kubelet.probes.prober import HookError
from kilonova.local.processnode.kubelet.status.container import WaitingState

_START_FAILED_EXIT_CODE = 128
_RETRY_SECONDS = 10.0


class ContainerStarter:
    """Starts the containers of one pod, until `stop_starting`."""

    def __init__(
        self, context: KubeletContext, workspace: PodWorkspace, containers: PodContainers
    ) -> None:
        self._context = context
        self._workspace = workspace
        self._containers = containers
        self._backoffs: defaultdict[str, ContainerBackoff] = defaultdict(ContainerBackoff)
        self._retry_times: dict[str, float] = {}
        self._task: asyncio.Task[None] | None = None
        self._halted = asyncio.Event()

    def start_due(self, names: Sequence[str]) -> float | None:
        """Start the containers whose back-off is over; returns the seconds until the next is
        due."""
        if self._task is not None:
            if not self._task.done():
                return None
            last, self._task = self._task, None
            last.result()  # an error of the runtime is reported, and the start retried later
        due: list[Container] = []
        waits: list[float] = []
        for name in names:
            wait = self._start_delay(name)
            if wait:
                waits.append(wait)
            elif not self._containers.is_stopping(name):
                due.append(self._containers.pod.container(name))
        if due:
            self._task = asyncio.create_task(self._start_all(due))
            self._task.add_done_callback(lambda _: self._containers.on_change())
        return min(waits, default=None)

    def clear_retry_delays(self) -> None:
        """Inputs of the containers have changed: retry those that could not be created."""
        self._retry_times.clear()

    async def stop_starting(self) -> None:
        """Start nothing more; returns when no start is in progress."""
        self._halted.set()
        if self._task is not None:
            await asyncio.wait({self._task})

    def cancel(self) -> None:
        """Cancel without waiting; processes that were started keep running."""
        if self._task is not None:
            self._task.cancel()

    def _start_delay(self, name: str) -> float:
        loop = asyncio.get_running_loop()
        retry_delay = self._retry_times.get(name, 0.0) - loop.time()
        if retry_delay > 0:
            return retry_delay
        run = self._containers.histories[name].latest
        if run is None or run.finished is None:
            return 0.0
        backoff = self._backoffs[name]
        left = backoff.remaining(run.finished, self._context.now())
        if left:
            pod = self._containers.pod
            delay = format_delay(backoff.delay)
            text = f"back-off {delay} restarting failed container={name} pod={pod.full_name}"
            if self._set_waiting(name, "CrashLoopBackOff", text):
                message = f"Back-off restarting failed container {name} in pod {pod.full_name}"
                self._record_event(name, "BackOff", message, warning=True)
        return left

    async def _start_all(self, containers: Sequence[Container]) -> None:
        for container in containers:
            if self._halted.is_set():
                return
            await self._start(container)
            self._containers.on_change()

    async def _start(self, container: Container) -> None:
        name = container.name
        attempt = self._containers.histories[name].next_attempt
        spec = self._build_spec(container, attempt)
        if spec is None:
            return
        self._count_restart(name)
        for reason, text in () if attempt else self._workspace.find_missing_features(container):
            self._record_event(name, reason, text, warning=True)
        self._record_event(name, "Created", "Container created")
        try:
            state = await self._context.runtime.start(spec)
        except ContainerStartError as error:
            failed = ContainerRun(
                attempt,
                build_run_id(self._containers.pod.uid, name, attempt),
                0.0,
                self._context.now(),
                _START_FAILED_EXIT_CODE,
                error.reason,
                error.message,
            )
            await self._containers.record_start(container, failed)
            self._set_waiting(name, "RunContainerError", error.message)
            self._record_event(name, "Failed", f"Error: {error.message}", warning=True)
            return
        run = build_run(state)
        self._record_event(name, "Started", "Container started")
        if container.lifecycle.post_start is not None:
            self._containers.in_hook.add(name)
        try:
            await self._containers.record_start(container, run)
            goes_on = await self._run_post_start(container, run)
        finally:
            self._containers.in_hook.discard(name)
        latest = self._containers.histories[name].latest
        if goes_on and latest is not None and latest.is_running:
            self._containers.start_probes(container)

    def _build_spec(self, container: Container, attempt: int) -> ContainerSpec | None:
        """The container to run; None if it cannot be built, which is then reported."""
        name, loop = container.name, asyncio.get_running_loop()
        try:
            return self._workspace.build_container_spec(self._containers.pod, container, attempt)
        except MissingCommand as error:
            reason, text, wait = "ErrImageNeverPull", str(error), math.inf
        except (ContainerConfigError, InsufficientGpus, OSError) as error:
            reason, text, wait = "CreateContainerConfigError", str(error), _RETRY_SECONDS
        self._retry_times[name] = loop.time() + wait
        if self._set_waiting(name, reason, text):
            self._record_event(name, "Failed", f"Error: {text}", warning=True)
        return None

    async def _run_post_start(self, container: Container, run: ContainerRun) -> bool:
        """Whether the postStart hook succeeded, if the container has one."""
        hook = container.lifecycle.post_start
        if hook is None:
            return True
        name = container.name
        target = self._containers.probe_target(container, run)
        running = asyncio.ensure_future(self._context.prober.run_hook(target, hook))
        halted = asyncio.ensure_future(self._halted.wait())
        try:
            await asyncio.wait({running, halted}, return_when=asyncio.FIRST_COMPLETED)
            if running.done():
                running.result()
            return True
        except HookError:
            # The hook's output could contain a secret.
            self._record_event(name, "FailedPostStartHook", "PostStartHook failed", warning=True)
            stop = ContainerStop(name, "FailedPostStartHook", TerminationCause.OTHER, restart=False)
            self._set_waiting(name, "PostStartHookError", "PostStartHook failed")
            self._containers.stop_container(stop)
            return False
        finally:
            running.cancel()
            halted.cancel()

    def _count_restart(self, name: str) -> None:
        run = self._containers.histories[name].latest
        if run is not None and run.finished is not None:
            self._backoffs[name].record_restart(run.finished, self._context.now())

    def _set_waiting(self, name: str, reason: str, message: str) -> bool:
        """Set the waiting state; returns whether it is a change."""
        waiting = WaitingState(reason, message)
        is_new = self._containers.waiting.get(name) != waiting
        self._containers.waiting[name] = waiting
        return is_new

    def _record_event(
        self, container: str, reason: str, message: str, *, warning: bool = False
    ) -> None:
        self._context.record_event(
            self._containers.pod, reason, message, container=container, warning=warning
        )
