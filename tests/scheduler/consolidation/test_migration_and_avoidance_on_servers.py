"""Migrated and failed pods on both API servers, each with its own ReplicaSet controller."""

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager

import pytest

from kilonova.api.crds import load_definitions
from kilonova.kube import Client, NotFound
from kilonova.kube.client.config.client_config import connect
from kilonova.scheduler.assembly import build_scheduler
from kilonova.scheduler.settings import ConsolidationLimits, SchedulerSettings
from tests.harness.access import ServerAccess
from tests.local.embedded_cluster import DEFINITIONS, EVENTS, NODES, PODS, wait_for_condition
from tests.scheduler.harness.consolidation import (
    REPLICA_SETS,
    create_fragmented_nodes,
    is_placed,
    run_replica_set,
)
from tests.scheduler.harness.embedded_scheduler import GANGS, QUEUES, is_served
from tests.scheduler.harness.servers import server_with
from tests.workloads.workload_cluster import run_runnables

NS = "default"


@pytest.fixture(scope="module", params=["embedded", "kubernetes"])
def access(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServerAccess]:
    """A server with a ReplicaSet controller."""
    folder = tmp_path_factory.mktemp(request.param)
    with server_with("replicaset-controller", request.param, folder) as found:
        yield found


async def test_pod_is_migrated_to_empty_a_node(access: ServerAccess) -> None:
    promised: set[str] = set()
    settings = SchedulerSettings(
        consolidation=ConsolidationLimits(interval=0.5), eviction_timeout=30
    )
    async with stage(access, settings, promised, "n0", "n1") as client:
        full, alone = await create_fragmented_nodes(client)
        assert await is_placed(client, "small", other_than=alone) == full
        await wait_for_condition(lambda: _has_eviction_event(client))
    assert promised == {full}


async def test_replacement_avoids_the_node_of_the_failure(
    access: ServerAccess,
) -> None:
    async with stage(access, SchedulerSettings(), set(), "m0", "m1") as client:
        bad = await run_replica_set(client, "job", 4)
        [pod] = (await client.list(PODS, NS, label_selector="app=job")).items
        failed = {"status": {"phase": "Failed", "reason": "UnexpectedAdmissionError"}}
        await client.patch(PODS, pod["metadata"]["name"], failed, NS, subresource="status")
        assert await is_placed(client, "job", other_than=bad) != bad


@asynccontextmanager
async def stage(
    access: ServerAccess, settings: SchedulerSettings, promised: set[str], *nodes: str
) -> AsyncGenerator[Client]:
    """A server with nodes and our scheduler; cleaned up afterwards, with all ReplicaSets."""
    async with connect(access.kubeconfig) as client:
        known = {each["metadata"]["name"] for each in (await client.list(DEFINITIONS)).items}
        for definition in load_definitions():
            if definition["metadata"]["name"] not in known:
                await client.create(DEFINITIONS, definition)
        for resource in (GANGS, QUEUES):
            await wait_for_condition(lambda each=resource: is_served(client, each))
        capacity = {"cpu": "64", "memory": "256Gi", "pods": "110", "nvidia.com/gpu": "8"}
        status = {"capacity": capacity, "allocatable": capacity}
        for name in nodes:
            await client.create(NODES, {"metadata": {"name": name}, "status": status})
        scheduler = build_scheduler(client, settings)
        kubelet = asyncio.create_task(_remove_finalizers(client, promised))
        try:
            async with run_runnables(scheduler.runnables, scheduler.leader_runnables):
                yield client
            for each in (await client.list(REPLICA_SETS, NS)).items:
                await client.delete(REPLICA_SETS, each["metadata"]["name"], NS)
            for name in nodes:
                await client.delete(NODES, name)
        finally:
            kubelet.cancel()
            await asyncio.wait({kubelet})


async def _has_eviction_event(client: Client) -> bool:
    events = (await client.list(EVENTS, NS)).items
    return any(each["reason"] == "EvictedForConsolidation" for each in events)


async def _remove_finalizers(client: Client, promised: set[str]) -> None:
    """Act as a kubelet for evicted pods, and record the target nodes in their conditions."""
    while True:
        for pod in (await client.list(PODS, NS)).items:
            meta = pod["metadata"]
            if "deletionTimestamp" not in meta:
                continue
            promised |= {
                each["message"]
                for each in pod["status"].get("conditions", [])
                if each["type"] == "scheduling.kilonova.dev/Migrating"
            }
            try:
                await client.delete(PODS, meta["name"], NS, grace_period_seconds=0)
            except NotFound:
                continue
        await asyncio.sleep(0.05)
