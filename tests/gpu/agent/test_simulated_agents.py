"""Agents of simulated nodes on the embedded cluster, in virtual time."""

from typing import Any

from kilonova import __version__
from kilonova.api.gpu_annotations import AGENT, DEVICES
from kilonova.kube import Client
from tests.gpu.agent.agent_cluster import (
    find_condition_of,
    gpu_fleet,
    gpu_pod,
    list_instances,
    read_topology,
    run_gpu_cluster,
    wait_for_phase,
)
from tests.local.embedded_cluster import NODES, PODS, find, virtual_time, wait_for_condition

NODE = "gpu-0"
MIG = {"nvidia.com/mig-1g.10gb": "1"}


@virtual_time
async def test_untouched_node_is_claimed_as_its_machine_published_it() -> None:
    async with run_gpu_cluster() as (_, client):

        async def claimed() -> bool:
            return await find_condition_of(client, NODE, "GPUHealthy") is not None

        await wait_for_condition(claimed)
        node = await client.get(NODES, NODE)
        assert node["metadata"]["annotations"][AGENT] == __version__
        condition = await find_condition_of(client, NODE, "GPUHealthy")
        assert (condition["status"], condition["message"]) == ("True", "all 8 GPUs are healthy")


@virtual_time
async def test_mig_pod_starts_when_its_instance_exists() -> None:
    async with run_gpu_cluster() as (_, client):
        await wait_for_claim(client)
        await client.create(PODS, gpu_pod("small", requests=MIG), "default")
        await wait_until_creating(client, "small")
        assert await list_instances(client, NODE) == {}

        await wait_for_phase(client, "small", "Running")
        pod = await client.get(PODS, "small", "default")
        index, _, place = pod["metadata"]["annotations"][DEVICES].partition(":")
        profile, _, start = place.partition("@")
        assert await list_instances(client, NODE) == {int(index): [(profile, int(start))]}
        condition = await find_condition_of(client, NODE, "MIGReady")
        assert condition["status"] == "True"
        node = await client.get(NODES, NODE)
        assert node["status"]["allocatable"]["nvidia.com/mig-1g.10gb"] == "1"


@virtual_time
async def test_whole_gpu_is_given_back_by_idle_instances() -> None:
    async with run_gpu_cluster() as (_, client):
        await wait_for_claim(client)
        await client.create(PODS, gpu_pod("small", requests=MIG), "default")
        await wait_for_phase(client, "small", "Running")
        await client.delete(PODS, "small", "default", grace_period_seconds=0)
        await client.create(PODS, gpu_pod("all", requests={"nvidia.com/gpu": "8"}), "default")
        await wait_for_phase(client, "all", "Running")
        topology = await read_topology(client, NODE)
        assert not any(gpu.mig_enabled for gpu in topology.gpus)


async def wait_for_claim(client: Client, node: str = NODE) -> None:
    async def claimed() -> bool:
        found: Any = await client.get(NODES, node)
        return AGENT in found["metadata"]["annotations"]

    await wait_for_condition(claimed)


async def wait_until_creating(client: Client, pod: str) -> None:
    async def creating() -> bool:
        found = await find(client, PODS, pod)
        statuses = found.get("status", {}).get("containerStatuses", [])
        waiting = [each["state"].get("waiting", {}) for each in statuses]
        return any(
            each.get("reason") == "ContainerCreating" and "MIG instances" in each["message"]
            for each in waiting
        )

    await wait_for_condition(creating, every=0.01)


_ = gpu_fleet
