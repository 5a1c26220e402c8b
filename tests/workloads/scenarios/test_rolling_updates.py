"""RU: outdated pods, group replicas and replicas of sets are replaced one by one.

Scenario numbers are those of the specification. The set has ten pods: two of `pc-a`, and two
replicas of `sg-x` with one `pc-b` and three `pc-c` each.
"""

from typing import Any

from kilonova.kube import Resource
from tests.workloads.scenarios.support.pod_history import PodRecord
from tests.workloads.scenarios.support.scenario_api import ScenarioApi
from tests.workloads.scenarios.support.set_updates import (
    ALL_CLIQUES,
    NEW,
    OLD,
    UpdateScenario,
    by_clique,
    by_group_replica,
    by_replica,
    list_deletion_order,
    max_incomplete,
    min_ready,
    running_set,
)
from tests.workloads.workload_cluster import CLIQUES, SCALING_GROUPS

SET = "workload1"


def is_in_group(pod: PodRecord) -> bool:
    return pod.group_replica is not None


async def test_ru7_pods_of_a_clique_are_replaced_one_by_one_replica_by_replica(
    api: ScenarioApi,
) -> None:
    async with running_set(api, SET, 20, replicas=2) as scenario:
        await scenario.edit_image(NEW, "pc-a")
        status = await scenario.wait_until_updated(2)
        history = scenario.history
        assert list_deletion_order(history.deleted, by_clique) == [f"{SET}-0-pc-a", f"{SET}-1-pc-a"]
        assert len(history.deleted) == len(history.created) == 4
        assert min_ready(history.snapshots, f"{SET}-0-pc-a") == 1
        assert min_ready(history.snapshots, f"{SET}-1-pc-a") == 1
        assert max_incomplete(history.snapshots, 10, by_replica) == 1
        progress = status["updateProgress"]
        assert progress["updatedPodCliquesCount"] == progress["totalPodCliquesCount"] == 2


async def test_ru8_group_replicas_are_replaced_one_by_one_replica_by_replica(
    api: ScenarioApi,
) -> None:
    async with running_set(api, SET, 20, replicas=2) as scenario:
        await scenario.edit_image(NEW, "pc-b")
        await scenario.wait_until_updated(2)
        history = scenario.history
        assert list_deletion_order(history.deleted, by_group_replica) == [
            (0, 0),
            (0, 1),
            (1, 0),
            (1, 1),
        ]
        assert len(history.deleted) == len(history.created) == 16
        assert max_incomplete(history.snapshots, 4, by_group_replica, is_in_group) == 1
        assert all(each.image == NEW for each in history.current if each.clique.endswith("pc-b"))


async def test_ru9_updates_of_all_levels_proceed_one_by_one(api: ScenarioApi) -> None:
    async with running_set(api, SET, 20, replicas=2) as scenario:
        await scenario.edit_image(NEW, *ALL_CLIQUES)
        status = await scenario.wait_until_updated(2)
        history = scenario.history
        assert list_deletion_order(history.deleted, by_replica) == [0, 1]
        assert max_incomplete(history.snapshots, 10, by_replica) == 1
        assert max_incomplete(history.snapshots, 4, by_group_replica, is_in_group) == 1
        assert min_ready(history.snapshots, f"{SET}-0-pc-a") == 1
        assert len(history.deleted) == len(history.created) == 20
        assert history.list_images() == {NEW}
        progress = status["updateProgress"]
        assert progress["updatedPodCliqueScalingGroupsCount"] == 2


async def test_ru10_without_a_node_only_one_pod_is_deleted_until_one_is_free(
    api: ScenarioApi,
) -> None:
    async with running_set(api, SET, 10) as scenario:
        await stall_with_one_pod_missing(scenario)
        assert len(scenario.history.deleted) == 1
        assert min_ready(scenario.history.snapshots, f"{SET}-0-pc-a") == 1
        await scenario.uncordon_all_nodes()
        await scenario.wait_until_updated(1)
        assert len(scenario.history.deleted) == 2
        assert scenario.history.list_images(f"{SET}-0-pc-a") == {NEW}


async def stall_with_one_pod_missing(scenario: UpdateScenario) -> None:
    """Start an update of `pc-a` that cannot proceed."""
    await scenario.cordon_all_nodes()
    await scenario.edit_image(NEW, "pc-a")
    await wait_until_stuck(scenario)


async def wait_until_stuck(scenario: UpdateScenario) -> None:
    history = scenario.history
    await history.wait_until(
        lambda: any(each.image == NEW and not each.placed for each in history.current)
    )
    await scenario.cluster.wait_until_settled()


async def test_ru11_replica_added_during_an_update_is_created_updated(api: ScenarioApi) -> None:
    async with running_set(api, SET, 10) as scenario:
        await stall_with_one_pod_missing(scenario)
        await scenario.scale(2)
        await scenario.history.wait_until(
            lambda: len(scenario.history.list_pods(f"{SET}-1-pc-a")) == 2
        )
        await scenario.uncordon_all_nodes()
        await scenario.wait_until_updated(2)
        await scenario.history.wait_until_ready(20)
        assert {each.replica for each in scenario.history.deleted} == {0}
        created_pods = [each for each in scenario.history.created if each.replica == 1]
        assert len(created_pods) == 10
        assert {each.image for each in created_pods if each.group_replica is None} == {NEW}


async def test_ru12_replicas_removed_during_an_update_do_not_block_it(api: ScenarioApi) -> None:
    async with running_set(api, SET, 20, replicas=2) as scenario:
        await scenario.cordon_all_nodes()
        await scenario.edit_image(NEW, *ALL_CLIQUES)
        await wait_until_stuck(scenario)
        assert (await list_updating_replicas(scenario)) == [0]
        await scenario.scale(1)
        await scenario.uncordon_all_nodes()
        await scenario.wait_until_updated(1)
        await scenario.history.wait_until_ready(10, NEW)
        assert {each.replica for each in scenario.history.created} == {0}


async def test_ru13_removing_the_updating_replica_ends_the_update(api: ScenarioApi) -> None:
    async with running_set(api, SET, 20, replicas=2) as scenario:
        await scenario.edit_image(NEW, *ALL_CLIQUES)
        history = scenario.history
        await history.wait_until(lambda: any(each.replica == 1 for each in history.deleted))
        await scenario.scale(1)
        await scenario.wait_until_updated(1)
        await history.wait_until_ready(10, NEW)
        assert len([each for each in history.created if each.replica == 0]) == 10


async def list_updating_replicas(scenario: UpdateScenario) -> list[int]:
    """Which replicas are being updated."""
    progress = (await scenario.get_status())["updateProgress"]
    return [each["replicaIndex"] for each in progress["currentlyUpdating"]]


GROUP = f"{SET}-0-sg-x"


async def test_ru14_group_replica_added_during_an_update_is_created_updated(
    api: ScenarioApi,
) -> None:
    async with running_set(api, SET, 10) as scenario:
        await scenario.cordon_all_nodes()
        await scenario.edit_image(NEW, "pc-b", "pc-c")
        await wait_until_stuck(scenario)
        await scenario.cluster.scale(SCALING_GROUPS, GROUP, 3)
        await scenario.history.wait_until(
            lambda: len(scenario.history.list_pods(f"{GROUP}-2-pc-c")) == 3
        )
        await scenario.uncordon_all_nodes()
        await scenario.wait_until_updated(1)
        await scenario.history.wait_until_ready(14)
        assert list_deletion_order(scenario.history.deleted, by_group_replica) == [(0, 0), (0, 1)]
        added = [each for each in scenario.history.created if each.group_replica == 2]
        assert [each.image for each in added] == [NEW] * 4
        assert len(scenario.history.created) == 12


async def test_ru15_group_replica_added_before_an_update_is_updated_once(api: ScenarioApi) -> None:
    async with running_set(api, SET, 10) as scenario:
        await scenario.cluster.scale(SCALING_GROUPS, GROUP, 3)
        await scenario.history.wait_until_ready(14)
        scenario.history.reset()
        await scenario.edit_image(NEW, "pc-b", "pc-c")
        await scenario.wait_until_updated(1)
        # The set's update ends when minAvailable group replicas are ready: the last is beyond them.
        await scenario.history.wait_until(lambda: len(scenario.history.created) == 12)
        assert list_deletion_order(scenario.history.deleted, by_group_replica) == [
            (0, 0),
            (0, 1),
            (0, 2),
        ]
        assert max_incomplete(scenario.history.snapshots, 4, by_group_replica, is_in_group) == 1
        assert len(scenario.history.deleted) == len(scenario.history.created) == 12
        assert await get_replicas(scenario, SCALING_GROUPS, GROUP) == 3


async def get_replicas(scenario: UpdateScenario, resource: Resource[Any], name: str) -> int:
    return (await scenario.cluster.get(resource, name))["spec"]["replicas"]


async def test_ru16_group_replica_removed_during_an_update_is_not_recreated(
    api: ScenarioApi,
) -> None:
    async with running_set(api, SET, 10) as scenario:
        await scenario.cluster.scale(SCALING_GROUPS, GROUP, 3)
        await scenario.history.wait_until_ready(14)
        scenario.history.reset()
        await scenario.cordon_all_nodes()
        await scenario.edit_image(NEW, "pc-b", "pc-c")
        await wait_until_stuck(scenario)
        await scenario.cluster.scale(SCALING_GROUPS, GROUP, 2)
        await scenario.history.wait_until(
            lambda: not any(each.group_replica == 2 for each in scenario.history.current)
        )
        await scenario.uncordon_all_nodes()
        await scenario.wait_until_updated(1)
        await scenario.history.wait_until_ready(10)
        assert list_deletion_order(scenario.history.deleted, by_group_replica) == [
            (0, 0),
            (0, 2),
            (0, 1),
        ]
        assert len(scenario.history.created) == 8


async def test_ru17_group_replica_removed_before_an_update_is_not_recreated(
    api: ScenarioApi,
) -> None:
    async with running_set(api, SET, 10) as scenario:
        await scenario.cluster.scale(SCALING_GROUPS, GROUP, 3)
        await scenario.history.wait_until_ready(14)
        await scenario.cluster.scale(SCALING_GROUPS, GROUP, 2)
        await scenario.history.wait_until_ready(10)
        scenario.history.reset()
        await scenario.edit_image(NEW, "pc-b", "pc-c")
        await scenario.wait_until_updated(1)
        assert list_deletion_order(scenario.history.deleted, by_group_replica) == [(0, 0), (0, 1)]
        assert max_incomplete(scenario.history.snapshots, 4, by_group_replica, is_in_group) == 1
        assert len(scenario.history.created) == 8


CLIQUE = f"{SET}-0-pc-a"


async def test_ru18_pod_added_during_an_update_is_created_updated(api: ScenarioApi) -> None:
    async with running_set(api, SET, 10) as scenario:
        await stall_with_one_pod_missing(scenario)
        await scenario.cluster.scale(CLIQUES, CLIQUE, 4)
        await scenario.history.wait_until(lambda: len(scenario.history.list_pods(CLIQUE)) == 4)
        await scenario.uncordon_all_nodes()
        await scenario.wait_until_updated(1)
        await scenario.history.wait_until_ready(12)
        assert [each.image for each in scenario.history.created] == [NEW] * 4
        assert [each.image for each in scenario.history.deleted] == [OLD] * 2


async def test_ru19_pod_added_before_an_update_is_updated_once(api: ScenarioApi) -> None:
    async with running_set(api, SET, 10) as scenario:
        await scenario.cluster.scale(CLIQUES, CLIQUE, 4)
        await scenario.history.wait_until_ready(12)
        scenario.history.reset()
        await scenario.edit_image(NEW, "pc-a")
        await scenario.wait_until_updated(1)
        assert min_ready(scenario.history.snapshots, CLIQUE) == 3
        assert len(scenario.history.deleted) == len(scenario.history.created) == 4
        assert await get_replicas(scenario, CLIQUES, CLIQUE) == 4


async def test_ru20_clique_scaled_in_during_an_update_ends_with_updated_pods_only(
    api: ScenarioApi,
) -> None:
    async with running_set(api, SET, 10) as scenario:
        await scenario.cluster.scale(CLIQUES, CLIQUE, 4)
        await scenario.history.wait_until_ready(12)
        scenario.history.reset()
        await stall_with_one_pod_missing(scenario)
        await scenario.cluster.scale(CLIQUES, CLIQUE, 2)
        await scenario.history.wait_until(lambda: len(scenario.history.list_pods(CLIQUE)) == 2)
        await scenario.uncordon_all_nodes()
        await scenario.wait_until_updated(1)
        await scenario.history.wait_until_ready(10)
        assert scenario.history.list_images(CLIQUE) == {NEW}
        assert min_ready(scenario.history.snapshots, CLIQUE) == 1


async def test_ru21_clique_scaled_in_before_an_update_keeps_its_size(api: ScenarioApi) -> None:
    async with running_set(api, SET, 10) as scenario:
        await scenario.cluster.scale(CLIQUES, CLIQUE, 4)
        await scenario.history.wait_until_ready(12)
        await scenario.cluster.scale(CLIQUES, CLIQUE, 2)
        await scenario.history.wait_until_ready(10)
        scenario.history.reset()
        await scenario.edit_image(NEW, "pc-a")
        await scenario.wait_until_updated(1)
        assert min_ready(scenario.history.snapshots, CLIQUE) == 1
        assert len(scenario.history.deleted) == len(scenario.history.created) == 2
        assert scenario.history.list_images(CLIQUE) == {NEW}
