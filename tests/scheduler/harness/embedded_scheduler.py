"""A scheduler on an embedded cluster, in virtual time."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

from kilonova.api.crds import load_definitions
from kilonova.kube import NO_RUNTIME_METRICS, Client, NotFound, RuntimeMetrics
from kilonova.kube.client.resource import Resource, unstructured_resource
from kilonova.local.cluster import EmbeddedCluster
from kilonova.local.simnodes.fleet.model import Fleet, GpuSpec, NodeGroup
from kilonova.scheduler.assembly import Scheduler, build_scheduler
from kilonova.scheduler.settings import SchedulerSettings
from tests.local.embedded_cluster import (
    DEFINITIONS,
    PODS,
    LoopClock,
    run_cluster,
    wait_for_condition,
)
from tests.workloads.workload_cluster import run_runnables

GANGS = unstructured_resource("scheduler.grove.io", "v1alpha1", "podgangs", "PodGang", True)
QUEUES = unstructured_resource("scheduling.kilonova.dev", "v1alpha1", "queues", "Queue", False)
PRIORITY_CLASSES = unstructured_resource(
    "scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", False
)


@asynccontextmanager
async def scheduled_cluster(
    fleet: Fleet, settings: SchedulerSettings | None = None
) -> AsyncGenerator[tuple[EmbeddedCluster, Scheduler]]:
    """Run a cluster with simulated nodes and our scheduler."""
    async with (
        embedded_cluster(fleet) as cluster,
        running_scheduler(cluster, settings) as scheduler,
    ):
        yield cluster, scheduler


@asynccontextmanager
async def embedded_cluster(fleet: Fleet) -> AsyncGenerator[EmbeddedCluster]:
    """Run a cluster with simulated nodes and our CRDs, without a scheduler."""
    async with run_cluster(fleet=fleet, scheduler=False) as cluster:
        client = cluster.client("tester")
        for definition in load_definitions():
            await client.create(DEFINITIONS, definition)
        for resource in (GANGS, QUEUES):
            await wait_for_condition(lambda each=resource: is_served(client, each))
        yield cluster


async def is_served(client: Client, resource: Resource[Any]) -> bool:
    """Whether a server serves a kind."""
    try:
        await client.list(resource)
    except NotFound:
        return False
    return True


@asynccontextmanager
async def running_scheduler(
    cluster: EmbeddedCluster,
    settings: SchedulerSettings | None = None,
    *,
    instruments: RuntimeMetrics = NO_RUNTIME_METRICS,
) -> AsyncGenerator[Scheduler]:
    """Run a scheduler."""
    clock = LoopClock()
    scheduler = build_scheduler(
        cluster.client("scheduler"),
        settings or SchedulerSettings(),
        now=clock.now,
        monotonic=clock.monotonic,
        runtime_metrics=instruments,
    )
    async with run_runnables(scheduler.runnables, scheduler.leader_runnables):
        yield scheduler


def pod(name: str, gpus: int = 1, *, gang: str = "", **spec: Any) -> dict[str, Any]:
    """A pod for our scheduler; `of` is its gang."""
    requests = {"cpu": "1", "memory": "1Gi"}
    resources = {"requests": requests, "limits": {"nvidia.com/gpu": str(gpus)}} if gpus else {}
    container = {"name": "main", "image": "example", "resources": resources}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "default",
            "labels": {"grove.io/podgang": gang} if gang else {},
        },
        "spec": {"schedulerName": "kilonova-scheduler", "containers": [container], **spec},
    }


def gang(name: str, groups: dict[str, list[str]], **spec: Any) -> dict[str, Any]:
    """A PodGang whose groups need all of their pods."""
    return {
        "apiVersion": "scheduler.grove.io/v1alpha1",
        "kind": "PodGang",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "podgroups": [
                {
                    "name": group,
                    "minReplicas": len(pods),
                    "podReferences": [{"namespace": "default", "name": each} for each in pods],
                }
                for group, pods in groups.items()
            ],
            **spec,
        },
    }


def fleet(count: int, gpus: int = 8) -> Fleet:
    """Equal nodes: node-0, node-1, …"""
    gpu = GpuSpec("NVIDIA-H100-80GB-HBM3", gpus, "80Gi") if gpus else None
    return Fleet((NodeGroup("node", count, cpu="64", memory="512Gi", gpu=gpu),))


async def create_gang(client: Client, name: str, size: int, *, gpus: int, **spec: Any) -> list[str]:
    """Create a gang of equal pods; returns their names."""
    pods = [f"{name}-{index}" for index in range(size)]
    for each in pods:
        await client.create(PODS, pod(each, gpus, gang=name, **spec), "default")
    await client.create(GANGS, gang(name, {"w": pods}), "default")
    return pods


async def create_priority_class(client: Client, name: str, value: int) -> None:
    """Create a PriorityClass."""
    await client.create(PRIORITY_CLASSES, {"metadata": {"name": name}, "value": value})


def are_all_placed(client: Client, names: Iterable[str]) -> Callable[[], Awaitable[bool]]:
    """Whether all of these pods are bound."""

    async def are_bound() -> bool:
        nodes = await nodes_by_pod(client)
        return all(nodes.get(name) for name in names)

    return are_bound


async def nodes_by_pod(client: Client) -> dict[str, str]:
    """The node of each pod; empty while it is pending."""
    listing = await client.list(PODS, "default")
    return {each["metadata"]["name"]: each["spec"].get("nodeName", "") for each in listing.items}
