"""PodGroups of coscheduling, on an embedded cluster."""

from kilonova.kube import Client
from kilonova.scheduler.answering import answer
from kilonova.scheduler.capturing import capture
from tests.local.embedded_cluster import PODS, eventually, virtual_time
from tests.scheduler.podgroups import (
    COSCHEDULED,
    coscheduled,
    install_coscheduling,
    labelled,
    placed_among,
)
from tests.scheduler.scheduling import GANGS, all_placed, fleet, gang, nodes_of, pod, scheduling

pytestmark = virtual_time


async def create_members(client: Client, group: str, count: int, gpus: int) -> list[str]:
    names = [f"{group}-{index}" for index in range(count)]
    for name in names:
        await client.create(PODS, labelled(pod(name, gpus), group), "default")
    return names


async def condition_of(client: Client, name: str) -> dict[str, str]:
    found = await client.get(PODS, name, "default")
    conditions = found.get("status", {}).get("conditions", [])
    return next((each for each in conditions if each["type"] == "PodScheduled"), {})


async def test_a_group_gets_its_minimum_together_or_nothing() -> None:
    async with scheduling(fleet(1)) as (cluster, _):
        client = cluster.client("tester")
        await install_coscheduling(client)
        await client.create(PODS, pod("before", 2), "default")
        await client.create(COSCHEDULED, coscheduled("train", 2), "default")
        names = await create_members(client, "train", 2, gpus=4)

        async def told() -> bool:
            return (await condition_of(client, names[1])).get("reason") == "Unschedulable"

        await eventually(told)
        assert "nvidia.com/gpu" in (await condition_of(client, names[0]))["message"]
        nodes = await nodes_of(client)
        assert placed_among(nodes[name] for name in names) == 0
        group = await client.get(COSCHEDULED, "train", "default")
        assert "status" not in group
        await client.delete(PODS, "before", "default")
        await eventually(all_placed(client, names))


async def test_pods_beyond_the_minimum_follow_when_there_is_room() -> None:
    async with scheduling(fleet(1)) as (cluster, _):
        client = cluster.client("tester")
        await install_coscheduling(client)
        await client.create(COSCHEDULED, coscheduled("train", 2), "default")
        names = await create_members(client, "train", 4, gpus=3)

        async def two_run() -> bool:
            return placed_among((await nodes_of(client)).values()) == 2

        await eventually(two_run)
        await client.delete(PODS, names[0], "default")
        await eventually(all_placed(client, names[1:3]))


async def test_a_group_waits_for_all_the_pods_that_it_needs() -> None:
    async with scheduling(fleet(1)) as (cluster, _):
        client = cluster.client("tester")
        await install_coscheduling(client)
        await client.create(COSCHEDULED, coscheduled("train", 3), "default")
        names = await create_members(client, "train", 2, gpus=1)
        picture = (await capture(client)).picture
        why = answer(picture, "default", names[1])
        assert why is not None
        assert why.gang == "podgroup.scheduling.x-k8s.io/default/train"
        assert why.not_yet is not None
        assert why.not_yet.message.startswith("group train waits for 1 more pods")
        assert placed_among((await nodes_of(client)).values()) == 0
        await client.create(PODS, labelled(pod("late", 1), "train"), "default")
        await eventually(all_placed(client, [*names, "late"]))


async def test_a_pod_whose_group_is_not_there_waits_and_says_so() -> None:
    async with scheduling(fleet(1)) as (cluster, _):
        client = cluster.client("tester")
        await install_coscheduling(client)
        older = labelled(pod("a"), "train", "pod-group.scheduling.sigs.k8s.io")
        await client.create(PODS, older, "default")

        async def told() -> bool:
            return (await condition_of(client, "a")).get("reason") == "NoPodGroup"

        await eventually(told)
        message = (await condition_of(client, "a"))["message"]
        assert message == (
            "waits for podgroup.scheduling.x-k8s.io/train, which it names and which is not there"
        )
        why = answer((await capture(client)).picture, "default", "a")
        assert why is not None
        assert why.not_yet is not None
        assert why.not_yet.reason == "NoPodGroup"
        await client.create(COSCHEDULED, coscheduled("train", 1), "default")
        await eventually(all_placed(client, ["a"]))


async def test_pods_wait_where_the_server_does_not_know_groups_until_it_does() -> None:
    async with scheduling(fleet(1)) as (cluster, _):
        client = cluster.client("tester")
        names = await create_members(client, "train", 1, gpus=1)

        async def told() -> bool:
            return (await condition_of(client, names[0])).get("reason") == "NoPodGroup"

        await eventually(told)
        await install_coscheduling(client)
        await client.create(COSCHEDULED, coscheduled("train", 1), "default")
        await eventually(all_placed(client, names), within=120)


async def test_a_podgang_that_lists_a_pod_comes_before_the_group_that_it_names() -> None:
    async with scheduling(fleet(1)) as (cluster, _):
        client = cluster.client("tester")
        await install_coscheduling(client)
        await client.create(COSCHEDULED, coscheduled("train", 2), "default")
        names = await create_members(client, "train", 1, gpus=1)
        await client.create(GANGS, gang("train", {"w": names}), "default")
        await eventually(all_placed(client, names))
        why = answer((await capture(client)).picture, "default", names[0])
        assert why is not None
        assert why.gang == "default/train"


async def test_pods_of_a_group_that_goes_stay_where_they_are() -> None:
    async with scheduling(fleet(1)) as (cluster, scheduler):
        client = cluster.client("tester")
        await install_coscheduling(client)
        await client.create(COSCHEDULED, coscheduled("train", 2), "default")
        names = await create_members(client, "train", 2, gpus=4)
        await eventually(all_placed(client, names))
        await client.delete(COSCHEDULED, "train", "default")

        async def alone() -> bool:
            standing = scheduler.world.cluster.standing
            return all(f"pod/default/{name}" in standing for name in names)

        await eventually(alone)
        assert placed_among((await nodes_of(client)).values()) == 2
