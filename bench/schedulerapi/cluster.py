"""A server with nodes and pending pods, and an observer of bindings."""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from kilonova.api.meta import Metadata
from kilonova.kube import Client, Reflector, Resource, connect
from kilonova.kube.client.resource import unstructured_resource

NAMESPACE = "default"
NODES = unstructured_resource("", "v1", "nodes", "Node", False)
PODS = unstructured_resource("", "v1", "pods", "Pod", True)
GANGS = unstructured_resource("scheduler.grove.io", "v1alpha1", "podgangs", "PodGang", True)

_GPUS = 8


class _Spec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    node_name: str = ""


class _Pod(msgspec.Struct, gc=False):
    metadata: Metadata
    spec: _Spec = _Spec()


_OBSERVED_PODS: Resource[_Pod] = Resource("", "v1", "pods", "Pod", True, _Pod)


def build_node(index: int) -> dict[str, Any]:
    """A node of 8 GPUs, in a rack of 16."""
    amounts = {"cpu": "192", "memory": "2Ti", "pods": "110", "nvidia.com/gpu": str(_GPUS)}
    name = f"node-{index:05}"
    labels = {"kubernetes.io/hostname": name, "example.com/rack": f"rack-{index // 16}"}
    ready = {"type": "Ready", "status": "True", "reason": "Measured"}
    return {
        "metadata": {"name": name, "labels": labels},
        "status": {"capacity": amounts, "allocatable": amounts, "conditions": [ready]},
    }


def build_pod(name: str, scheduler: str, labels: dict[str, str] | None = None) -> dict[str, Any]:
    """A pod with one GPU."""
    amounts = {"cpu": "1", "memory": "4Gi", "nvidia.com/gpu": "1"}
    resources = {"requests": amounts, "limits": amounts}
    container = {"name": "main", "image": "example", "resources": resources}
    return {
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {"schedulerName": scheduler, "containers": [container]},
    }


def build_gang(name: str, pods: Iterable[str], minimum: int) -> dict[str, Any]:
    """Pods that start together."""
    references = [{"namespace": NAMESPACE, "name": each} for each in sorted(pods)]
    group = {"name": "workers", "minReplicas": minimum, "podReferences": references}
    return {"metadata": {"name": name}, "spec": {"podgroups": [group]}}


async def run_concurrently(calls: Iterable[Awaitable[Any]], connections: int) -> None:
    """Await all, so many at a time."""
    remaining = iter(calls)

    async def take() -> None:
        for call in remaining:
            await call

    async with asyncio.TaskGroup() as group:
        for _ in range(connections):
            group.create_task(take())


class BindingObserver:
    """When pods were bound."""

    def __init__(self, pods: Reflector[_Pod]) -> None:
        self._times: list[float] = []
        self._expected = 0
        self._reached = asyncio.Event()
        pods.store.add_event_handler(self._on_pod_change)

    def _on_pod_change(self, old: _Pod | None, new: _Pod | None) -> None:
        if new is not None and new.spec.node_name and (old is None or not old.spec.node_name):
            self._times.append(time.monotonic())
            if len(self._times) >= self._expected:
                self._reached.set()

    async def measure_seconds(self, count: int, limit: float = 300.0) -> float:
        """Seconds from the first to the last of so many bindings; then counting restarts."""
        self._expected = count
        if len(self._times) < count:
            self._reached.clear()
            async with asyncio.timeout(limit):
                await self._reached.wait()
        first, last = self._times[0], self._times[count - 1]
        self._times.clear()
        return last - first


@asynccontextmanager
async def observing_cluster(kubeconfig: Path) -> AsyncGenerator[tuple[Client, BindingObserver]]:
    """A client and an observer of all pods."""
    async with connect(kubeconfig, field_manager="bench") as client:
        pods = Reflector(client, _OBSERVED_PODS)
        observer = BindingObserver(pods)
        task = asyncio.create_task(pods.run())
        try:
            await pods.wait_for_sync()
            yield client, observer
        finally:
            task.cancel()


async def create_nodes_and_pods(
    client: Client, nodes: int, pods: Callable[[int], dict[str, Any]], count: int, connections: int
) -> None:
    """Create nodes and pods."""
    await run_concurrently(
        (client.create(NODES, build_node(index)) for index in range(nodes)), connections
    )
    await run_concurrently(
        (client.create(PODS, pods(index), NAMESPACE) for index in range(count)), connections
    )
