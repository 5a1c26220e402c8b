"""The model loader: keeps the models of all services where they are placed. A key is a service.

Each server has a task that asks it what it has, and at most one task that changes it. They only
enqueue the service; all decisions are made in `reconcile`, from what is known of all its servers.
Nothing is remembered outside of servers and annotations but failures and usage.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from typing import Any

from kilonova.api.serving import InferenceService, ServerGroup, ServerPorts, names
from kilonova.kube import Controller, Key, NotFound, Result, Watch
from kilonova.kube.client.merge_patch import needs_patch
from kilonova.kube.controllers.expectations import Expectations
from kilonova.serving.caches import BY_SERVICE, list_service_keys
from kilonova.serving.context import ServingContext
from kilonova.serving.models.desire import ObservedServer, plan_group
from kilonova.serving.models.server_api import ServerApi, connect_server
from kilonova.serving.models.states import count_restarts, read_states
from kilonova.serving.models.watched_server import LoaderTimes, Outcome, WatchedServer
from kilonova.serving.providers import RequestedModels
from kilonova.serving.resources import PODS, Pod

MODEL_LOADED = "ModelLoaded"
MODEL_UNLOADED = "ModelUnloaded"
MODEL_LOAD_FAILED = "ModelLoadFailed"
MODEL_UNLOAD_FAILED = "ModelUnloadFailed"

_REASONS = {
    ("Load", True): MODEL_LOADED,
    ("Load", False): MODEL_LOAD_FAILED,
    ("Unload", True): MODEL_UNLOADED,
    ("Unload", False): MODEL_UNLOAD_FAILED,
}
_WORKERS = 4

Connect = Callable[[str, ServerPorts], ServerApi]


def build_model_loader(
    context: ServingContext,
    requested: RequestedModels | None = None,
    *,
    times: LoaderTimes | None = None,
    connect: Connect = connect_server,
) -> "ModelLoader":
    """Build the loader, which only the leader runs; the caches must be running."""
    return ModelLoader(context, requested, times or LoaderTimes(), connect)


@dataclass(slots=True)
class _Watched:
    server: WatchedServer
    tasks: set[asyncio.Task[None]]
    state: tuple[bool, int]
    """Of the pod: when it changes, the server may have other models."""


class ModelLoader:
    """Loads and unloads models. A `GracefulRunnable`."""

    name = "model loader"

    def __init__(
        self,
        context: ServingContext,
        requested: RequestedModels | None,
        times: LoaderTimes,
        connect: Connect,
    ) -> None:
        self._context = context
        self._requested = requested
        self._times = times
        self._connect = connect
        self._watched: dict[Key, dict[str, _Watched]] = {}
        self._tasks: asyncio.TaskGroup | None = None
        self._expectations = Expectations(context.caches.pods)
        caches = context.caches
        self._controller = Controller(
            "models",
            self.reconcile,
            [
                Watch(caches.services),
                Watch(caches.pods, lambda each: list_service_keys(each.metadata)),
            ],
            workers=_WORKERS,
            runtime_metrics=context.runtime_metrics,
        )
        if requested is not None:
            requested.add_listener(self._controller.queue.add)

    async def run(self) -> None:
        """Work until `stop` or cancellation. A change in progress is not waited for:
        the next leader finds what became of it."""
        async with asyncio.TaskGroup() as self._tasks:
            try:
                await self._controller.run()
            finally:
                for key in list(self._watched):
                    self._forget(key, keep=())

    def stop(self) -> None:
        """Let `run` return soon."""
        self._controller.stop()

    async def reconcile(self, key: Key) -> Result | None:
        """Place the models of one service."""
        service = self._context.caches.services.store.get(key)
        groups: tuple[ServerGroup, ...] = () if service is None else service.spec.servers
        placed = [each for each in groups if each.model_placement is not None]
        pods = {each.name: self._list_servers(key, each.name) for each in placed}
        self._forget(key, keep={pod.metadata.uid for each in pods.values() for pod in each})
        if service is None or not placed:
            return None
        for group in placed:
            for pod in pods[group.name]:
                self._watch(key, service, group, pod)
            await self._reconcile_group(key, group, pods[group.name])
        # Loads, and how long models are idle, change without an event.
        return Result(self._times.poll)

    def _list_servers(self, key: Key, group: str) -> list[Pod]:
        pods = self._context.caches.pods.store.by_index(BY_SERVICE, key)
        return sorted(
            (each for each in pods if _is_running_server(each, group)),
            key=lambda each: each.metadata.name,
        )

    async def _reconcile_group(self, key: Key, group: ServerGroup, pods: list[Pod]) -> None:
        assert group.model_placement is not None
        watched = {pod.metadata.name: self._watched[key][pod.metadata.uid] for pod in pods}
        by_name = {pod.metadata.name: pod for pod in pods}
        observed = [*self._observe(by_name, watched)]
        requested = frozenset[str]()
        if self._requested is not None:
            requested = self._requested.requested(key, group.name)
        now = self._context.monotonic()
        plan = plan_group(group.model_placement, observed, requested, now)
        for change in plan.changes:
            each = watched[change.server]
            each.server.begin(change)
            self._start(each, each.server.carry_out(change))
        for name, annotations in plan.annotations.items():
            await self._publish(by_name[name], annotations)
            watched[name].server.note_published()

    def _observe(
        self, pods: dict[str, Pod], watched: dict[str, _Watched]
    ) -> Iterable[ObservedServer]:
        for name, pod in pods.items():
            known = frozenset(
                model
                for model, each in read_states(pod).items()
                if each.state in ("Loaded", "Loading", "Unloading")
            )
            found = watched[name].server.observe(known)
            if found is not None:
                yield found

    async def _publish(self, pod: Pod, annotations: dict[str, str]) -> None:
        known = pod.metadata
        if not needs_patch(known.annotations, annotations):
            return
        patch = {"metadata": {"uid": known.uid, "annotations": annotations}}
        try:
            written = await self._context.client.patch(PODS, known.name, patch, known.namespace)
        except NotFound:
            return
        await self._expectations.wait_for_version(written.metadata.resource_version)

    def _watch(self, key: Key, service: InferenceService, group: ServerGroup, pod: Pod) -> None:
        watched = self._watched.setdefault(key, {})
        state = pod.is_ready, count_restarts(pod)
        known = watched.get(pod.metadata.uid)
        if known is not None:
            if known.state != state:
                known.state = state
                known.server.note_restarts(state[1])
                known.server.ask_soon()
            return
        name = pod.metadata.name
        server = WatchedServer(
            name,
            self._connect(pod.status.pod_ip, group.ports),
            self._times,
            self._context.monotonic,
            on_change=lambda: self._controller.queue.add(key),
            on_outcome=lambda outcome: self._report(service, name, outcome),
        )
        server.note_restarts(state[1])
        watched[pod.metadata.uid] = _Watched(server, set(), state)
        self._start(watched[pod.metadata.uid], server.run())

    def _start(self, watched: _Watched, work: Coroutine[Any, Any, None]) -> None:
        assert self._tasks is not None, "reconcile is called by run"
        task = self._tasks.create_task(work)
        watched.tasks.add(task)
        task.add_done_callback(watched.tasks.discard)

    def _forget(self, key: Key, keep: Iterable[str]) -> None:
        watched = self._watched.get(key, {})
        for uid in watched.keys() - set(keep):
            for task in watched.pop(uid).tasks:
                task.cancel()
        if not watched:
            self._watched.pop(key, None)

    def _report(self, service: InferenceService, pod: str, outcome: Outcome) -> None:
        change, reference = outcome.change, self._context.refer_to(service)
        is_done = not outcome.reason
        verb = {"Load": "load", "Unload": "unload"}[change.action]
        text = f"{verb.capitalize()}ed model {change.model} on {pod}"
        if not is_done:
            text = f"{pod} could not {verb} model {change.model}: {outcome.reason}"
        reason = _REASONS[change.action, is_done]
        self._context.recorder.event(reference, reason, text, warning=not is_done)


def _is_running_server(pod: Pod, group: str) -> bool:
    labels = pod.metadata.labels
    return (
        labels.get(names.SERVER) == group
        and labels.get(names.ENTRY) == "true"
        and pod.metadata.deletion_timestamp is None
        and pod.status.phase == "Running"
        and bool(pod.status.pod_ip)
    )
