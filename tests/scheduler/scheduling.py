"""A scheduler on an embedded cluster, in the event loop's own time."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from kilonova.api.crds import definitions
from kilonova.kube import Client
from kilonova.local.cluster import Cluster
from kilonova.local.nodes.fleet import Fleet
from kilonova.scheduler.scheduler import Scheduler, build_scheduler
from kilonova.scheduler.settings import Settings
from tests.local.embedded_cluster import DEFINITIONS, PODS, LoopClock, running
from tests.workloads.ground import parts_running


@asynccontextmanager
async def scheduling(
    fleet: Fleet, settings: Settings | None = None
) -> AsyncGenerator[tuple[Cluster, Scheduler]]:
    """A cluster with simulated nodes and our scheduler, from start to stop."""
    async with running(fleet=fleet) as cluster:
        client = cluster.client("tester")
        for definition in definitions():
            await client.create(DEFINITIONS, definition)
        async with scheduler_on(cluster, settings) as scheduler:
            yield cluster, scheduler


@asynccontextmanager
async def scheduler_on(
    cluster: Cluster, settings: Settings | None = None
) -> AsyncGenerator[Scheduler]:
    clock = LoopClock()
    scheduler = build_scheduler(
        cluster.client("scheduler"),
        settings or Settings(),
        now=clock.now,
        monotonic=clock.monotonic,
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


async def nodes_of(client: Client) -> dict[str, str]:
    """Where each pod stands; empty while it does not."""
    listing = await client.list(PODS, "default")
    return {each["metadata"]["name"]: each["spec"].get("nodeName", "") for each in listing.items}
