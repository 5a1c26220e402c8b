"""Random faults of nodes, pods and controllers, in virtual time: what must always hold."""

import asyncio
import os
from collections import Counter
from contextlib import AsyncExitStack
from random import Random
from typing import Any

import pytest

from tests.instances.controllers.instance.test_repair import OUT, fail_pod
from tests.instances.instance_cluster import (
    GANGS,
    NAMESPACE,
    NODES,
    PODS,
    RESERVATIONS,
    InstanceCluster,
    accelerator_nodes,
    instance_cluster,
    running_controllers,
)
from tests.local.embedded_cluster import virtual_time, wait_for_condition

pytestmark = virtual_time

DEVICES = "gpu.kilonova.dev/devices"
INSTANCES = ("a", "b", "c")
NODE_NAMES = [f"node-{index}" for index in range(8)]
STEPS = 25
RUNS = int(os.environ.get("KILONOVA_FAULT_RUNS", "2"))
SEED = int(os.environ.get("KILONOVA_SEED", "1"))


class Faults:
    """One random fault after the other."""

    def __init__(self, cluster: InstanceCluster, random: Random) -> None:
        self._cluster = cluster
        self._random = random
        self._controllers = AsyncExitStack()
        self.history: list[str] = []

    async def start_controllers(self) -> None:
        await self._controllers.enter_async_context(running_controllers(self._cluster.cluster))

    async def stop_controllers(self) -> None:
        await self._controllers.aclose()

    async def step(self) -> None:
        """A fault, and some time."""
        actions = (
            self._break_node,
            self._break_node,
            self._mend_nodes,
            self._cordon,
            self._uncordon,
            self._lose_pod,
            self._lose_pod,
            self._restart_controllers,
        )
        action = self._random.choice(actions)
        self.history.append(action.__name__)
        await action()
        await asyncio.sleep(self._random.choice((0.05, 0.5, 5, 30, 90)))

    async def mend(self) -> None:
        """No faults any more."""
        for node in NODE_NAMES:
            await self._cluster.annotate_node(node, {OUT: None})
            await self._cluster.cordon(node, cordoned=False)

    async def _break_node(self) -> None:
        await self._cluster.annotate_node(self._random.choice(NODE_NAMES), {OUT: "true"})

    async def _mend_nodes(self) -> None:
        for node in self._random.sample(NODE_NAMES, 4):
            await self._cluster.annotate_node(node, {OUT: None})

    async def _cordon(self) -> None:
        await self._cluster.cordon(self._random.choice(NODE_NAMES))

    async def _uncordon(self) -> None:
        for node in self._random.sample(NODE_NAMES, 4):
            await self._cluster.cordon(node, cordoned=False)

    async def _lose_pod(self) -> None:
        names = await self._cluster.list_names(PODS)
        if not names:
            return
        name = self._random.choice(names)
        if self._random.random() < 0.5:
            await self._cluster.client.delete(PODS, name, NAMESPACE)
        else:
            await fail_pod(self._cluster, name)

    async def _restart_controllers(self) -> None:
        await self.stop_controllers()
        await asyncio.sleep(self._random.choice((0.1, 10)))
        await self.start_controllers()


async def find_shared_devices(cluster: InstanceCluster) -> list[tuple[str, str]]:
    """Devices that two pods have, on nodes that work."""
    nodes = (await cluster.client.list(NODES)).items
    working = {each["metadata"]["name"] for each in nodes}
    used: Counter[tuple[str, str]] = Counter()
    for pod in await cluster.list_objects(PODS):
        node = pod["spec"].get("nodeName", "")
        if node not in working or pod["status"]["phase"] in ("Failed", "Succeeded"):
            continue
        for device in filter(None, pod["metadata"]["annotations"].get(DEVICES, "").split(",")):
            used[node, device] += 1
    return [each for each, count in used.items() if count > 1]


async def is_settled(cluster: InstanceCluster) -> bool:
    """Whether every instance is ready, with its own pods and nothing else."""
    for name in INSTANCES:
        status = await cluster.get_status(name)
        if status.get("phase") != "Ready" or len(await cluster.list_agents(name)) != 4:
            return False
    return (
        len(await cluster.list_names(PODS)) == 5 * len(INSTANCES)
        and len(await cluster.list_names(GANGS)) == len(INSTANCES)
        and await cluster.list_names(RESERVATIONS) == []
    )


async def describe(cluster: InstanceCluster) -> Any:
    statuses = {name: await cluster.get_status(name) for name in INSTANCES}
    names = [await cluster.list_names(each) for each in (PODS, GANGS, RESERVATIONS)]
    return statuses, names


@pytest.mark.campaign
@pytest.mark.parametrize("seed", range(SEED, SEED + RUNS))
async def test_instances_survive_random_faults(seed: int) -> None:
    async with instance_cluster(accelerator_nodes(8), controllers=False) as cluster:
        faults = Faults(cluster, Random(seed))
        await faults.start_controllers()
        for name in INSTANCES:
            await cluster.create(name, repair={"deadline": "20s"})
        for _ in range(STEPS):
            await faults.step()
            assert await find_shared_devices(cluster) == [], faults.history
        await faults.mend()
        try:
            await wait_for_condition(lambda: is_settled(cluster), within=1800)
        except AssertionError:
            raise AssertionError(f"{faults.history}: {await describe(cluster)}") from None
        finally:
            await faults.stop_controllers()
