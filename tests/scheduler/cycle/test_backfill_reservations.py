"""Backfill: capacity reserved for a gang is not used by later pods, however many there are."""

from kilonova.kube import Client
from tests.local.embedded_cluster import PODS, advance_time, virtual_time, wait_for_condition
from tests.scheduler.harness.embedded_scheduler import (
    are_all_placed,
    create_gang,
    fleet,
    nodes_by_pod,
    pod,
    scheduled_cluster,
)

pytestmark = virtual_time

DURATION = "scheduling.kilonova.dev/expected-duration"


async def create_running_pod(client: Client, name: str, gpus: int, duration: str) -> None:
    body = pod(name, gpus)
    body["metadata"]["annotations"] = {DURATION: duration}
    await client.create(PODS, body, "default")


async def test_later_pod_does_not_take_reserved_capacity() -> None:
    async with scheduled_cluster(fleet(2)) as (cluster, _):
        client = cluster.client("tester")
        await create_running_pod(client, "runs", 8, "1h")
        await wait_for_condition(are_all_placed(client, ["runs"]))
        large = await create_gang(client, "large", 2, gpus=8)
        await advance_time(320)
        await create_running_pod(client, "long", 8, "2h")
        await advance_time()
        assert not (await nodes_by_pod(client))["long"]
        await create_running_pod(client, "short", 8, "10m")
        await wait_for_condition(are_all_placed(client, ["short"]))
        nodes = await nodes_by_pod(client)
        assert not any(nodes[name] for name in large)


async def test_reserved_gang_starts_despite_steady_arrivals() -> None:
    async with scheduled_cluster(fleet(2)) as (cluster, _):
        client = cluster.client("tester")
        await create_running_pod(client, "runs", 8, "1h")
        await wait_for_condition(are_all_placed(client, ["runs"]))
        await create_gang(client, "large", 2, gpus=8)
        for number in range(70):
            await create_running_pod(client, f"huge-{number}", 16, "1m")
            await advance_time(5)
        await create_running_pod(client, "long", 8, "2h")
        await advance_time(1)
        assert not (await nodes_by_pod(client))["long"]
