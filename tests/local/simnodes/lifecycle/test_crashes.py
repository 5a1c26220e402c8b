"""A simulation that crashes at any write: the next one continues."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kilonova.kube import Client, Reflector
from kilonova.local.cluster import EmbeddedCluster
from kilonova.local.simnodes import NO_NODES, SimulatedNodes
from kilonova.local.simnodes.simulation import PODS as SIM_PODS
from tests.local.embedded_cluster import (
    LEASES,
    NODES,
    LoopClock,
    advance_time,
    find,
    run_cluster,
    virtual_time,
    wait_deleted,
    wait_for_condition,
)
from tests.workloads.crashing_operator import CrashingTransport, is_write

pytestmark = virtual_time

DESCRIBED = '{"boot": "20s", "failures": {"interruptionNotice": "30s"}}'
NODE = {
    "metadata": {
        "name": "spot",
        "labels": {
            "kilonova.dev/node-kind": "sim",
            "node.kubernetes.io/instance-type": "g6.xlarge",
        },
        "annotations": {"sim.kilonova.dev/machine": DESCRIBED},
    }
}
NOTICE = {"metadata": {"annotations": {"sim.kilonova.dev/interruption": "true"}}}


@asynccontextmanager
async def simulation(client: Client) -> AsyncGenerator[None]:
    pods = Reflector(client, SIM_PODS)
    nodes = SimulatedNodes(client, NO_NODES, LoopClock().now, pods, exclusive=True)
    tasks = [asyncio.create_task(part.run()) for part in (pods, nodes)]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def crash_after(cluster: EmbeddedCluster, writes: int, *, arrives: bool) -> None:
    """Simulate until the given write, which may still arrive; or for a while if it never comes."""
    inner = cluster.client("simulation")._transport  # pyright: ignore[reportPrivateUsage]  # of a cluster in this process
    transport = CrashingTransport(
        inner, writes, last_write_arrives=arrives, counts_as_write=is_write
    )
    async with simulation(Client(transport, field_manager="simulation")):
        try:
            async with asyncio.timeout(25):
                await transport.crashed.wait()
        except TimeoutError:
            return


@pytest.mark.parametrize("arrives", [False, True])
@pytest.mark.parametrize("writes", range(1, 6))
async def test_a_node_boots_once_wherever_its_launch_was_cut_off(
    writes: int, arrives: bool
) -> None:
    async with run_cluster(controllers="") as cluster:
        client = cluster.client("test")
        await client.create(NODES, NODE)
        await crash_after(cluster, writes, arrives=arrives)
        async with simulation(cluster.client("simulation")):

            async def is_ready() -> bool:
                found: Any = (await find(client, NODES, "spot"))["status"].get("conditions", ())
                return ("Ready", "True") in [(each["type"], each["status"]) for each in found]

            await advance_time(1)  # it may be ready before this process has seen it
            await wait_for_condition(is_ready, within=40)
            found = await find(client, NODES, "spot")
            assert found["spec"]["podCIDR"] == "10.255.255.0/24"
            assert await find(client, LEASES, "spot", "kube-node-lease")
            await client.delete(NODES, "spot")
            await wait_deleted(client, LEASES, "spot", "kube-node-lease")


@pytest.mark.parametrize("arrives", [False, True])
@pytest.mark.parametrize("writes", range(1, 5))
async def test_a_machine_is_taken_back_wherever_its_interruption_was_cut_off(
    writes: int, arrives: bool
) -> None:
    async with run_cluster(controllers="") as cluster:
        client = cluster.client("test")
        await client.create(NODES, NODE)
        async with simulation(cluster.client("simulation")):
            await asyncio.sleep(25)
        await client.patch(NODES, "spot", NOTICE)
        await crash_after(cluster, writes, arrives=arrives)
        async with simulation(cluster.client("simulation")):
            await wait_deleted(client, NODES, "spot", None)
