"""Simulated nodes on both servers: they need nothing but a client."""

import asyncio
from datetime import UTC, datetime

from kilonova.kube import Reflector
from kilonova.local.simnodes import Fleet, SimulatedNodes
from kilonova.local.simnodes.fleet.model import GpuSpec, NodeGroup
from kilonova.local.simnodes.gpus.topology import read_unhealthy_gpus
from kilonova.local.simnodes.simulation import PODS as SIM_PODS
from tests.conftest import Api
from tests.local.embedded_cluster import (
    LEASES,
    NODES,
    PODS,
    find,
    pod,
    wait_deleted,
    wait_for_condition,
)


async def test_pod_on_a_simulated_node_runs_and_is_deleted(api: Api) -> None:
    name = f"{api.namespace}-gpu"
    group = NodeGroup(name, gpu=GpuSpec("L4", 1, "24Gi"), start="10ms", stop="10ms")
    async with api.client() as client:
        pods = Reflector(client, SIM_PODS)
        fleet = Fleet(nodes=(group,), heartbeat="200ms")
        nodes = SimulatedNodes(client, fleet, lambda: datetime.now(UTC), pods)
        parts = [asyncio.create_task(part.run()) for part in (pods, nodes)]
        try:
            await nodes.wait_registered()
            node = await find(client, NODES, f"{name}-0")
            assert node["status"]["allocatable"]["nvidia.com/gpu"] == "1"
            body = pod("p", nodeName=f"{name}-0", requests={"cpu": "1"})
            await client.create(PODS, body, api.namespace)

            async def runs() -> bool:
                found = await find(client, PODS, "p", api.namespace)
                return found["status"]["phase"] == "Running"

            await wait_for_condition(runs)
            status = (await find(client, PODS, "p", api.namespace))["status"]
            assert status["podIP"]
            assert status["containerStatuses"][0]["ready"] is True
            before = await find(client, LEASES, f"{name}-0", "kube-node-lease")

            async def renewed() -> bool:
                lease = await find(client, LEASES, f"{name}-0", "kube-node-lease")
                return lease["spec"]["renewTime"] > before["spec"]["renewTime"]

            await wait_for_condition(renewed)
            lost = {"metadata": {"annotations": {"sim.kilonova.dev/lost-gpus": "0"}}}
            await client.patch(NODES, f"{name}-0", lost)

            async def has_none() -> bool:
                node = await find(client, NODES, f"{name}-0")
                return node["status"]["allocatable"]["nvidia.com/gpu"] == "0"

            await wait_for_condition(has_none)
            node = await find(client, NODES, f"{name}-0")
            assert read_unhealthy_gpus(node["metadata"]["annotations"]) == {0}, (
                "published in the same write"
            )
            await client.delete(PODS, "p", api.namespace)
            await wait_deleted(client, PODS, "p", api.namespace)
        finally:
            for part in parts:
                part.cancel()
            await asyncio.gather(*parts, return_exceptions=True)
            await client.delete(NODES, f"{name}-0")


async def test_a_node_that_is_created_boots_runs_a_pod_and_is_interrupted(api: Api) -> None:
    name = f"{api.namespace}-spot"
    described = "{boot: 500ms, start: 10ms, stop: 10ms, failures: {interruptionNotice: 1s}}"
    labels = {
        "kilonova.dev/node-kind": "sim",
        "node.kubernetes.io/instance-type": "g6.xlarge",
        "karpenter.sh/capacity-type": "spot",
    }
    annotations = {"sim.kilonova.dev/machine": described}
    async with api.client() as client:
        pods = Reflector(client, SIM_PODS)
        nodes = SimulatedNodes(
            client, Fleet(heartbeat="1s"), lambda: datetime.now(UTC), pods, exclusive=True
        )
        parts = [asyncio.create_task(part.run()) for part in (pods, nodes)]
        try:
            body = {"metadata": {"name": name, "labels": labels, "annotations": annotations}}
            await client.create(NODES, body)

            async def is_ready() -> bool:
                found = (await find(client, NODES, name))["status"].get("conditions", ())
                return ("Ready", "True") in [(each["type"], each["status"]) for each in found]

            await wait_for_condition(is_ready)
            found = await find(client, NODES, name)
            assert found["status"]["allocatable"]["nvidia.com/gpu"] == "1"
            assert found["metadata"]["labels"]["nvidia.com/gpu.product"] == "NVIDIA-L4"
            await client.create(PODS, pod("p", nodeName=name), api.namespace)

            async def runs() -> bool:
                status = (await find(client, PODS, "p", api.namespace))["status"]
                return status["phase"] == "Running"

            await wait_for_condition(runs)
            notice = {"metadata": {"annotations": {"sim.kilonova.dev/interruption": "true"}}}
            await client.patch(NODES, name, notice)
            await wait_deleted(client, NODES, name, None)

            async def lease_is_gone() -> bool:
                return await find(client, LEASES, name, "kube-node-lease") is None

            await wait_for_condition(lease_is_gone)
        finally:
            for part in parts:
                part.cancel()
            await asyncio.gather(*parts, return_exceptions=True)
            await client.delete_collection(PODS, api.namespace, grace_period_seconds=0)
