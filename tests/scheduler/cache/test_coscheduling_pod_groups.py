"""Coscheduling PodGroups on an embedded cluster."""

from kilonova.kube import Client
from kilonova.scheduler.library.placement_report import report_placement
from kilonova.scheduler.library.snapshots.capture import capture_snapshot
from tests.local.embedded_cluster import PODS, virtual_time, wait_for_condition
from tests.scheduler.harness.embedded_scheduler import (
    GANGS,
    are_all_placed,
    fleet,
    gang,
    nodes_by_pod,
    pod,
    scheduled_cluster,
)
from tests.scheduler.harness.pod_groups import (
    COSCHEDULING_POD_GROUPS,
    coscheduling_pod_group,
    count_placed,
    install_coscheduling,
    with_group_label,
)

pytestmark = virtual_time


async def create_members(client: Client, group: str, count: int, gpus: int) -> list[str]:
    names = [f"{group}-{index}" for index in range(count)]
    for name in names:
        await client.create(PODS, with_group_label(pod(name, gpus), group), "default")
    return names


async def condition_of(client: Client, name: str) -> dict[str, str]:
    found = await client.get(PODS, name, "default")
    conditions = found.get("status", {}).get("conditions", [])
    return next((each for each in conditions if each["type"] == "PodScheduled"), {})


async def test_group_gets_its_minimum_together_or_nothing() -> None:
    async with scheduled_cluster(fleet(1)) as (cluster, _):
        client = cluster.client("tester")
        await install_coscheduling(client)
        await client.create(PODS, pod("before", 2), "default")
        await client.create(COSCHEDULING_POD_GROUPS, coscheduling_pod_group("train", 2), "default")
        names = await create_members(client, "train", 2, gpus=4)

        async def is_reported() -> bool:
            return (await condition_of(client, names[1])).get("reason") == "Unschedulable"

        await wait_for_condition(is_reported)
        assert "nvidia.com/gpu" in (await condition_of(client, names[0]))["message"]
        nodes = await nodes_by_pod(client)
        assert count_placed(nodes[name] for name in names) == 0
        group = await client.get(COSCHEDULING_POD_GROUPS, "train", "default")
        assert "status" not in group
        await client.delete(PODS, "before", "default")
        await wait_for_condition(are_all_placed(client, names))


async def test_surplus_pods_follow_when_capacity_is_free() -> None:
    async with scheduled_cluster(fleet(1)) as (cluster, _):
        client = cluster.client("tester")
        await install_coscheduling(client)
        await client.create(COSCHEDULING_POD_GROUPS, coscheduling_pod_group("train", 2), "default")
        names = await create_members(client, "train", 4, gpus=3)

        async def two_run() -> bool:
            return count_placed((await nodes_by_pod(client)).values()) == 2

        await wait_for_condition(two_run)
        await client.delete(PODS, names[0], "default")
        await wait_for_condition(are_all_placed(client, names[1:3]))


async def test_group_waits_for_its_minimum_of_pods() -> None:
    async with scheduled_cluster(fleet(1)) as (cluster, _):
        client = cluster.client("tester")
        await install_coscheduling(client)
        await client.create(COSCHEDULING_POD_GROUPS, coscheduling_pod_group("train", 3), "default")
        names = await create_members(client, "train", 2, gpus=1)
        cluster_snapshot = (await capture_snapshot(client)).cluster_snapshot
        why = report_placement(cluster_snapshot, "default", names[1])
        assert why is not None
        assert why.gang == "podgroup.scheduling.x-k8s.io/default/train"
        assert why.not_ready is not None
        assert why.not_ready.message.startswith("group train needs 1 more pods")
        assert count_placed((await nodes_by_pod(client)).values()) == 0
        await client.create(PODS, with_group_label(pod("late", 1), "train"), "default")
        await wait_for_condition(are_all_placed(client, [*names, "late"]))


async def test_pod_of_a_missing_group_reports_it() -> None:
    async with scheduled_cluster(fleet(1)) as (cluster, _):
        client = cluster.client("tester")
        await install_coscheduling(client)
        older = with_group_label(pod("a"), "train", "pod-group.scheduling.sigs.k8s.io")
        await client.create(PODS, older, "default")

        async def is_reported() -> bool:
            return (await condition_of(client, "a")).get("reason") == "PodGroupNotFound"

        await wait_for_condition(is_reported)
        message = (await condition_of(client, "a"))["message"]
        assert message == ("podgroup.scheduling.x-k8s.io/train not found")
        why = report_placement((await capture_snapshot(client)).cluster_snapshot, "default", "a")
        assert why is not None
        assert why.not_ready is not None
        assert why.not_ready.reason == "PodGroupNotFound"
        await client.create(COSCHEDULING_POD_GROUPS, coscheduling_pod_group("train", 1), "default")
        await wait_for_condition(are_all_placed(client, ["a"]))


async def test_pods_wait_until_the_server_serves_pod_groups() -> None:
    async with scheduled_cluster(fleet(1)) as (cluster, _):
        client = cluster.client("tester")
        names = await create_members(client, "train", 1, gpus=1)

        async def is_reported() -> bool:
            return (await condition_of(client, names[0])).get("reason") == "PodGroupNotFound"

        await wait_for_condition(is_reported)
        await install_coscheduling(client)
        await client.create(COSCHEDULING_POD_GROUPS, coscheduling_pod_group("train", 1), "default")
        await wait_for_condition(are_all_placed(client, names), within=120)


async def test_podgang_takes_precedence_over_the_named_group() -> None:
    async with scheduled_cluster(fleet(1)) as (cluster, _):
        client = cluster.client("tester")
        await install_coscheduling(client)
        await client.create(COSCHEDULING_POD_GROUPS, coscheduling_pod_group("train", 2), "default")
        names = await create_members(client, "train", 1, gpus=1)
        await client.create(GANGS, gang("train", {"w": names}), "default")
        await wait_for_condition(are_all_placed(client, names))
        why = report_placement(
            (await capture_snapshot(client)).cluster_snapshot, "default", names[0]
        )
        assert why is not None
        assert why.gang == "default/train"


async def test_pods_of_a_deleted_group_keep_running() -> None:
    async with scheduled_cluster(fleet(1)) as (cluster, scheduler):
        client = cluster.client("tester")
        await install_coscheduling(client)
        await client.create(COSCHEDULING_POD_GROUPS, coscheduling_pod_group("train", 2), "default")
        names = await create_members(client, "train", 2, gpus=4)
        await wait_for_condition(are_all_placed(client, names))
        await client.delete(COSCHEDULING_POD_GROUPS, "train", "default")

        async def are_single_pods() -> bool:
            running_gangs = scheduler.cache.cluster.running_gangs
            return all(f"pod/default/{name}" in running_gangs for name in names)

        await wait_for_condition(are_single_pods)
        assert count_placed((await nodes_by_pod(client)).values()) == 2
