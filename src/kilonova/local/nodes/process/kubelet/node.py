"""This machine as a node: registered, with a worker for each of its pods."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from kilonova.api.json import JsonObject
from kilonova.kube import Reflector
from kilonova.kube.logging import get_logger
from kilonova.local.kubelets import NodeUsage
from kilonova.local.nodes.process.kubelet.abilities import how_to_allow_mounts
from kilonova.local.nodes.process.kubelet.launching import PodPlace
from kilonova.local.nodes.process.kubelet.means import Means
from kilonova.local.nodes.process.kubelet.pods import Pod
from kilonova.local.nodes.process.kubelet.registration import NodeRegistration
from kilonova.local.nodes.process.kubelet.usage import Owner, Sample, read_machine, usage_between
from kilonova.local.nodes.process.kubelet.worker import PodWorker
from kilonova.local.nodes.process.runtime import (
    Consumption,
    ContainerState,
    UnknownContainer,
)

_MEASURE_SECONDS = 10.0
_log = get_logger(__name__)


class ProcessNode:
    """Runs the pods of this node. When it is cancelled their processes go on."""

    name = "process node"

    def __init__(
        self,
        means: Means,
        registration: NodeRegistration,
        pods: Reflector[Pod],
        services: Reflector[Any],
    ) -> None:
        self.means = means
        self.usage: NodeUsage | None = None
        self._registration = registration
        self._pods = pods
        self._services = services
        self._workers: dict[str, PodWorker] = {}
        self._found: dict[str, list[ContainerState]] = {}
        self._group: asyncio.TaskGroup | None = None
        self._registered = asyncio.Event()
        self._stopping = False

    async def wait_registered(self) -> None:
        """Until the node is in the API."""
        await self._registered.wait()

    def worker(self, pod: JsonObject) -> PodWorker | None:
        """The one of a pod as stored."""
        return self._workers.get(pod["metadata"]["uid"])

    async def run(self) -> None:
        """Be a node until cancelled."""
        # Without a pod of an earlier time there is nothing to ask for, and no keeper to start.
        if self.means.folder.is_dir() and any(self.means.folder.iterdir()):
            for state in await self.means.runtime.containers():
                self._found.setdefault(state.pod_uid, []).append(state)
        await self._registration.register()
        self._registered.set()
        await self._pods.wait_synced()
        await self._services.wait_synced()
        unsubscribe = self._pods.store.subscribe(self._pod_changed)
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                for pod in list(self._pods.store.objects()):
                    self._pod_changed(None, pod)
                group.create_task(self._tell_abilities())
                group.create_task(self._remove_orphans())
                group.create_task(self._registration.keep_alive())
                group.create_task(self._measure())
        finally:
            unsubscribe()
            self.means.objects.stop()

    async def stop_pods(self, progress: Callable[[int, float], None]) -> None:
        """End all processes, each with its grace; the pods stay, for the next start.

        `progress` is told how many are left, and for how many seconds at most.
        """
        self._stopping = True
        await self._registration.leave()
        for worker in self._workers.values():
            worker.shut_down()
        while busy := [each for each in self._workers.values() if not each.quiet.is_set()]:
            progress(len(busy), max(each.seconds_left for each in busy))
            waits = [asyncio.ensure_future(each.quiet.wait()) for each in busy]
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            for wait in waits:
                wait.cancel()

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if old is not None and (new is None or new.uid != old.uid):
            worker = self._workers.get(old.uid)
            if worker is not None:
                worker.leave()
        if new is None:
            return
        worker = self._workers.get(new.uid)
        if worker is not None:
            worker.update(new)
        elif not self._stopping:
            self._begin(new)

    def _begin(self, pod: Pod) -> None:
        assert self._group is not None
        worker = PodWorker(self.means, pod, self._found.pop(pod.uid, []))
        self._workers[pod.uid] = worker
        task = self._group.create_task(worker.run(), name=f"pod {pod.full_name}")
        task.add_done_callback(lambda _: self._workers.pop(pod.uid, None))

    async def _tell_abilities(self) -> None:
        """After all else: the keeper may have to be started for it, and a node need not wait."""
        found = await self.means.abilities.known()
        if not found.mounts:
            _log.warning(
                "pods can read the keys of this cluster",
                folder=str(self.means.folder.parent),
                why=how_to_allow_mounts(),
            )
        await self._registration.tell_abilities(found)

    async def _remove_orphans(self) -> None:
        """End what is left of pods that went while nobody looked."""
        for uid, states in list(self._found.items()):
            _log.info("ending what is left of a pod that is gone", uid=uid)
            for state in states:
                await self._kill(state.id)
            del self._found[uid]
        known = set(self._workers)
        if self.means.folder.is_dir():
            for folder in self.means.folder.iterdir():
                if folder.name not in known:
                    PodPlace(self.means, folder.name).remove()

    async def _kill(self, run: str) -> None:
        runtime = self.means.runtime
        try:
            await runtime.kill(run)
            await runtime.wait(run)
            await runtime.forget(run)
        except UnknownContainer:
            return

    async def _measure(self) -> None:
        before: Sample | None = None
        while True:
            # Asking would keep a keeper that has nothing to do.
            busy = any(each.containers.any_runs for each in self._workers.values())
            used: Mapping[str, Consumption] = await self.means.runtime.consumption() if busy else {}
            now = Sample(self.means.clock.now(), read_machine(), used)
            if before is not None:
                self.usage = usage_between(before, now, self._owners())
            before = now
            await asyncio.sleep(_MEASURE_SECONDS)

    def _owners(self) -> Mapping[str, Owner]:
        """Whose each run is."""
        owners: dict[str, Owner] = {}
        for worker in self._workers.values():
            metadata = worker.pod.metadata
            for name, history in worker.containers.histories.items():
                run = history.latest
                if run is not None:
                    owners[run.id] = Owner(metadata.namespace, metadata.name, name, run.started)
        return owners
