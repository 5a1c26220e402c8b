"""Schedulers that move pods, and owners who make pods anew."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

from prometheus_client import CollectorRegistry

from kilonova.kube import Client
from kilonova.kube.resource import plain
from kilonova.local.cluster import Cluster
from kilonova.scheduler.movelimits import MoveLimits
from kilonova.scheduler.movesearch import Found
from kilonova.scheduler.scheduler import Scheduler, build_scheduler
from kilonova.scheduler.settings import Settings
from tests.local.embedded_cluster import PODS, LoopClock, eventually
from tests.scheduler.scheduling import pod
from tests.workloads.ground import parts_running

REPLICA_SETS = plain("apps", "v1", "replicasets", "ReplicaSet", True)
MOVING = Settings(moves=MoveLimits(every=10), patience=30)


async def at_once(search: Callable[[], Found]) -> Found:
    """Nothing that a test in virtual time waits for may come from another thread."""
    return search()


@asynccontextmanager
async def mover_on(
    cluster: Cluster, settings: Settings = MOVING, *, registry: CollectorRegistry | None = None
) -> AsyncGenerator[Scheduler]:
    """A scheduler that moves pods, from start to stop."""
    clock = LoopClock()
    scheduler = build_scheduler(
        cluster.client("scheduler"),
        settings,
        now=clock.now,
        monotonic=clock.monotonic,
        aside=at_once,
        registry=registry,
    )
    async with parts_running(scheduler.parts, scheduler.leading):
        yield scheduler


def replica_set(name: str, gpus: int, **annotations: str) -> dict[str, Any]:
    """A pod for our scheduler that is made again when it goes."""
    template = pod(name, gpus)
    labels = {"app": name}
    template["metadata"] = {"labels": labels, "annotations": annotations}
    return {
        "metadata": {"name": name},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": template["metadata"], "spec": template["spec"]},
        },
    }


def owned_pod(owner: Any, name: str, gpus: int, *, of: str = "", **metadata: Any) -> dict[str, Any]:
    """A pod of an owner who is played by the test."""
    body, meta = pod(name, gpus, of=of), owner["metadata"]
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": meta["name"], "uid": meta["uid"]}
    body["metadata"] |= {"ownerReferences": [{**reference, "controller": True}], **metadata}
    return body


async def run_set(client: Client, name: str, gpus: int, **annotations: str) -> str:
    """Makes a set of one pod, and waits until it has a node: which one."""
    await client.create(REPLICA_SETS, replica_set(name, gpus, **annotations), "default")
    return await placed(client, name)


async def fragmented(client: Client, **annotations: str) -> tuple[str, str]:
    """Of two nodes one is used by a large pod, the other by a small one that could stand beside it:
    the nodes of both."""
    nodes = {
        "large": await run_set(client, "large", 6),
        "leaving": await run_set(client, "leaving", 6),
    }
    alone = await run_set(client, "small", 2, **annotations)
    beside, other = sorted(nodes, key=lambda name: nodes[name] != alone)
    await client.delete(REPLICA_SETS, beside, "default")
    return nodes[other], alone


async def halves(client: Client) -> None:
    """Two nodes, half of each used by a set of its own: left and right."""
    for name in ("left", "one", "right", "two"):
        await run_set(client, name, 4)
    for name in ("one", "two"):
        await client.delete(REPLICA_SETS, name, "default")


async def placed(client: Client, name: str, *, other_than: str = "") -> str:
    """Waits until all pods of a set have a node; where the first is."""
    found: list[str] = []

    async def holds() -> bool:
        found[:] = await nodes_of_set(client, name)
        return bool(found) and all(each and each != other_than for each in found)

    await eventually(holds, within=300)
    return found[0]


async def nodes_of_set(client: Client, name: str) -> list[str]:
    """Where the pods of a set stand that are not on their way out."""
    listing = await client.list(PODS, "default", labels=f"app={name}")
    here = (
        each
        for each in listing.items
        if "deletionTimestamp" not in each["metadata"] and each["status"].get("phase") != "Failed"
    )
    return [each["spec"].get("nodeName", "") for each in here]
