"""DaemonSets of an embedded cluster with simulated nodes, in virtual time."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from kilonova.kube import Client
from tests.local.controllers.apps.workloads import (
    DAEMON_SETS,
    cluster,
    pods_of,
    reasons,
    set_image,
    until_status,
    workload,
)

pytestmark = pytest.mark.looptime


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with cluster() as found:
        yield found


async def settled(client: Client, nodes: int) -> Any:
    return await until_status(
        client,
        DAEMON_SETS,
        desiredNumberScheduled=nodes,
        currentNumberScheduled=nodes,
        updatedNumberScheduled=nodes,
        numberAvailable=nodes,
        numberMisscheduled=0,
    )


async def test_every_node_gets_a_pod(client: Client) -> None:
    await client.create(DAEMON_SETS, workload(), "default")
    await settled(client, 3)
    assert sorted(pod["spec"]["nodeName"] for pod in await pods_of(client)) == ["n-0", "n-1", "n-2"]
    assert await reasons(client, "DaemonSet", "web") == ["SuccessfulCreate"] * 3


async def test_a_new_template_reaches_all_nodes(client: Client) -> None:
    await client.create(DAEMON_SETS, workload(), "default")
    await settled(client, 3)
    await set_image(client, DAEMON_SETS, "img:2")
    await settled(client, 3)
    assert {pod["spec"]["containers"][0]["image"] for pod in await pods_of(client)} == {"img:2"}
