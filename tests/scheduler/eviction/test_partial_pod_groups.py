"""Partially bound groups, as after a crash between bindings."""

import pytest

from kilonova.api.json import JsonObject
from kilonova.kube import Client
from tests.local.embedded_cluster import PODS, advance_time, find, virtual_time
from tests.scheduler.harness.embedded_scheduler import (
    embedded_cluster,
    fleet,
    pod,
    running_scheduler,
)
from tests.scheduler.harness.pod_groups import (
    COSCHEDULING_POD_GROUPS,
    KUBERNETES_POD_GROUPS,
    coscheduling_pod_group,
    install_coscheduling,
    install_kubernetes_pod_groups,
    kubernetes_pod_group,
    with_group_label,
)

pytestmark = virtual_time

SCHEDULED = {
    "type": "PodGroupScheduled",
    "status": "True",
    "reason": "Scheduled",
    "message": "it was",
    "lastTransitionTime": "2026-05-01T00:00:00Z",
}


def in_group(name: str, gpus: int) -> JsonObject:
    """A pod of a Kubernetes PodGroup."""
    return pod(name, gpus, schedulingGroup={"podGroupName": "train"})


async def create_partial_group(client: Client, small: JsonObject, large: JsonObject) -> None:
    """One bound pod, and one that fits no node."""
    for each in (small, large):
        await client.create(PODS, each, "default")
    await client.bind("small", "default", "node-0")


@pytest.mark.parametrize(("was_scheduled", "stays"), [(False, False), (True, True)])
async def test_partial_kubernetes_group_never_scheduled_is_evicted(
    was_scheduled: bool, stays: bool
) -> None:
    async with embedded_cluster(fleet(1)) as cluster:
        client = cluster.client("tester")
        await install_kubernetes_pod_groups(client)
        await client.create(
            KUBERNETES_POD_GROUPS,
            kubernetes_pod_group("train", {"gang": {"minCount": 2}}),
            "default",
        )
        if was_scheduled:
            status = {"status": {"conditions": [SCHEDULED]}}
            await client.patch(
                KUBERNETES_POD_GROUPS, "train", status, "default", subresource="status"
            )
        await create_partial_group(client, in_group("small", 1), in_group("large", 9))
        async with running_scheduler(cluster):
            await advance_time(300)
        found = await find(client, PODS, "small")
        assert (found is not None) is stays


async def test_partial_coscheduling_group_keeps_its_pods() -> None:
    async with embedded_cluster(fleet(1)) as cluster:
        client = cluster.client("tester")
        await install_coscheduling(client)
        await client.create(COSCHEDULING_POD_GROUPS, coscheduling_pod_group("train", 2), "default")
        await create_partial_group(
            client,
            with_group_label(pod("small", 1), "train"),
            with_group_label(pod("large", 9), "train"),
        )
        async with running_scheduler(cluster):
            await advance_time(300)
        assert await find(client, PODS, "small") is not None
