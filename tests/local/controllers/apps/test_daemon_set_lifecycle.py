"""DaemonSets of an embedded cluster with simulated nodes, in virtual time."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from kilonova.kube import Client
from tests.local.controllers.apps.manifests import (
    DAEMON_SETS,
    REVISIONS,
    cluster,
    pods_of,
    reasons,
    set_image,
    wait_for_status,
    workload,
)
from tests.local.embedded_cluster import (
    NODES,
    PODS,
    advance_time,
    find,
    virtual_time,
    wait_for_condition,
)

pytestmark = virtual_time


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with cluster() as found:
        yield found


async def wait_settled(client: Client, nodes: int) -> Any:
    return await wait_for_status(
        client,
        DAEMON_SETS,
        desiredNumberScheduled=nodes,
        currentNumberScheduled=nodes,
        updatedNumberScheduled=nodes,
        numberAvailable=nodes,
        numberMisscheduled=0,
    )


async def nodes_of(client: Client) -> list[str]:
    return sorted(pod["spec"]["nodeName"] for pod in await pods_of(client))


async def test_every_node_gets_a_pod(client: Client) -> None:
    await client.create(DAEMON_SETS, workload(), "default")
    await wait_settled(client, 3)
    assert await nodes_of(client) == ["n-0", "n-1", "n-2"]
    assert await reasons(client, "DaemonSet", "web") == ["SuccessfulCreate"] * 3


async def test_a_new_template_reaches_all_nodes(client: Client) -> None:
    await client.create(DAEMON_SETS, workload(), "default")
    await wait_settled(client, 3)
    await set_image(client, DAEMON_SETS, "img:2")
    await wait_settled(client, 3)
    assert {pod["spec"]["containers"][0]["image"] for pod in await pods_of(client)} == {"img:2"}
    revisions = (await client.list(REVISIONS, "default")).items
    assert sorted(each["revision"] for each in revisions) == [1, 2]
    hashes = {each["metadata"]["labels"]["controller-revision-hash"] for each in revisions}
    labels = {
        pod["metadata"]["labels"]["controller-revision-hash"] for pod in await pods_of(client)
    }
    assert labels < hashes


async def test_labels_and_taints_of_nodes_are_followed(client: Client) -> None:
    await client.create(DAEMON_SETS, workload(pod={"nodeSelector": {"gpu": "yes"}}), "default")
    await wait_settled(client, 0)
    for node in ("n-0", "n-1"):
        await client.patch(NODES, node, {"metadata": {"labels": {"gpu": "yes"}}})
    await wait_settled(client, 2)
    await client.patch(NODES, "n-0", {"metadata": {"labels": {"gpu": None}}})
    await wait_settled(client, 1)
    assert await nodes_of(client) == ["n-1"]
    taint = {"key": "keep", "effect": "NoSchedule"}
    await client.patch(NODES, "n-1", {"spec": {"taints": [taint]}})
    await wait_for_status(client, DAEMON_SETS, desiredNumberScheduled=0, numberMisscheduled=1)
    assert await nodes_of(client) == ["n-1"]
    taint["effect"] = "NoExecute"
    await client.patch(NODES, "n-1", {"spec": {"taints": [taint]}})
    await wait_for_status(client, DAEMON_SETS, desiredNumberScheduled=0, numberMisscheduled=0)
    await advance_time()
    assert await pods_of(client) == []


async def test_daemon_pods_run_on_cordoned_nodes(client: Client) -> None:
    for node in ("n-0", "n-1", "n-2"):
        await client.patch(NODES, node, {"spec": {"unschedulable": True}})
    await client.create(DAEMON_SETS, workload(), "default")
    await wait_settled(client, 3)


async def test_a_failed_pod_is_replaced(client: Client) -> None:
    await client.create(DAEMON_SETS, workload(), "default")
    await wait_settled(client, 3)
    name = (await pods_of(client))[0]["metadata"]["name"]
    failed = {"status": {"phase": "Failed", "conditions": None}}
    await client.patch(PODS, name, failed, "default", subresource="status")

    async def replaced() -> bool:
        return await find(client, PODS, name) is None and len(await pods_of(client)) == 3

    await wait_for_condition(replaced)
    await wait_settled(client, 3)
    assert "FailedDaemonPod" in await reasons(client, "DaemonSet", "web")
