"""The process node: registered in the API, with a worker for each of its pods."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from kilonova.api.json import JsonObject
from kilonova.kube import Reflector
from kilonova.kube.observability.structured_logging import get_logger
from kilonova.local.kubelet_api import NodeUsage
from kilonova.local.processnode.cri.api import ContainerState, ContainerStats, UnknownContainer
from kilonova.local.processnode.kubelet.context import KubeletContext
from kilonova.local.processnode.kubelet.machine.capabilities import explain_missing_mounts
from kilonova.local.processnode.kubelet.machine.registration import KubeletRegistration
from kilonova.local.processnode.kubelet.machine.usage import (
    RunOwner,
    UsageSample,
    compute_usage,
    read_machine_consumption,
)
from kilonova.local.processnode.kubelet.objects import Pod
from kilonova.local.processnode.kubelet.pods.worker import PodWorker
from kilonova.local.processnode.kubelet.pods.workspace import PodWorkspace

_USAGE_PERIOD = 10.0
_log = get_logger(__name__)


class ProcessNode:
    """Runs the pods of this node. Processes keep running when it is cancelled."""

    name = "process node"

    def __init__(
        self,
        context: KubeletContext,
        registration: KubeletRegistration,
        pods: Reflector[Pod],
        services: Reflector[Any],
    ) -> None:
        self.context = context
        self.usage: NodeUsage | None = None
        self._registration = registration
        self._pods = pods
        self._services = services
        self._workers: dict[str, PodWorker] = {}
        self._found_containers: dict[str, list[ContainerState]] = {}
        self._group: asyncio.TaskGroup | None = None
        self._registered = asyncio.Event()
        self._stopping = False

    async def wait_registered(self) -> None:
        """Wait until the node is in the API."""
        await self._registered.wait()

    def find_worker(self, pod: JsonObject) -> PodWorker | None:
        """The worker of a pod, which is given as stored."""
        return self._workers.get(pod["metadata"]["uid"])

    async def run(self) -> None:
        """Run the node until cancelled."""
        # Without pods from before there are no containers to list, and no shim to launch.
        if self.context.pods_directory.is_dir() and any(self.context.pods_directory.iterdir()):
            for state in await self.context.runtime.list_containers():
                self._found_containers.setdefault(state.pod_uid, []).append(state)
        await self._registration.register()
        self._registered.set()
        await self._pods.wait_for_sync()
        await self._services.wait_for_sync()
        unsubscribe = self._pods.store.add_event_handler(self._handle_pod_change)
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                for pod in list(self._pods.store.objects()):
                    self._handle_pod_change(None, pod)
                group.create_task(self._publish_capabilities())
                group.create_task(self._remove_orphans())
                group.create_task(self._registration.run_heartbeat())
                group.create_task(self._measure_usage())
        finally:
            unsubscribe()
            self.context.object_cache.stop()

    async def stop_pods(self, progress: Callable[[int, float], None]) -> None:
        """Stop all processes within their grace periods; the Pod objects stay, for the next start.

        `progress` is called with the number of pods left and the seconds they may take.
        """
        self._stopping = True
        await self._registration.report_shutdown()
        for worker in self._workers.values():
            worker.shut_down()
        while busy := [each for each in self._workers.values() if not each.stopped.is_set()]:
            progress(len(busy), max(each.grace_seconds_left for each in busy))
            waits = [asyncio.ensure_future(each.stopped.wait()) for each in busy]
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            for wait in waits:
                wait.cancel()

    def _handle_pod_change(self, old: Pod | None, new: Pod | None) -> None:
        if old is not None and (new is None or new.uid != old.uid):
            worker = self._workers.get(old.uid)
            if worker is not None:
                worker.handle_removal()
        if new is None:
            return
        worker = self._workers.get(new.uid)
        if worker is not None:
            worker.update(new)
        elif not self._stopping:
            self._start_worker(new)

    def _start_worker(self, pod: Pod) -> None:
        assert self._group is not None
        worker = PodWorker(self.context, pod, self._found_containers.pop(pod.uid, []))
        self._workers[pod.uid] = worker
        task = self._group.create_task(worker.run(), name=f"pod {pod.full_name}")
        task.add_done_callback(lambda _: self._workers.pop(pod.uid, None))

    async def _publish_capabilities(self) -> None:
        """Runs last: it may have to launch the shim, and registration does not wait for it."""
        found = await self.context.capabilities.get()
        if not found.mounts:
            _log.warning(
                "pods can read the private keys of this cluster",
                folder=str(self.context.pods_directory.parent),
                why=explain_missing_mounts(),
            )
        await self._registration.publish_capabilities(found)

    async def _remove_orphans(self) -> None:
        """Kill containers of pods that were deleted while Kilonova was not running."""
        for uid, states in list(self._found_containers.items()):
            _log.info("killing containers of a deleted pod", uid=uid)
            for state in states:
                await self._kill_container(state.id)
            del self._found_containers[uid]
        uids = set(self._workers)
        if self.context.pods_directory.is_dir():
            for folder in self.context.pods_directory.iterdir():
                if folder.name not in uids:
                    PodWorkspace(self.context, folder.name).remove()

    async def _kill_container(self, run: str) -> None:
        runtime = self.context.runtime
        try:
            await runtime.kill(run)
            await runtime.wait(run)
            await runtime.remove_container(run)
        except UnknownContainer:
            return

    async def _measure_usage(self) -> None:
        before: UsageSample | None = None
        while True:
            # A request would keep an idle shim from exiting.
            busy = any(each.containers.is_any_running for each in self._workers.values())
            used: Mapping[str, ContainerStats] = (
                await self.context.runtime.container_stats() if busy else {}
            )
            now = UsageSample(self.context.clock.now(), read_machine_consumption(), used)
            if before is not None:
                self.usage = compute_usage(before, now, self._run_owners())
            before = now
            await asyncio.sleep(_USAGE_PERIOD)

    def _run_owners(self) -> Mapping[str, RunOwner]:
        """The container of each run."""
        owners: dict[str, RunOwner] = {}
        for worker in self._workers.values():
            uids = worker.pod.metadata
            for name, history in worker.containers.histories.items():
                run = history.latest
                if run is not None:
                    owners[run.id] = RunOwner(uids.namespace, uids.name, name, run.started)
        return owners
