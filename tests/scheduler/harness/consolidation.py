"""Schedulers with consolidation, and ReplicaSets that recreate pods."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

from prometheus_client import CollectorRegistry

from kilonova.kube import Client, Manager
from kilonova.kube.client.resource import unstructured_resource
from kilonova.local.cluster import EmbeddedCluster
from kilonova.scheduler.assembly import Scheduler, build_scheduler
from kilonova.scheduler.consolidation.search import ConsolidationPlan
from kilonova.scheduler.settings import ConsolidationLimits, SchedulerSettings
from tests.local.embedded_cluster import PODS, LoopClock, wait_for_condition
from tests.scheduler.harness.embedded_scheduler import pod
from tests.scheduler.harness.fault_injection import transport_of
from tests.workloads.crashing_operator import CrashingTransport, is_write
from tests.workloads.workload_cluster import run_runnables

REPLICA_SETS = unstructured_resource("apps", "v1", "replicasets", "ReplicaSet", True)
CONSOLIDATION_SETTINGS = SchedulerSettings(
    consolidation=ConsolidationLimits(interval=10), eviction_timeout=30
)


async def run_inline(search: Callable[[], ConsolidationPlan]) -> ConsolidationPlan:
    """Run the search inline: virtual time must not depend on another thread."""
    return search()


@asynccontextmanager
async def consolidating_scheduler(
    cluster: EmbeddedCluster,
    settings: SchedulerSettings = CONSOLIDATION_SETTINGS,
    *,
    registry: CollectorRegistry | None = None,
) -> AsyncGenerator[Scheduler]:
    """Run a scheduler with consolidation."""
    clock = LoopClock()
    scheduler = build_scheduler(
        cluster.client("scheduler"),
        settings,
        now=clock.now,
        monotonic=clock.monotonic,
        run_search=run_inline,
        registry=registry,
    )
    async with run_runnables(scheduler.runnables, scheduler.leader_runnables):
        yield scheduler


async def run_until_crash(
    cluster: EmbeddedCluster, settings: SchedulerSettings, *, last_arrives: bool
) -> None:
    """Run schedulers forever, each of which crashes after one write more than the one before; the
    last write of each arrives or is lost."""
    for writes in count(1):
        transport = CrashingTransport(
            transport_of(cluster),
            writes,
            last_write_arrives=last_arrives or writes == 1,
            counts_as_write=is_write,
        )
        clock = LoopClock()
        scheduler = build_scheduler(
            Client(transport, field_manager="scheduler"),
            settings,
            now=clock.now,
            monotonic=clock.monotonic,
            run_search=run_inline,
        )
        manager = Manager()
        manager.add(*scheduler.runnables)
        manager.add_leader_runnables(*scheduler.leader_runnables)
        run = asyncio.create_task(manager.run(signals=False))
        try:
            await transport.crashed.wait()
        finally:
            run.cancel()
            await asyncio.wait({run})


def replica_set(name: str, gpus: int, **annotations: str) -> dict[str, Any]:
    """A ReplicaSet of a pod for our scheduler."""
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


def owned_pod(
    owner: Any, name: str, gpus: int, *, gang: str = "", **metadata: Any
) -> dict[str, Any]:
    """A pod of a controller that the test simulates."""
    body, meta = pod(name, gpus, gang=gang), owner["metadata"]
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": meta["name"], "uid": meta["uid"]}
    body["metadata"] |= {"ownerReferences": [{**reference, "controller": True}], **metadata}
    return body


async def run_replica_set(client: Client, name: str, gpus: int, **annotations: str) -> str:
    """Create a ReplicaSet of one pod; returns its node."""
    await client.create(REPLICA_SETS, replica_set(name, gpus, **annotations), "default")
    return await is_placed(client, name)


async def create_fragmented_nodes(client: Client, **annotations: str) -> tuple[str, str]:
    """One node with a large pod, another with a small one that would fit next to it; returns both
    nodes."""
    nodes = {
        "large": await run_replica_set(client, "large", 6),
        "leaving": await run_replica_set(client, "leaving", 6),
    }
    alone = await run_replica_set(client, "small", 2, **annotations)
    beside, other = sorted(nodes, key=lambda name: nodes[name] != alone)
    await client.delete(REPLICA_SETS, beside, "default")
    return nodes[other], alone


async def create_half_full_nodes(client: Client) -> None:
    """Two nodes, each half used by a ReplicaSet of its own: left and right."""
    for name in ("left", "one", "right", "two"):
        await run_replica_set(client, name, 4)
    for name in ("one", "two"):
        await client.delete(REPLICA_SETS, name, "default")


async def is_placed(client: Client, name: str, *, other_than: str = "") -> str:
    """Wait until all pods of a ReplicaSet are bound; returns the node of the first."""
    found: list[str] = []

    async def are_bound() -> bool:
        found[:] = await nodes_of_replica_set(client, name)
        return bool(found) and all(each and each != other_than for each in found)

    await wait_for_condition(are_bound, within=300)
    return found[0]


async def nodes_of_replica_set(client: Client, name: str) -> list[str]:
    """The nodes of a ReplicaSet's pods that are not terminating."""
    listing = await client.list(PODS, "default", label_selector=f"app={name}")
    here = (
        each
        for each in listing.items
        if "deletionTimestamp" not in each["metadata"] and each["status"].get("phase") != "Failed"
    )
    return [each["spec"].get("nodeName", "") for each in here]
