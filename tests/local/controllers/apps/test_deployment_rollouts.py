"""Deployments of an embedded cluster with simulated nodes, in virtual time."""

from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest

from kilonova.kube import Client
from tests.local.controllers.apps.workloads import (
    DEPLOYMENTS,
    REPLICA_SETS,
    cluster,
    conditions,
    pods_of,
    reasons,
    rolled_out,
    set_image,
    workload,
)

pytestmark = pytest.mark.looptime


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with cluster() as found:
        yield found


async def sets_of(client: Client) -> dict[str, Any]:
    """The ReplicaSets by revision."""
    found = (await client.list(REPLICA_SETS, "default")).items
    return {
        each["metadata"]["annotations"]["deployment.kubernetes.io/revision"]: each for each in found
    }


async def test_a_deployment_gets_its_pods(client: Client) -> None:
    await client.create(DEPLOYMENTS, workload(replicas=3), "default")
    done = await rolled_out(client, 3)
    assert conditions(done) == {
        "Available": ("True", "MinimumReplicasAvailable"),
        "Progressing": ("True", "NewReplicaSetAvailable"),
    }
    assert done["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "1"
    (replica_set,) = (await sets_of(client)).values()
    hash_ = replica_set["metadata"]["labels"]["pod-template-hash"]
    assert replica_set["metadata"]["name"] == f"web-{hash_}"
    assert len(await pods_of(client, **{"pod-template-hash": hash_})) == 3
    assert await reasons(client, "Deployment", "web") == ["ScalingReplicaSet"]


async def test_a_new_template_replaces_all_pods(client: Client) -> None:
    await client.create(DEPLOYMENTS, workload(replicas=4), "default")
    await rolled_out(client, 4)
    await set_image(client, DEPLOYMENTS, "img:2")
    done = await rolled_out(client, 4)
    assert done["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "2"
    images = Counter(pod["spec"]["containers"][0]["image"] for pod in await pods_of(client))
    assert images == {"img:2": 4}
    sets = await sets_of(client)
    assert {revision: each["spec"]["replicas"] for revision, each in sets.items()} == {
        "1": 0,
        "2": 4,
    }
