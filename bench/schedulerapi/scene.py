"""A server with nodes and with pods that wait, and who looks when they have a node."""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from kilonova.api.meta import Metadata
from kilonova.kube import Client, Reflector, Resource, connect
from kilonova.kube.resource import plain

NAMESPACE = "default"
NODES = plain("", "v1", "nodes", "Node", False)
PODS = plain("", "v1", "pods", "Pod", True)
GANGS = plain("scheduler.grove.io", "v1alpha1", "podgangs", "PodGang", True)

_GPUS = 8


class _Spec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    node_name: str = ""


class _Pod(msgspec.Struct, gc=False):
    metadata: Metadata
    spec: _Spec = _Spec()


_SEEN: Resource[_Pod] = Resource("", "v1", "pods", "Pod", True, _Pod)


def node(index: int) -> dict[str, Any]:
    """A node of 8 GPUs, in a rack of 16."""
    amounts = {"cpu": "192", "memory": "2Ti", "pods": "110", "nvidia.com/gpu": str(_GPUS)}
    name = f"node-{index:05}"
    labels = {"kubernetes.io/hostname": name, "example.com/rack": f"rack-{index // 16}"}
    ready = {"type": "Ready", "status": "True", "reason": "Measured"}
    return {
        "metadata": {"name": name, "labels": labels},
        "status": {"capacity": amounts, "allocatable": amounts, "conditions": [ready]},
    }


def pod(name: str, scheduler: str, labels: dict[str, str] | None = None) -> dict[str, Any]:
    """A pod with one GPU."""
    amounts = {"cpu": "1", "memory": "4Gi", "nvidia.com/gpu": "1"}
    resources = {"requests": amounts, "limits": amounts}
    container = {"name": "main", "image": "example", "resources": resources}
    return {
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {"schedulerName": scheduler, "containers": [container]},
    }


def gang(name: str, pods: Iterable[str], minimum: int) -> dict[str, Any]:
    """Pods that start together."""
    references = [{"namespace": NAMESPACE, "name": each} for each in sorted(pods)]
    group = {"name": "workers", "minReplicas": minimum, "podReferences": references}
    return {"metadata": {"name": name}, "spec": {"podgroups": [group]}}


async def all_of(calls: Iterable[Awaitable[Any]], connections: int) -> None:
    """So many at a time."""
    waiting = iter(calls)

    async def take() -> None:
        for call in waiting:
            await call

    async with asyncio.TaskGroup() as group:
        for _ in range(connections):
            group.create_task(take())


class Sight:
    """When pods got their nodes."""

    def __init__(self, pods: Reflector[_Pod]) -> None:
        self._times: list[float] = []
        self._wanted = 0
        self._enough = asyncio.Event()
        pods.store.subscribe(self._changed)

    def _changed(self, old: _Pod | None, new: _Pod | None) -> None:
        if new is not None and new.spec.node_name and (old is None or not old.spec.node_name):
            self._times.append(time.monotonic())
            if len(self._times) >= self._wanted:
                self._enough.set()

    async def seconds_of(self, count: int, limit: float = 300.0) -> float:
        """From the first to the last of so many, once they are there; then it begins anew."""
        self._wanted = count
        if len(self._times) < count:
            self._enough.clear()
            async with asyncio.timeout(limit):
                await self._enough.wait()
        first, last = self._times[0], self._times[count - 1]
        self._times.clear()
        return last - first


@asynccontextmanager
async def watched(kubeconfig: Path) -> AsyncGenerator[tuple[Client, Sight]]:
    """A client, and a look at all pods."""
    async with connect(kubeconfig, field_manager="bench") as client:
        pods = Reflector(client, _SEEN)
        sight = Sight(pods)
        task = asyncio.create_task(pods.run())
        try:
            await pods.wait_synced()
            yield client, sight
        finally:
            task.cancel()


async def furnish(
    client: Client, nodes: int, pods: Callable[[int], dict[str, Any]], count: int, connections: int
) -> None:
    """Makes nodes and pods."""
    await all_of((client.create(NODES, node(index)) for index in range(nodes)), connections)
    await all_of(
        (client.create(PODS, pods(index), NAMESPACE) for index in range(count)), connections
    )
