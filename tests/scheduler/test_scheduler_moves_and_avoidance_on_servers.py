"""Pods that move or fail, on both servers, each with its own controller that makes them anew."""

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager

import pytest

from kilonova.api.crds import definitions
from kilonova.kube import Client, NotFound
from kilonova.kube.access import connect
from kilonova.scheduler.movelimits import MoveLimits
from kilonova.scheduler.scheduler import build_scheduler
from kilonova.scheduler.settings import Settings
from tests.harness.access import Access
from tests.local.embedded_cluster import DEFINITIONS, EVENTS, NODES, PODS, eventually
from tests.scheduler.moving import REPLICA_SETS, fragmented, placed, run_set
from tests.scheduler.scheduling import GANGS, QUEUES, is_served
from tests.scheduler.servers import server_with
from tests.workloads.ground import parts_running

NS = "default"


@pytest.fixture(scope="module", params=["embedded", "kubernetes"])
def access(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Access]:
    """A server that makes pods of sets."""
    folder = tmp_path_factory.mktemp(request.param)
    with server_with("replicaset-controller", request.param, folder) as found:
        yield found


async def test_a_pod_moves_so_that_a_node_becomes_empty(access: Access) -> None:
    promised: set[str] = set()
    settings = Settings(moves=MoveLimits(every=0.5), patience=30)
    async with stage(access, settings, promised, "n0", "n1") as client:
        full, alone = await fragmented(client)
        assert await placed(client, "small", other_than=alone) == full
        await eventually(lambda: _was_told(client))
    assert promised == {full}


async def test_the_next_pod_of_a_workload_avoids_the_node_on_which_it_failed(
    access: Access,
) -> None:
    async with stage(access, Settings(), set(), "m0", "m1") as client:
        bad = await run_set(client, "job", 4)
        [pod] = (await client.list(PODS, NS, labels="app=job")).items
        failed = {"status": {"phase": "Failed", "reason": "UnexpectedAdmissionError"}}
        await client.patch(PODS, pod["metadata"]["name"], failed, NS, subresource="status")
        assert await placed(client, "job", other_than=bad) != bad


@asynccontextmanager
async def stage(
    access: Access, settings: Settings, promised: set[str], *nodes: str
) -> AsyncGenerator[Client]:
    """A server with nodes and our scheduler; afterwards it has neither, nor any set."""
    async with connect(access.kubeconfig) as client:
        known = {each["metadata"]["name"] for each in (await client.list(DEFINITIONS)).items}
        for definition in definitions():
            if definition["metadata"]["name"] not in known:
                await client.create(DEFINITIONS, definition)
        for resource in (GANGS, QUEUES):
            await eventually(lambda each=resource: is_served(client, each))
        capacity = {"cpu": "64", "memory": "256Gi", "pods": "110", "nvidia.com/gpu": "8"}
        status = {"capacity": capacity, "allocatable": capacity}
        for name in nodes:
            await client.create(NODES, {"metadata": {"name": name}, "status": status})
        scheduler = build_scheduler(client, settings)
        kubelet = asyncio.create_task(_let_go(client, promised))
        try:
            async with parts_running(scheduler.parts, scheduler.leading):
                yield client
            for each in (await client.list(REPLICA_SETS, NS)).items:
                await client.delete(REPLICA_SETS, each["metadata"]["name"], NS)
            for name in nodes:
                await client.delete(NODES, name)
        finally:
            kubelet.cancel()
            await asyncio.wait({kubelet})


async def _was_told(client: Client) -> bool:
    events = (await client.list(EVENTS, NS)).items
    return any(each["reason"] == "Moved" for each in events)


async def _let_go(client: Client, promised: set[str]) -> None:
    """What a kubelet does with pods that were told to go; notes the nodes they are promised."""
    while True:
        for pod in (await client.list(PODS, NS)).items:
            meta = pod["metadata"]
            if "deletionTimestamp" not in meta:
                continue
            promised |= {
                each["message"]
                for each in pod["status"].get("conditions", [])
                if each["type"] == "scheduling.kilonova.dev/Moving"
            }
            try:
                await client.delete(PODS, meta["name"], NS, grace=0)
            except NotFound:
                continue
        await asyncio.sleep(0.05)
