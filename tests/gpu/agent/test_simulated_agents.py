"""Agents of simulated nodes on the embedded cluster, in virtual time."""

from pathlib import Path
from typing import Any

from msgspec.structs import replace

from kilonova import __version__
from kilonova.api.gpu.annotations import AGENT, DEVICES
from kilonova.api.gpu.metrics import ANNOTATION as METRICS_ANNOTATION
from kilonova.api.gpu.metrics import parse_readings
from kilonova.kube import Client
from kilonova.kube.client.resource import unstructured_resource
from tests.gpu.agent.agent_cluster import (
    H100,
    find_condition_of,
    gpu_fleet,
    gpu_pod,
    list_instances,
    read_topology,
    run_gpu_cluster,
    wait_for_phase,
)
from tests.local.embedded_cluster import (
    NODES,
    PODS,
    advance_time,
    find,
    virtual_time,
    wait_deleted,
    wait_for_condition,
)

CLAIMS = unstructured_resource("resource.k8s.io", "v1", "resourceclaims", "ResourceClaim", True)
METRICS = unstructured_resource("metrics.k8s.io", "v1beta1", "nodes", "NodeMetrics", False)
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


@virtual_time
async def test_claim_gets_its_mig_instance_before_its_pod_starts() -> None:
    gpu = replace(H100, dra="mig", count=2)
    async with run_gpu_cluster(gpu_fleet(gpu)) as (_, client):
        await wait_for_claim(client)
        spec = {"resourceClaims": [{"name": "gpu", "resourceClaimName": "c"}], "nodeName": NODE}
        pod = await client.create(PODS, gpu_pod("user", requests={}, spec=spec), "default")
        request = {"name": "gpu", "exactly": {"deviceClassName": "mig.nvidia.com"}}
        body: Any = {"metadata": {"name": "c"}, "spec": {"devices": {"requests": [request]}}}
        await client.create(CLAIMS, body, "default")
        result = {
            "request": "gpu",
            "driver": "gpu.nvidia.com",
            "pool": NODE,
            "device": "gpu-1-mig-3g40gb-9-4",
        }
        user = {"resource": "pods", "name": "user", "uid": pod["metadata"]["uid"]}
        status: Any = {"allocation": {"devices": {"results": [result]}}, "reservedFor": [user]}
        await client.patch(CLAIMS, "c", {"status": status}, "default", subresource="status")
        await wait_until_creating(client, "user")
        await wait_for_phase(client, "user", "Running")
        assert await list_instances(client, NODE) == {1: [("3g.40gb", 4)]}


@virtual_time
async def test_lost_gpu_is_marked_its_pod_evicted_and_it_recovers() -> None:
    async with run_gpu_cluster() as (_, client):
        await wait_for_claim(client)
        await client.create(PODS, gpu_pod("user"), "default")
        await wait_for_phase(client, "user", "Running")
        index = (await client.get(PODS, "user", "default"))["metadata"]["annotations"][DEVICES]
        await set_annotation(client, "sim.kilonova.dev/lost-gpus", index)

        async def marked() -> bool:
            return not (await read_topology(client, NODE)).gpus[int(index)].healthy

        await wait_for_condition(marked)
        await wait_deleted(client, PODS, "user")
        await set_annotation(client, "sim.kilonova.dev/lost-gpus", None)

        async def recovered() -> bool:
            return (await read_topology(client, NODE)).gpus[int(index)].healthy

        await wait_for_condition(recovered)
        node = await client.get(NODES, NODE)
        assert node["status"]["allocatable"]["nvidia.com/gpu"] == "8"


@virtual_time
async def test_xid_that_is_injected_into_a_node_is_recovered_by_a_reset() -> None:
    async with run_gpu_cluster() as (_, client):
        await wait_for_claim(client)
        await set_annotation(client, "sim.kilonova.dev/xid", "48@3")

        async def healthy(wanted: bool) -> bool:
            return (await read_topology(client, NODE)).gpus[3].healthy is wanted

        await wait_for_condition(lambda: healthy(False))
        await wait_for_condition(lambda: healthy(True), within=120)


@virtual_time
async def test_new_process_continues_with_the_instances_of_the_last_one(tmp_path: Path) -> None:
    async with run_gpu_cluster(data=tmp_path) as (_, client):
        await wait_for_claim(client)
        await client.create(PODS, gpu_pod("small", requests=MIG), "default")
        await wait_for_phase(client, "small", "Running")
        before = await list_instances(client, NODE)
    async with run_gpu_cluster(data=tmp_path) as (_, client):
        await wait_for_phase(client, "small", "Running")
        await advance_time(30)
        assert await list_instances(client, NODE) == before


@virtual_time
async def test_claims_of_agents_end_with_them(tmp_path: Path) -> None:
    async with run_gpu_cluster(data=tmp_path) as (_, client):
        await wait_for_claim(client)
    async with run_gpu_cluster(data=tmp_path, components=("scheduler",)) as (_, client):
        node = await client.get(NODES, NODE)
        assert AGENT not in node["metadata"]["annotations"]
        await client.create(PODS, gpu_pod("small", requests=MIG), "default")
        await wait_for_phase(client, "small", "Running")


@virtual_time
async def test_readings_come_from_the_devices_of_running_pods() -> None:
    async with run_gpu_cluster() as (cluster, client):
        await wait_for_claim(client)
        assert cluster.kubelets.read_gpus(NODE) is None
        await client.create(PODS, gpu_pod("user", requests={"nvidia.com/gpu": "2"}), "default")
        await wait_for_phase(client, "user", "Running")
        metrics = await client.get(METRICS, NODE)
        readings = parse_readings(metrics["metadata"]["annotations"][METRICS_ANNOTATION])
        busy = [each for each in readings if each.utilisation]
        assert (len(readings), len(busy)) == (8, 2)
        assert all(each.power and each.power > 200 and each.memory for each in busy)


async def set_annotation(client: Client, name: str, value: str | None) -> None:
    await client.patch(NODES, NODE, {"metadata": {"annotations": {name: value}}})
