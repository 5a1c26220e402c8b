"""A controller that crashes between any two writes, and another one that continues."""

import asyncio

import pytest

from tests.harness.campaigns import select_cases
from tests.local.embedded_cluster import virtual_time
from tests.serving.controllers.service.test_lifecycle import count_replicas, list_versions
from tests.serving.serving_cluster import (
    CLAIMS,
    DEPLOYMENTS,
    SERVICES,
    SETS,
    ServingCluster,
    build_controllers,
    running_controllers,
    server_group,
    serving_cluster,
)
from tests.workloads.crashing_operator import crashing_controllers

pytestmark = virtual_time

WRITES_OF_A_START = 14
"""Token, claim, Secret, Deployment, budget, three Services, two sets, and statuses."""
WRITES_OF_AN_UPDATE = 8
"""Sets, Deployment, deletions of a group and its Service, statuses."""

CVMFS = {"cvmfs": {}, "mountPath": "/models"}
BOUNDS = {"minReplicas": 0, "maxReplicas": 5}


async def crash_once(cluster: ServingCluster, writes: int, *, last_write_arrives: bool) -> None:
    """Run controllers until they crash, or have nothing to write any more."""
    async with crashing_controllers(
        cluster.cluster,
        "serving",
        build_controllers,
        writes,
        last_write_arrives=last_write_arrives,
    ) as crashed:
        try:
            async with asyncio.timeout(30):
                await crashed.wait()
        except TimeoutError:
            return


def cases(count: int, number: int) -> list[int]:
    return select_cases(list(range(1, count + 1)), number)


async def settle(cluster: ServingCluster) -> None:
    """Wait until nothing is written any more."""
    before: dict[str, str] = {}
    while before != (after := await list_versions(cluster)):
        before = after
        await asyncio.sleep(5)


@pytest.mark.campaign
@pytest.mark.parametrize("arrives", [True, False], ids=["applied", "lost"])
@pytest.mark.parametrize("writes", cases(WRITES_OF_A_START, 5))
async def test_start_goes_on_after_a_crash(writes: int, arrives: bool) -> None:
    async with serving_cluster(controllers=False) as cluster:
        await cluster.create(
            "web",
            server_group(modelRepository=CVMFS),
            server_group("other", replicas=2, autoscaling=BOUNDS),
            gateway={"replicas": 2},
        )
        await crash_once(cluster, writes, last_write_arrives=arrives)
        async with running_controllers(cluster.cluster):
            await cluster.wait_for(lambda each: each.get("gateways") == 2)
            await settle(cluster)
        assert await cluster.list_names(SETS) == ["web-model", "web-other"]
        assert await cluster.list_names(DEPLOYMENTS) == ["web-gateway"]
        assert await cluster.list_names(CLAIMS) == ["cvmfs"]
        assert await count_replicas(cluster, "other") == 2


@pytest.mark.campaign
@pytest.mark.parametrize("arrives", [True, False], ids=["applied", "lost"])
@pytest.mark.parametrize("writes", cases(WRITES_OF_AN_UPDATE, 4))
async def test_update_goes_on_after_a_crash(writes: int, arrives: bool) -> None:
    async with serving_cluster(controllers=False) as cluster:
        async with running_controllers(cluster.cluster):
            await cluster.create("web", server_group(autoscaling=BOUNDS), server_group("other"))
            await cluster.wait_for(lambda each: each.get("ready") == 2)
            await cluster.scale("model", 3)
            await cluster.wait_for(lambda each: each.get("ready") == 4)
            await settle(cluster)
        await cluster.patch(
            {
                "servers": [server_group(autoscaling=BOUNDS, args=["--verbose"])],
                "gateway": {"grpcPort": 9001},
            }
        )
        await crash_once(cluster, writes, last_write_arrives=arrives)
        async with running_controllers(cluster.cluster):
            await cluster.wait_for(lambda each: len(each["servers"]) == 1 and each["ready"] == 3)
            await settle(cluster)
        assert await cluster.list_names(SETS) == ["web-model"]
        assert await count_replicas(cluster) == 3
        service = await cluster.get(SERVICES, "web")
        assert [each["port"] for each in service["spec"]["ports"]] == [8000, 9001]
