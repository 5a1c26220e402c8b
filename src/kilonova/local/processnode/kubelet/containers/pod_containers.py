"""The containers of one pod while the kubelet manages it: their runs and probes.

Each run is waited for, and probed meanwhile. Starting is in `starter`, stopping in `termination`;
every change wakes the pod worker.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace

from kilonova.kube.observability.structured_logging import get_logger
from kilonova.local.processnode.cri.api import ContainerState, UnknownContainer
from kilonova.local.processnode.kubelet.containers.actions import (
    DEFAULT_HEALTH,
    ContainerStop,
    ProbeHealth,
    compute_termination_order,
)
from kilonova.local.processnode.kubelet.containers.runs import (
    CONTAINER_STATUS_UNKNOWN,
    ContainerRun,
    RunHistory,
    build_run,
    recover_histories,
)
from kilonova.local.processnode.kubelet.containers.termination import (
    GracePeriod,
    resolve_grace_seconds,
    terminate_container,
)
from kilonova.local.processnode.kubelet.containers.termination_message import (
    MAX_MESSAGE_BYTES,
    read_termination_message,
)
from kilonova.local.processnode.kubelet.context import KubeletContext, log_path
from kilonova.local.processnode.kubelet.objects import Container, Pod, Probe, is_sidecar
from kilonova.local.processnode.kubelet.pods.workspace import PodWorkspace
from kilonova.local.processnode.kubelet.probes.prober import ProbeResult, ProbeTarget
from kilonova.local.processnode.kubelet.probes.worker import ProbeEvent, ProbeWorker
from kilonova.local.processnode.kubelet.status.container import (
    ObservedContainer,
    WaitingState,
    will_restart,
)

_RETRY_SECONDS = 1.0
_log = get_logger(__name__)


class PodContainers:
    """The state of a pod's containers; `on_change` is called when it changes."""

    def __init__(
        self,
        context: KubeletContext,
        pod: Pod,
        workspace: PodWorkspace,
        states: Sequence[ContainerState],
        on_change: Callable[[], None],
    ) -> None:
        self.pod = pod
        self.waiting: dict[str, WaitingState] = {}
        """Why containers that should run do not."""
        self.in_hook: set[str] = set()
        self.restarting: set[str] = set()
        """Containers stopped because of a failed probe: they restart with any exit code."""
        self.histories: dict[str, RunHistory] = recover_histories(pod, states, context.now())
        self.on_change = on_change
        self._context = context
        self._workspace = workspace
        self._known_runs = {state.id for state in states}
        self._probes: dict[str, tuple[ProbeWorker, asyncio.Task[None]]] = {}
        self._run_watches: dict[str, asyncio.Task[None]] = {}
        self._stopping: dict[str, asyncio.Task[None]] = {}

    def recover(self) -> None:
        """Resume containers that have been running since before the kubelet started."""
        for container in self.pod.all_containers:
            history = self.histories[container.name]
            latest, previous = history.latest, history.previous
            if latest is not None and latest.is_running:
                self._watch_run(container, latest)
                self.start_probes(container)
            elif latest is not None and latest.id in self._known_runs:
                latest = self._add_termination_message(container, latest)
            if previous is not None and previous.id in self._known_runs:
                previous = self._add_termination_message(container, previous)
            self.histories[container.name] = RunHistory(latest, previous)

    def update_pod(self, pod: Pod) -> None:
        """The pod has changed; it may have new ephemeral containers."""
        self.pod = pod
        for container in pod.all_containers:
            self.histories.setdefault(container.name, RunHistory())

    @property
    def has_run(self) -> bool:
        """Whether any container has ever run."""
        return any(each.latest is not None for each in self.histories.values())

    @property
    def is_any_running(self) -> bool:
        """Whether any container is running now."""
        return any(each.latest and each.latest.is_running for each in self.histories.values())

    def is_stopping(self, name: str) -> bool:
        return name in self._stopping

    def is_running(self, run: ContainerRun) -> bool:
        """Whether this run is still running, as far as is known."""
        return any(each.latest == run and run.is_running for each in self.histories.values())

    def probe_health(self) -> dict[str, ProbeHealth]:
        """Probe results by container."""
        return {
            name: self._probes[name][0].health if name in self._probes else DEFAULT_HEALTH
            for name in self.histories
        }

    def observe(self) -> dict[str, ObservedContainer]:
        """The current state of each container."""
        health = self.probe_health()
        return {
            name: ObservedContainer(
                history, health[name], self.waiting.get(name), name in self.in_hook
            )
            for name, history in self.histories.items()
        }

    def previous_ended_run(self, name: str) -> ContainerRun | None:
        """The run before the current one, for `logs --previous`."""
        history = self.histories[name]
        latest = history.latest
        if latest is None or latest.is_running or name not in self.waiting:
            return history.previous
        return (
            latest if will_restart(self.pod, self.pod.container(name), latest) else history.previous
        )

    def probe_target(self, container: Container, run: ContainerRun) -> ProbeTarget:
        """A running container, for probes and hooks."""
        return ProbeTarget(container, run.id, self._workspace.address)

    async def record_start(self, container: Container, run: ContainerRun) -> None:
        """Record a new run; of the older runs, one is kept."""
        old = self.histories[container.name].previous
        self.histories[container.name] = self.histories[container.name].with_new_run(run)
        self.waiting.pop(container.name, None)
        self.restarting.discard(container.name)
        if run.is_running:
            self._known_runs.add(run.id)
            self._watch_run(container, run)
        if old is not None:
            await self._remove_run(old.id)
            self._workspace.remove_run_files(container.name, old.attempt)

    def start_probes(self, container: Container) -> None:
        """Start probing the current run."""
        run = self.histories[container.name].latest
        assert run is not None
        target = self.probe_target(container, run)

        async def check(probe: Probe) -> ProbeResult:
            return await self._context.prober.probe_container(target, probe)

        def record_event(event: ProbeEvent) -> None:
            self._context.record_event(
                self.pod, event.reason, event.message, container=container.name, warning=True
            )

        probes = ProbeWorker(
            container,
            run,
            self.pod.reported_status(container.name),
            check,
            now=self._context.now,
            on_change=self.on_change,
            record_event=record_event,
        )
        self.stop_probes(container.name)
        self._probes[container.name] = (probes, asyncio.create_task(probes.run()))

    def stop_probes(self, name: str) -> None:
        """Stop probing a container."""
        found = self._probes.pop(name, None)
        if found is not None:
            found[1].cancel()

    def stop_container(self, stop: ContainerStop) -> None:
        """Stop one container while the pod goes on."""
        container, run = self.pod.container(stop.name), self.histories[stop.name].latest
        if stop.name in self._stopping or run is None or not run.is_running:
            return
        if stop.restart:
            self.restarting.add(stop.name)
        grace = GracePeriod(resolve_grace_seconds(self.pod, container, stop.cause))
        ending = terminate_container(
            self._context,
            self.pod,
            self.probe_target(container, run),
            self._run_watches[run.id],
            grace,
            message=stop.message,
        )
        task = self._stopping[stop.name] = asyncio.create_task(ending)
        task.add_done_callback(lambda _: self._stopping.pop(stop.name, None))

    async def terminate_all(self, grace: GracePeriod) -> None:
        """Stop all running containers, sidecars last."""
        for probes, _ in self._probes.values():
            probes.mark_terminating()
        running = {
            name: history.latest
            for name, history in self.histories.items()
            if history.latest is not None and history.latest.is_running
        }
        awaited = compute_termination_order(self.pod, running)
        async with asyncio.TaskGroup() as group:
            for name, run in running.items():
                after = [self._run_watches[running[each].id] for each in awaited[name]]
                group.create_task(self._terminate(name, run, grace, after))

    async def remove_all(self) -> None:
        """Remove all runs from the runtime."""
        for run in list(self._known_runs):
            await self._remove_run(run)

    def detach(self) -> None:
        """Stop following the containers, which keep running."""
        tasks = [task for _, task in self._probes.values()]
        for task in (*tasks, *self._run_watches.values(), *self._stopping.values()):
            task.cancel()

    async def _terminate(
        self, name: str, run: ContainerRun, grace: GracePeriod, after: Sequence[asyncio.Task[None]]
    ) -> None:
        watch = self._run_watches[run.id]
        if name in self._stopping:
            if not await grace.wait_for(watch):
                await self._context.runtime.kill(run.id)
                await asyncio.wait({watch})
            return
        target = self.probe_target(self.pod.container(name), run)
        await terminate_container(self._context, self.pod, target, watch, grace, after=after)

    def _watch_run(self, container: Container, run: ContainerRun) -> None:
        self._run_watches[run.id] = asyncio.create_task(self._wait_for_exit(container, run))

    async def _wait_for_exit(self, container: Container, run: ContainerRun) -> None:
        ended = self._add_termination_message(container, await self._wait_in_runtime(run))
        name = container.name
        self.histories[name] = self.histories[name].with_update(ended)
        self.stop_probes(name)
        if self.pod.is_init(name) and not is_sidecar(container) and ended.succeeded:
            self._workspace.release_gpus(name)
        del self._run_watches[run.id]
        self.on_change()

    async def _wait_in_runtime(self, run: ContainerRun) -> ContainerRun:
        while True:
            try:
                return build_run(await self._context.runtime.wait(run.id))
            except UnknownContainer:
                message = "The container could not be located when the pod was terminated"
                now = self._context.now()
                return replace(
                    run,
                    finished=now,
                    exit_code=137,
                    reason=CONTAINER_STATUS_UNKNOWN,
                    message=message,
                )
            except Exception as error:
                _log.warning("container wait failed, will retry", error=str(error))
                await asyncio.sleep(_RETRY_SECONDS)

    def _add_termination_message(self, container: Container, run: ContainerRun) -> ContainerRun:
        left = self._workspace.read_termination_file(container.name, run.attempt, MAX_MESSAGE_BYTES)
        log = log_path(self._workspace.directory, container.name, run.attempt)
        message = read_termination_message(container, run.exit_code, left, log)
        return replace(run, message=": ".join(filter(None, (run.message, message))))

    async def _remove_run(self, run: str) -> None:
        if run in self._known_runs:
            try:
                await self._context.runtime.remove_container(run)
            except UnknownContainer:
                _log.info("container was already removed", run=run)
            self._known_runs.discard(run)
