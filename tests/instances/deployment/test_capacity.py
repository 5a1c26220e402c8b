"""Deployments on a cluster with accelerators and a scheduler, in virtual time: how many more
instances fit, and updates that would not fit."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from kilonova.api.inference_engine import names
from kilonova.instances.assembly import build_instance_controllers
from kilonova.kube import Client, Manager
from tests.instances.deployment.deployment_cluster import (
    DEPLOYMENTS,
    INSTANCES,
    DeploymentCluster,
    SimulatedEngines,
    condition_of,
    is_served,
)
from tests.instances.instance_cluster import (
    NAMESPACE,
    NODES,
    PODS,
    accelerator_nodes,
    instance_cluster,
)
from tests.local.embedded_cluster import LoopClock, virtual_time, wait_for_condition


def engine(release: str = "r1", agents: int = 2, gpus: int = 4, **spec: Any) -> dict[str, Any]:
    """A template; by default an instance fills a node of 8 accelerators."""
    return {
        "model": "llama",
        "image": f"engine:{release}",
        "targetAgents": agents,
        "accelerator": {"count": gpus},
        **spec,
    }


@asynccontextmanager
async def capacity_cluster(nodes: int = 4) -> AsyncGenerator[DeploymentCluster]:
    """Nodes of 8 accelerators, all controllers and the scheduler."""
    async with instance_cluster(accelerator_nodes(nodes)) as cluster:
        client = cluster.client
        await wait_for_condition(lambda: is_served(client, DEPLOYMENTS))
        unused = SimulatedEngines(client, LoopClock().now)
        yield DeploymentCluster(client, NAMESPACE, unused)


async def deploy(cluster: DeploymentCluster, replicas: int, **fields: Any) -> Any:
    body = {
        "metadata": {"name": "llama"},
        "spec": {"replicas": replicas, "release": "r1", "template": engine(), **fields},
    }
    return await cluster.client.create(DEPLOYMENTS, body, NAMESPACE)


async def list_gpu_nodes(client: Client) -> dict[str, str]:
    """The node of each agent."""
    pods = (await client.list(PODS, NAMESPACE)).items
    return {
        each["metadata"]["name"]: each["spec"].get("nodeName", "")
        for each in pods
        if each["metadata"]["labels"].get(names.ROLE) == "agent"
        and "deletionTimestamp" not in each["metadata"]
    }


@virtual_time
async def test_status_says_how_many_more_would_fit_as_nodes_come_and_go() -> None:
    async with capacity_cluster() as cluster:
        await deploy(cluster, 1)
        await cluster.wait_for(lambda status: status["readyReplicas"] == 1)
        status = await cluster.wait_for(lambda status: status.get("additionalReplicas") == 3)
        assert status["additionalReplicasMessage"]
        node = next(iter(set((await list_gpu_nodes(cluster.client)).values())))
        free = [
            each["metadata"]["name"]
            for each in (await cluster.client.list(NODES)).items
            if each["metadata"]["name"] != node
        ]
        await cluster.client.patch(NODES, free[0], {"spec": {"unschedulable": True}})
        await cluster.wait_for(lambda status: status.get("additionalReplicas") == 2)
        await cluster.client.patch(NODES, free[0], {"spec": {"unschedulable": None}})
        await cluster.wait_for(lambda status: status.get("additionalReplicas") == 3)


@virtual_time
async def test_replica_that_does_not_lead_is_ready() -> None:
    """It runs the caches of the controllers alone."""
    async with instance_cluster(controllers=False) as cluster:
        built = build_instance_controllers(cluster.client)
        manager = Manager()
        manager.add(*built.runnables)
        manager.add_leader_runnables(*built.leader_runnables)
        assert manager.unsynced_caches()
        tasks = [asyncio.create_task(each.run()) for each in built.caches.runnables]

        async def is_ready() -> bool:
            return not manager.unsynced_caches()

        await wait_for_condition(is_ready)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


@virtual_time
async def test_deployment_of_no_instances_says_how_many_would_fit() -> None:
    async with capacity_cluster() as cluster:
        await deploy(cluster, 0)
        await cluster.wait_for(lambda status: status.get("additionalReplicas") == 4)
        await cluster.patch({"release": "r2", "template": engine("r2", gpus=16)})
        status = await cluster.wait_for(lambda status: status.get("additionalReplicas") == 0)
        assert "nvidia.com/gpu" in status["additionalReplicasMessage"]


@virtual_time
async def test_reason_is_told_where_instances_cannot_be_built_at_all() -> None:
    async with capacity_cluster() as cluster:
        await deploy(cluster, 0, template=engine(priorityClassName="gold"))
        status = await cluster.wait_for(lambda status: status.get("additionalReplicas") == 0)
        assert "no class 'gold'" in status["additionalReplicasMessage"]


@virtual_time
async def test_full_cluster_is_updated_in_the_place_of_outdated_instances() -> None:
    async with capacity_cluster(nodes=2) as cluster:
        await deploy(cluster, 2)
        await cluster.wait_for_reason("Progressing", "NewRevisionAvailable")
        await cluster.patch({"release": "r2", "template": engine("r2")})
        await cluster.wait_for_reason("Progressing", "NewRevisionAvailable")
        assert await cluster.list_releases() == ["r2"] * 2
        assert set((await list_gpu_nodes(cluster.client)).values()) == {"node-0", "node-1"}


@virtual_time
async def test_update_that_would_not_fit_gives_up_no_instance() -> None:
    async with capacity_cluster(nodes=2) as cluster:
        await deploy(cluster, 2)
        await cluster.wait_for_reason("Progressing", "NewRevisionAvailable")
        # An instance of the next release needs both nodes; one is all that may be given up.
        await cluster.patch({"release": "r2", "template": engine("r2", agents=4)})
        status = await cluster.wait_for_reason("AllocationBlocked", "UpdateWouldNotFit")
        assert "2 outdated kept" in condition_of(status, "AllocationBlocked")["message"]
        await asyncio.sleep(600)
        assert await cluster.list_releases() == ["r1"] * 2
        assert (await cluster.get_status())["readyReplicas"] == 2
        # With both given up, one instance fits.
        await cluster.patch({"replicas": 1, "strategy": {"maxUnavailable": "100%"}})
        await cluster.wait_for_reason("Progressing", "NewRevisionAvailable")
        assert await cluster.list_releases() == ["r2"]


@virtual_time
async def test_freed_capacity_goes_to_the_instance_that_waits() -> None:
    async with capacity_cluster(nodes=2) as cluster:
        await deploy(cluster, 3, template=engine(repair={"deadline": "30s"}))
        status = await cluster.wait_for(lambda status: status["unallocatable"] == 1)
        assert status["readyReplicas"] == 2
        assert condition_of(status, "AllocationBlocked")["status"] == "True"
        ready = (await cluster.list_ready())[0]["metadata"]["name"]
        # Its place is taken by the one that waits; its successor then waits.
        waiting = {each["metadata"]["name"] for each in await cluster.list_instances()} - {
            each["metadata"]["name"] for each in await cluster.list_ready()
        }
        await cluster.client.delete(INSTANCES, ready, NAMESPACE)

        async def is_taken() -> bool:
            now = {each["metadata"]["name"] for each in await cluster.list_ready()}
            return waiting <= now

        await wait_for_condition(is_taken, within=120)
        # Scaling down takes the instance without a place first.
        await cluster.wait_for(lambda status: status["unallocatable"] == 1)
        await cluster.patch({"replicas": 2})
        status = await cluster.wait_for(lambda status: status["unallocatable"] == 0)
        assert status["readyReplicas"] == 2
