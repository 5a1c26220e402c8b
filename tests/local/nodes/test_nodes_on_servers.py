"""Simulated nodes on both servers: they need nothing but a client."""

import asyncio
from datetime import UTC, datetime

from kilonova.kube import Reflector
from kilonova.local.nodes import Fleet, SimulatedNodes
from kilonova.local.nodes.fleet import Gpu, NodeGroup
from kilonova.local.nodes.sim import PODS as SIM_PODS
from kilonova.local.nodes.topologies import unhealthy_gpus
from tests.conftest import Api
from tests.local.embedded_cluster import LEASES, NODES, PODS, eventually, find, gone, pod


async def test_a_pod_on_a_simulated_node_lives_and_goes(api: Api) -> None:
    name = f"{api.namespace}-gpu"
    group = NodeGroup(name, gpu=Gpu("L4", 1, "24Gi"), start="10ms", stop="10ms")
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

            await eventually(runs)
            status = (await find(client, PODS, "p", api.namespace))["status"]
            assert status["podIP"]
            assert status["containerStatuses"][0]["ready"] is True
            before = await find(client, LEASES, f"{name}-0", "kube-node-lease")

            async def renewed() -> bool:
                lease = await find(client, LEASES, f"{name}-0", "kube-node-lease")
                return lease["spec"]["renewTime"] > before["spec"]["renewTime"]

            await eventually(renewed)
            lost = {"metadata": {"annotations": {"sim.kilonova.dev/lost-gpus": "0"}}}
            await client.patch(NODES, f"{name}-0", lost)

            async def has_none() -> bool:
                node = await find(client, NODES, f"{name}-0")
                return node["status"]["allocatable"]["nvidia.com/gpu"] == "0"

            await eventually(has_none)
            node = await find(client, NODES, f"{name}-0")
            assert unhealthy_gpus(node["metadata"]["annotations"]) == {0}, "told in the same write"
            await client.delete(PODS, "p", api.namespace)
            await gone(client, PODS, "p", api.namespace)
        finally:
            for part in parts:
                part.cancel()
            await asyncio.gather(*parts, return_exceptions=True)
            await client.delete(NODES, f"{name}-0")
