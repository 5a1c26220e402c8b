"""What an onlooker sees of the pods and objects in a namespace, the moment it is so."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import msgspec

from bench.workloads.stages import Stage
from kilonova.api.grove import PodCliqueSet
from kilonova.kube import Client, Reflector, Resource, connect
from kilonova.workloads.pods import is_ending, is_ready
from kilonova.workloads.resources import CLIQUES, GANGS, PODS, SERVICES, SETS, Pod

PATIENCE_SECONDS = 900


class _Named(msgspec.Struct, gc=False, rename="camel"):
    name: str
    resource_version: str
    namespace: str = ""


class _Thing(msgspec.Struct, gc=False):
    metadata: _Named


_REMAINS = [
    Resource(each.group, each.version, each.plural, each.kind, True, _Thing)
    for each in (CLIQUES, GANGS, SERVICES)
]


@dataclass(slots=True)
class Sight:
    """Counts that follow every change; `until` returns when something of them holds."""

    client: Client
    namespace: str
    pods: Reflector[Pod]
    sets: Reflector[PodCliqueSet]
    remains: list[Reflector[_Thing]]
    there: int = 0
    """Pods that are not ending."""
    ready: int = 0
    _waiting: list[tuple[Callable[[], bool], asyncio.Future[float]]] = field(
        default_factory=list[tuple[Callable[[], bool], asyncio.Future[float]]]
    )

    def present(self) -> int:
        """Pods, also those that are ending."""
        return len(self.pods.store)

    def is_empty(self) -> bool:
        """Whether nothing is left of any set."""
        return not any(map(len, (self.pods.store, self.sets.store))) and not any(
            len(each.store) for each in self.remains
        )

    def available(self) -> int:
        """Replicas that sets tell to be available."""
        return sum(each.status.available_replicas for each in self.sets.store.objects())

    async def until(self, holds: Callable[[], bool], what: str) -> float:
        """The time at which it holds."""
        if holds():
            return time.monotonic()
        answer: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        self._waiting.append((holds, answer))
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                return await answer
        except TimeoutError:
            raise RuntimeError(f"waited {PATIENCE_SECONDS} s for {what}") from None

    def pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        self.there += _is_there(new) - _is_there(old)
        self.ready += _is_ready(new) - _is_ready(old)
        self.changed()

    def changed(self, *_: object) -> None:
        for holds, answer in self._waiting:
            if not answer.done() and holds():
                answer.set_result(time.monotonic())
        self._waiting = [each for each in self._waiting if not each[1].done()]


def _is_there(pod: Pod | None) -> bool:
    return pod is not None and not is_ending(pod)


def _is_ready(pod: Pod | None) -> bool:
    return pod is not None and not is_ending(pod) and is_ready(pod)


@asynccontextmanager
async def looking(stage: Stage, namespace: str) -> AsyncGenerator[Sight]:
    """An onlooker who has seen all that there is, until the end of the context."""
    async with connect(stage.access.kubeconfig, field_manager="bench") as client:
        pods = Reflector(client, PODS, namespace=namespace)
        sets = Reflector(client, SETS, namespace=namespace)
        remains = [Reflector(client, each, namespace=namespace) for each in _REMAINS]
        sight = Sight(client, namespace, pods, sets, remains)
        pods.store.subscribe(sight.pod_changed)
        caches = [pods, sets, *remains]
        for cache in caches[1:]:
            cache.store.subscribe(sight.changed)
        tasks = [asyncio.create_task(each.run()) for each in caches]
        try:
            for cache in caches:
                await cache.wait_synced()
            yield sight
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
