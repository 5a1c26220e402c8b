"""Room that is kept for a gang is kept from all who come later, however often somebody comes."""

from kilonova.kube import Client
from tests.local.embedded_cluster import PODS, eventually, settle, virtual_time
from tests.scheduler.scheduling import all_placed, create_gang, fleet, nodes_of, pod, scheduling

pytestmark = virtual_time

LASTS = "scheduling.kilonova.dev/expected-duration"


async def come(client: Client, name: str, gpus: int, duration: str) -> None:
    body = pod(name, gpus)
    body["metadata"]["annotations"] = {LASTS: duration}
    await client.create(PODS, body, "default")


async def test_who_comes_when_nothing_else_happens_leaves_the_room_alone() -> None:
    async with scheduling(fleet(2)) as (cluster, _):
        client = cluster.client("tester")
        await come(client, "runs", 8, "1h")
        await eventually(all_placed(client, ["runs"]))
        large = await create_gang(client, "large", 2, gpus=8)
        await settle(320)
        await come(client, "long", 8, "2h")
        await settle()
        assert not (await nodes_of(client))["long"]
        await come(client, "short", 8, "10m")
        await eventually(all_placed(client, ["short"]))
        nodes = await nodes_of(client)
        assert not any(nodes[name] for name in large)


async def test_a_gang_gets_its_room_though_somebody_comes_all_the_time() -> None:
    async with scheduling(fleet(2)) as (cluster, _):
        client = cluster.client("tester")
        await come(client, "runs", 8, "1h")
        await eventually(all_placed(client, ["runs"]))
        await create_gang(client, "large", 2, gpus=8)
        for number in range(70):
            await come(client, f"huge-{number}", 16, "1m")
            await settle(5)
        await come(client, "long", 8, "2h")
        await settle(1)
        assert not (await nodes_of(client))["long"]
