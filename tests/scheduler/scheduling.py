"""A scheduler on an embedded cluster, in the event loop's own time."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

from kilonova.api.crds import definitions
from kilonova.kube import UNMEASURED, Client, Instruments, NotFound
from kilonova.kube.resource import Resource, plain
from kilonova.local.cluster import Cluster
from kilonova.local.nodes.fleet import Fleet, Gpu, NodeGroup
from kilonova.scheduler.scheduler import Scheduler, build_scheduler
from kilonova.scheduler.settings import Settings
from tests.local.embedded_cluster import DEFINITIONS, PODS, LoopClock, eventually, running
from tests.workloads.ground import parts_running

GANGS = plain("scheduler.grove.io", "v1alpha1", "podgangs", "PodGang", True)
QUEUES = plain("scheduling.kilonova.dev", "v1alpha1", "queues", "Queue", False)
PRIORITIES = plain("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", False)


@asynccontextmanager
async def scheduling(
    fleet: Fleet, settings: Settings | None = None
) -> AsyncGenerator[tuple[Cluster, Scheduler]]:
    """A cluster with simulated nodes and our scheduler, from start to stop."""
    async with a_cluster(fleet) as cluster, scheduler_on(cluster, settings) as scheduler:
        yield cluster, scheduler


@asynccontextmanager
async def a_cluster(fleet: Fleet) -> AsyncGenerator[Cluster]:
    """A cluster with simulated nodes that knows our kinds, without a scheduler."""
    async with running(fleet=fleet, scheduler=False) as cluster:
        client = cluster.client("tester")
        for definition in definitions():
            await client.create(DEFINITIONS, definition)
        for resource in (GANGS, QUEUES):
            await eventually(lambda each=resource: is_served(client, each))
        yield cluster


async def is_served(client: Client, resource: Resource[Any]) -> bool:
    """Whether a server knows a kind already."""
    try:
        await client.list(resource)
    except NotFound:
        return False
    return True


@asynccontextmanager
async def scheduler_on(
    cluster: Cluster, settings: Settings | None = None, *, instruments: Instruments = UNMEASURED
) -> AsyncGenerator[Scheduler]:
    """A scheduler, from start to stop."""
    clock = LoopClock()
    scheduler = build_scheduler(
        cluster.client("scheduler"),
        settings or Settings(),
        now=clock.now,
        monotonic=clock.monotonic,
        instruments=instruments,
    )
    async with parts_running(scheduler.parts, scheduler.leading):
        yield scheduler


def pod(name: str, gpus: int = 1, *, of: str = "", **spec: Any) -> dict[str, Any]:
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
            "labels": {"grove.io/podgang": of} if of else {},
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
    gpu = Gpu("NVIDIA-H100-80GB-HBM3", gpus, "80Gi")
    return Fleet((NodeGroup("node", count, cpu="64", memory="512Gi", gpu=gpu),))


async def create_gang(client: Client, name: str, size: int, *, gpus: int, **spec: Any) -> list[str]:
    """Makes a gang of equal pods; their names."""
    pods = [f"{name}-{index}" for index in range(size)]
    for each in pods:
        await client.create(PODS, pod(each, gpus, of=name, **spec), "default")
    await client.create(GANGS, gang(name, {"w": pods}), "default")
    return pods


async def make_priority(client: Client, name: str, value: int) -> None:
    """Makes a priority class."""
    await client.create(PRIORITIES, {"metadata": {"name": name}, "value": value})


def all_placed(client: Client, names: Iterable[str]) -> Callable[[], Awaitable[bool]]:
    """Whether all of these pods have a node."""

    async def holds() -> bool:
        nodes = await nodes_of(client)
        return all(nodes.get(name) for name in names)

    return holds


async def nodes_of(client: Client) -> dict[str, str]:
    """Where each pod stands; empty while it does not."""
    listing = await client.list(PODS, "default")
    return {each["metadata"]["name"]: each["spec"].get("nodeName", "") for each in listing.items}
