"""The agent of one node: hardware that is simulated, objects of an embedded cluster."""

from pathlib import Path
from typing import Any

import pytest

from kilonova.api.gpu.annotations import TOPOLOGY, Topology, parse_topology
from kilonova.api.gpu.health import HEALTH
from kilonova.gpu.devices.simulated import ProcessLoad, SimulatedBackend
from kilonova.gpu.mig.node_lock import EngineIsRunning
from kilonova.kube import Client
from tests.gpu.agent.agent_cluster import find_condition_of, list_instances
from tests.gpu.agent.local_agents import NODE, build_backend, create_pod, run_agent, run_node
from tests.local.embedded_cluster import (
    EVENTS,
    NODES,
    PODS,
    advance_time,
    find,
    virtual_time,
    wait_deleted,
    wait_for_condition,
)

pytestmark = virtual_time


async def wait_for_instances(client: Client, wanted: dict[int, list[tuple[str, int]]]) -> None:
    async def exist() -> bool:
        node = await client.get(NODES, NODE)
        has = TOPOLOGY in node["metadata"].get("annotations", {})
        return has and await list_instances(client, NODE) == wanted

    await wait_for_condition(exist)


async def wait_for_health(client: Client, index: int, healthy: bool) -> None:
    async def reached() -> bool:
        node = await client.get(NODES, NODE)
        topology = parse_topology(node["metadata"].get("annotations", {}).get(TOPOLOGY, "{}"))
        return isinstance(topology, Topology) and topology.gpus[index].healthy is healthy

    await wait_for_condition(reached, within=300)


async def event_reasons(client: Client) -> list[str]:
    return [each["reason"] for each in (await client.list(EVENTS)).items]


async def test_node_gets_all_that_is_known_of_its_gpus(tmp_path: Path) -> None:
    async with run_node() as (_, client), run_agent(client, build_backend(), tmp_path):
        await wait_for_instances(client, {})
        node = await client.get(NODES, NODE)
        assert node["metadata"]["labels"]["nvidia.com/gpu.product"] == "NVIDIA-H100-80GB-HBM3"
        assert node["status"]["allocatable"]["nvidia.com/gpu"] == "2"
        condition = await find_condition_of(client, NODE, "GPUHealthy")
        assert condition["reason"] == "AllGPUsHealthy"


async def test_agent_at_rest_writes_nothing(tmp_path: Path) -> None:
    async with (
        run_node(["0:1g.10gb@0"]) as (_, client),
        run_agent(client, build_backend(), tmp_path),
    ):
        await wait_for_instances(client, {0: [("1g.10gb", 0)]})
        await advance_time(5)
        before = (await client.get(NODES, NODE))["metadata"]["resourceVersion"]
        await advance_time(1000)
        assert (await client.get(NODES, NODE))["metadata"]["resourceVersion"] == before


async def test_second_agent_on_a_node_is_refused(tmp_path: Path) -> None:
    backend = build_backend()
    async with run_node() as (_, client), run_agent(client, backend, tmp_path):
        with pytest.raises(EngineIsRunning, match="nothing was changed"):
            async with run_agent(client, backend, tmp_path):
                raise AssertionError("unreachable")


async def test_pods_that_come_and_go_change_only_their_own_instances(tmp_path: Path) -> None:
    backend = build_backend()
    async with (
        run_node(["0:1g.10gb@0", "0:1g.10gb@1"]) as (_, client),
        run_agent(client, backend, tmp_path),
    ):
        await wait_for_instances(client, {0: [("1g.10gb", 0), ("1g.10gb", 1)]})
        kept = backend.read_inventory().devices[0].instances[0]
        backend.set_load(kept.uuid, ProcessLoad(7, 0.5, 1 << 30))
        await client.delete(PODS, "pod-1", "default", grace_period_seconds=0)
        await create_pod(client, "next", "0:2g.20gb@0")  # contradicts pod-0: it is not made
        await create_pod(client, "last", "0:3g.40gb@4")

        await wait_for_instances(client, {0: [("1g.10gb", 0), ("1g.10gb", 1), ("3g.40gb", 4)]})
        assert kept in backend.read_inventory().devices[0].instances
        condition = await find_condition_of(client, NODE, "MIGReady")
        assert condition["status"] == "False"
        assert "default/next" in condition["message"]


async def test_fatal_xid_drains_resets_and_recovers_the_gpu(tmp_path: Path) -> None:
    backend = build_backend()
    uuid = backend.read_inventory().devices[0].uuid
    async with run_node(["0", "1"]) as (_, client), run_agent(client, backend, tmp_path):
        await wait_for_instances(client, {})
        backend.inject_xid(uuid, 48)
        await wait_for_health(client, 0, False)
        allocatable = (await client.get(NODES, NODE))["status"]["allocatable"]
        assert allocatable["nvidia.com/gpu"] == "1"
        await wait_deleting(client, "pod-0")
        await client.delete(PODS, "pod-0", "default", grace_period_seconds=0)
        await wait_deleted(client, PODS, "pod-0")

        await wait_for_health(client, 0, True)
        assert await find(client, PODS, "pod-1") is not None
        node = await client.get(NODES, NODE)
        assert HEALTH not in node["metadata"]["annotations"]
        await advance_time(2)
        reasons = await event_reasons(client)
        for reason in ("GPUUnhealthy", "EvictedFromGPU", "GPUReset", "GPURecovered"):
            assert reason in reasons


async def wait_deleting(client: Client, pod: str) -> None:
    async def deleting() -> bool:
        found = await find(client, PODS, pod)
        return found is None or bool(found["metadata"].get("deletionTimestamp"))

    await wait_for_condition(deleting)


async def test_transient_xid_is_told_and_nothing_else_happens(tmp_path: Path) -> None:
    backend = build_backend()
    uuid = backend.read_inventory().devices[0].uuid
    async with run_node(["0"]) as (_, client), run_agent(client, backend, tmp_path):
        await wait_for_instances(client, {})
        backend.inject_xid(uuid, 31)
        await advance_time(60)
        assert "XidTransient" in await event_reasons(client)
        pod = await client.get(PODS, "pod-0", "default")
        assert "deletionTimestamp" not in pod["metadata"]
        await wait_for_health(client, 0, True)


async def test_health_outlasts_the_agent(tmp_path: Path) -> None:
    backend = build_backend()
    uuid = backend.read_inventory().devices[0].uuid
    async with run_node() as (_, client):
        async with run_agent(client, backend, tmp_path):
            await wait_for_instances(client, {})
            backend.inject_xid(uuid, 142)
            await wait_for_health(client, 0, False)
        async with run_agent(client, backend, tmp_path):
            await advance_time(120)
            await wait_for_health(client, 0, False)
            condition = await find_condition_of(client, NODE, "GPUHealthy")
            assert "XID 142" in condition["message"]


async def test_disruption_budget_holds_the_eviction_back(tmp_path: Path) -> None:
    from kilonova.kube.client.resource import unstructured_resource

    budgets = unstructured_resource(
        "policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", True
    )
    backend = build_backend()
    async with run_node() as (_, client), run_agent(client, backend, tmp_path):
        await create_pod(client, "guarded", "0")
        body: Any = {"metadata": {"labels": {"app": "x"}}}
        await client.patch(PODS, "guarded", body, "default")
        ready = [{"type": "Ready", "status": "True"}]
        status: Any = {"status": {"phase": "Running", "conditions": ready}}
        await client.patch(PODS, "guarded", status, "default", subresource="status")
        budget: Any = {
            "metadata": {"name": "b"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}},
        }
        await client.create(budgets, budget, "default")
        await wait_for_instances(client, {})
        backend.inject_xid(backend.read_inventory().devices[0].uuid, 48)
        await advance_time(60)
        pod = await client.get(PODS, "guarded", "default")
        assert "deletionTimestamp" not in pod["metadata"]
        assert "EvictionRefused" in await event_reasons(client)

        await client.delete(budgets, "b", "default")
        await wait_deleting(client, "guarded")


async def test_all_gpus_lost_taints_the_node(tmp_path: Path) -> None:
    backend = build_backend("h100:1")
    async with run_node() as (_, client), run_agent(client, backend, tmp_path):
        await wait_for_instances(client, {})
        backend.lose(backend.read_inventory().devices[0].uuid)
        await wait_for_taints(client, ["gpu.kilonova.dev/unhealthy"])
        backend.reset(backend.read_inventory().devices[0].uuid)
        await wait_for_taints(client, [])


async def wait_for_taints(client: Client, wanted: list[str]) -> None:
    async def has() -> bool:
        node = await client.get(NODES, NODE)
        return [each["key"] for each in node["spec"].get("taints", [])] == wanted

    await wait_for_condition(has, within=120)


async def test_pod_on_another_gpu_than_it_was_assigned_is_told(tmp_path: Path) -> None:
    backend = build_backend()
    wrong = backend.read_inventory().devices[1].uuid
    async with run_node() as (_, client):
        pod = await create_pod(client, "astray", "0")
        uid = pod["metadata"]["uid"]
        processes: dict[int, str] = {42: uid}

        def pods_of(pids: Any) -> dict[int, str]:
            return {pid: processes[pid] for pid in pids if pid in processes}

        async with run_agent(client, backend, tmp_path, pods_of=pods_of):
            await wait_for_instances(client, {})
            run_on(backend, wrong, 42)
            await advance_time(60)
            found = [
                each["message"]
                for each in (await client.list(EVENTS)).items
                if each["reason"] == "DeviceMismatch"
            ]
            assert found == [
                "Uses GPU 1, but was assigned 0: its container sees devices that the "
                "scheduler did not choose"
            ]


def run_on(backend: SimulatedBackend, target: str, pid: int) -> None:
    backend.set_load(target, ProcessLoad(pid, 0.9, 1 << 30))
