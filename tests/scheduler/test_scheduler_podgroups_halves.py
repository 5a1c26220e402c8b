"""Groups of which only a part has a node, as after a crash in the middle of their bindings."""

import pytest

from kilonova.api.json import JsonObject
from kilonova.kube import Client
from tests.local.embedded_cluster import PODS, find, settle, virtual_time
from tests.scheduler.podgroups import (
    COSCHEDULED,
    NATIVE,
    coscheduled,
    install_coscheduling,
    install_native,
    labelled,
    native,
)
from tests.scheduler.scheduling import a_cluster, fleet, pod, scheduler_on

pytestmark = virtual_time

SCHEDULED = {
    "type": "PodGroupScheduled",
    "status": "True",
    "reason": "Scheduled",
    "message": "it was",
    "lastTransitionTime": "2026-05-01T00:00:00Z",
}


def in_group(name: str, gpus: int) -> JsonObject:
    """A pod of a group of Kubernetes."""
    return pod(name, gpus, schedulingGroup={"podGroupName": "train"})


async def make_half(client: Client, small: JsonObject, large: JsonObject) -> None:
    """One pod on a node, and one for which there never will be one."""
    for each in (small, large):
        await client.create(PODS, each, "default")
    await client.bind("small", "default", "node-0")


@pytest.mark.parametrize(("told", "stays"), [(False, False), (True, True)])
async def test_a_group_of_kubernetes_gives_back_its_half_if_it_never_was_scheduled(
    told: bool, stays: bool
) -> None:
    async with a_cluster(fleet(1)) as cluster:
        client = cluster.client("tester")
        await install_native(client)
        await client.create(NATIVE, native("train", {"gang": {"minCount": 2}}), "default")
        if told:
            status = {"status": {"conditions": [SCHEDULED]}}
            await client.patch(NATIVE, "train", status, "default", subresource="status")
        await make_half(client, in_group("small", 1), in_group("large", 9))
        async with scheduler_on(cluster):
            await settle(300)
        found = await find(client, PODS, "small")
        assert (found is not None) is stays


async def test_a_coscheduling_group_keeps_what_it_has() -> None:
    async with a_cluster(fleet(1)) as cluster:
        client = cluster.client("tester")
        await install_coscheduling(client)
        await client.create(COSCHEDULED, coscheduled("train", 2), "default")
        await make_half(
            client, labelled(pod("small", 1), "train"), labelled(pod("large", 9), "train")
        )
        async with scheduler_on(cluster):
            await settle(300)
        assert await find(client, PODS, "small") is not None
