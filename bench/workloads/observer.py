"""Observes pods and objects of a namespace through watches."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import msgspec

from bench.workloads.clusters import BenchmarkCluster
from kilonova.api.grove import PodCliqueSet
from kilonova.kube import Client, Reflector, Resource, connect
from kilonova.workloads.pods.state import is_ready, is_terminating
from kilonova.workloads.resources import CLIQUES, GANGS, PODS, SERVICES, SETS, Pod

TIMEOUT_SECONDS = 900


class _ObjectMeta(msgspec.Struct, gc=False, rename="camel"):
    name: str
    resource_version: str
    namespace: str = ""


class _NamedObject(msgspec.Struct, gc=False):
    metadata: _ObjectMeta


_CHILD_RESOURCES = [
    Resource(each.group, each.version, each.plural, each.kind, True, _NamedObject)
    for each in (CLIQUES, GANGS, SERVICES)
]


@dataclass(slots=True)
class NamespaceObserver:
    """Counts that follow every change; `wait_until` returns when a condition on them holds."""

    client: Client
    namespace: str
    pods: Reflector[Pod]
    sets: Reflector[PodCliqueSet]
    children: list[Reflector[_NamedObject]]
    active: int = 0
    """Pods that are not terminating."""
    ready: int = 0
    _waiters: list[tuple[Callable[[], bool], asyncio.Future[float]]] = field(
        default_factory=list[tuple[Callable[[], bool], asyncio.Future[float]]]
    )

    def count_pods(self) -> int:
        """Pods, including terminating ones."""
        return len(self.pods.store)

    def is_empty(self) -> bool:
        """Whether no object of any set is left."""
        return not any(map(len, (self.pods.store, self.sets.store))) and not any(
            len(each.store) for each in self.children
        )

    def count_available_replicas(self) -> int:
        """Available replicas by the statuses of the sets."""
        return sum(each.status.available_replicas for each in self.sets.store.objects())

    async def wait_until(self, condition: Callable[[], bool], what: str) -> float:
        """The time at which a condition holds."""
        if condition():
            return time.monotonic()
        future: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        self._waiters.append((condition, future))
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                return await future
        except TimeoutError:
            raise RuntimeError(f"waited {TIMEOUT_SECONDS} s for {what}") from None

    def on_pod_change(self, old: Pod | None, new: Pod | None) -> None:
        self.active += _is_active(new) - _is_active(old)
        self.ready += _is_ready(new) - _is_ready(old)
        self.on_change()

    def on_change(self, *_: object) -> None:
        for condition, future in self._waiters:
            if not future.done() and condition():
                future.set_result(time.monotonic())
        self._waiters = [each for each in self._waiters if not each[1].done()]


def _is_active(pod: Pod | None) -> bool:
    return pod is not None and not is_terminating(pod)


def _is_ready(pod: Pod | None) -> bool:
    return pod is not None and not is_terminating(pod) and is_ready(pod)


@asynccontextmanager
async def observing_namespace(
    cluster: BenchmarkCluster, namespace: str
) -> AsyncGenerator[NamespaceObserver]:
    """A synced observer, until the end of the context."""
    async with connect(cluster.access.kubeconfig, field_manager="bench") as client:
        pods = Reflector(client, PODS, namespace=namespace)
        sets = Reflector(client, SETS, namespace=namespace)
        children = [Reflector(client, each, namespace=namespace) for each in _CHILD_RESOURCES]
        observer = NamespaceObserver(client, namespace, pods, sets, children)
        pods.store.add_event_handler(observer.on_pod_change)
        caches = [pods, sets, *children]
        for cache in caches[1:]:
            cache.store.add_event_handler(observer.on_change)
        tasks = [asyncio.create_task(each.run()) for each in caches]
        try:
            for cache in caches:
                await cache.wait_for_sync()
            yield observer
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
