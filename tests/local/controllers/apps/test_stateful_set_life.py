"""StatefulSets of an embedded cluster with simulated nodes, in virtual time."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from kilonova.kube import Client
from tests.local.controllers.apps.workloads import (
    REVISIONS,
    STATEFUL_SETS,
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


async def settled(client: Client, replicas: int, name: str = "web") -> Any:
    return await until_status(
        client,
        STATEFUL_SETS,
        name,
        replicas=replicas,
        readyReplicas=replicas,
        availableReplicas=replicas,
        updatedReplicas=replicas,
        currentReplicas=replicas,
    )


async def test_pods_come_one_after_the_other_and_are_numbered(client: Client) -> None:
    await client.create(STATEFUL_SETS, workload(replicas=3, serviceName="peers"), "default")
    done = await settled(client, 3)
    pods = sorted(await pods_of(client), key=lambda pod: pod["metadata"]["name"])
    assert [pod["metadata"]["name"] for pod in pods] == ["web-0", "web-1", "web-2"]
    times = [pod["metadata"]["creationTimestamp"] for pod in pods]
    assert times == sorted(set(times))
    first = pods[0]
    assert first["metadata"]["labels"] == {
        "app": "web",
        "apps.kubernetes.io/pod-index": "0",
        "controller-revision-hash": done["status"]["updateRevision"],
        "statefulset.kubernetes.io/pod-name": "web-0",
    }
    assert (first["spec"]["hostname"], first["spec"]["subdomain"]) == ("web-0", "peers")
    assert await reasons(client, "StatefulSet", "web") == ["SuccessfulCreate"] * 3


async def test_a_new_template_reaches_the_last_pod_first(client: Client) -> None:
    await client.create(STATEFUL_SETS, workload(replicas=2), "default")
    before = await settled(client, 2)
    await set_image(client, STATEFUL_SETS, "img:2")
    after = await settled(client, 2)
    assert after["status"]["currentRevision"] == after["status"]["updateRevision"]
    assert after["status"]["currentRevision"] != before["status"]["currentRevision"]
    pods = {pod["metadata"]["name"]: pod for pod in await pods_of(client)}
    assert {pod["spec"]["containers"][0]["image"] for pod in pods.values()} == {"img:2"}
    assert (
        pods["web-1"]["metadata"]["creationTimestamp"]
        < pods["web-0"]["metadata"]["creationTimestamp"]
    )
    revisions = (await client.list(REVISIONS, "default")).items
    assert sorted(each["revision"] for each in revisions) == [1, 2]
