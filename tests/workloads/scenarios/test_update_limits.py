"""Limits of updates: maxUnavailable, maxSurge, and coherent updates."""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from tests.workloads.scenarios.support.pod_history import PodSnapshot
from tests.workloads.scenarios.support.scenario_api import ScenarioApi
from tests.workloads.scenarios.support.set_updates import (
    ALL_CLIQUES,
    NEW,
    NEWER,
    OLD,
    UpdateScenario,
    by_group_replica,
    by_replica,
    list_deletion_order,
    max_incomplete,
    min_ready,
    running_set,
)

SET = "workload1"
CLIQUE = f"{SET}-0-pc-a"
NO_GAP = {"maxSurge": 1, "maxUnavailable": 0}


def keep_single_clique(pods: int, min_available: int, **rolling: Any) -> Callable[[Any], None]:
    """Reduce a set to the clique `pc-a` with this rolling update."""

    def change(body: Any) -> None:
        template = body["spec"]["template"]
        del template["podCliqueScalingGroups"]
        clique, *_ = template["cliques"]
        clique["spec"] |= {"replicas": pods, "minAvailable": min_available}
        if rolling:
            clique["spec"]["rollingUpdate"] = rolling
        template["cliques"] = [clique]

    return change


def set_strategy(**rolling: Any) -> dict[str, Any]:
    return {"updateStrategy": {"type": "RollingRecreate", "rollingUpdate": rolling}}


def min_whole_replicas(moments: Iterable[PodSnapshot], pods: int) -> int:
    """The minimum number of replicas with so many ready pods."""
    counts = (Counter(each.replica for each in moment if each.ready) for moment in moments)
    return min(sum(count >= pods for count in each.values()) for each in counts)


async def test_set_with_max_unavailable_updates_so_many_replicas_together(api: ScenarioApi) -> None:
    spec: dict[str, Any] = {"replicas": 4, **set_strategy(maxUnavailable="50%")}
    async with running_set(api, SET, 4, change=keep_single_clique(1, 1), **spec) as scenario:
        await scenario.edit_image(NEW, "pc-a")
        await scenario.wait_until_updated(4)
        assert max_incomplete(scenario.history.snapshots, 1, by_replica) == 2
        assert len(scenario.history.deleted) == len(scenario.history.created) == 4


async def test_set_with_surge_keeps_all_replicas(api: ScenarioApi) -> None:
    spec: dict[str, Any] = {"replicas": 2, **set_strategy(**NO_GAP)}
    async with running_set(api, SET, 4, change=keep_single_clique(2, 2), **spec) as scenario:
        await scenario.edit_image(NEW, "pc-a")
        await scenario.wait_until_updated(2)
        await scenario.history.wait_until_ready(4, NEW)
        assert min_whole_replicas(scenario.history.snapshots, 2) == 2
        assert max(map(len, scenario.history.snapshots)) == 6
        assert {each.replica for each in scenario.history.current} == {0, 1}
        assert len(scenario.history.created) == 6


async def test_clique_with_max_unavailable_updates_so_many_pods_together(api: ScenarioApi) -> None:
    change = keep_single_clique(4, 1, maxUnavailable=2)
    async with running_set(api, SET, 4, change=change) as scenario:
        await scenario.edit_image(NEW, "pc-a")
        await scenario.wait_until_updated(1)
        assert min_ready(scenario.history.snapshots, CLIQUE) == 2
        assert len(scenario.history.deleted) == len(scenario.history.created) == 4


async def test_clique_with_surge_keeps_all_pods(api: ScenarioApi) -> None:
    async with running_set(api, SET, 3, change=keep_single_clique(3, 3, **NO_GAP)) as scenario:
        await scenario.edit_image(NEW, "pc-a")
        await scenario.wait_until_updated(1)
        await scenario.history.wait_until_ready(3, NEW)
        assert min_ready(scenario.history.snapshots, CLIQUE) == 3
        assert max(map(len, scenario.history.snapshots)) == 4


async def test_group_with_max_unavailable_updates_so_many_group_replicas_together(
    api: ScenarioApi,
) -> None:
    def change(body: Any) -> None:
        [group] = body["spec"]["template"]["podCliqueScalingGroups"]
        group |= {"replicas": 4, "minAvailable": 1, "rollingUpdate": {"maxUnavailable": 2}}

    async with running_set(api, SET, 18, change=change) as scenario:
        await scenario.edit_image(NEW, "pc-b")
        await scenario.wait_until_updated(1)
        await scenario.history.wait_until_ready(18)
        assert (
            max_incomplete(
                scenario.history.snapshots,
                4,
                by_group_replica,
                lambda pod: pod.group_replica is not None,
            )
            == 2
        )
        assert len(scenario.history.deleted) == len(scenario.history.created) == 16


async def test_coherent_update_has_no_moment_with_two_versions_in_a_replica(
    api: ScenarioApi,
) -> None:
    spec: dict[str, Any] = {"replicas": 2, **set_strategy(coherent=True)}
    async with running_set(api, SET, 20, **spec) as scenario:
        await scenario.edit_image(NEW, *ALL_CLIQUES)
        await scenario.wait_until_updated(2)
        await scenario.history.wait_until_ready(20, NEW)
        assert list_deletion_order(scenario.history.deleted, by_replica) == [0, 1]
        assert not any(map(has_mixed_versions, scenario.history.snapshots))
        assert len(scenario.history.deleted) == 20


def has_mixed_versions(moment: PodSnapshot) -> bool:
    """Whether pods of two versions run together in a replica."""
    working = {(each.replica, each.image) for each in moment if each.ready}
    return len(working) > len({replica for replica, _ in working})


async def edit_twice(scenario: UpdateScenario, image: str) -> None:
    """Edit again when the first edit has updated one pod and cannot proceed."""
    await scenario.cordon_all_nodes()
    await scenario.edit_image(NEW, "pc-a")
    await scenario.history.wait_until(lambda: NEW in scenario.history.list_images())
    await scenario.cluster.wait_until_settled()
    await scenario.edit_image(image, "pc-a")
    # Else the pod of the first edit may become ready before the operator sees the second.
    await scenario.cluster.wait_until_settled()
    await scenario.uncordon_all_nodes()
    await scenario.wait_until_updated(2)
    await scenario.history.wait_until_ready(4, image)


async def test_second_edit_skips_the_intermediate_revision(api: ScenarioApi) -> None:
    async with running_set(api, SET, 4, change=keep_single_clique(2, 2), replicas=2) as scenario:
        await edit_twice(scenario, NEWER)
        assert Counter(each.image for each in scenario.history.created) == {NEW: 1, NEWER: 4}
        assert list_deletion_order(scenario.history.deleted, by_replica) == [0, 1]


async def test_rolled_back_edit_replaces_only_updated_pods(api: ScenarioApi) -> None:
    async with running_set(api, SET, 4, change=keep_single_clique(2, 2), replicas=2) as scenario:
        first = (await scenario.get_status())["currentGenerationHash"]
        await edit_twice(scenario, OLD)
        assert Counter(each.image for each in scenario.history.created) == {NEW: 1, OLD: 1}
        assert {each.replica for each in scenario.history.deleted} == {0}
        assert (await scenario.get_status())["currentGenerationHash"] == first


async def test_edits_in_quick_succession_end_at_the_last(api: ScenarioApi) -> None:
    async with running_set(api, SET, 4, change=keep_single_clique(2, 2), replicas=2) as scenario:
        for image in (NEW, NEWER, NEW, NEWER):
            await scenario.edit_image(image, "pc-a")
        await scenario.wait_until_updated(2)
        await scenario.history.wait_until_ready(4, NEWER)
        assert min_whole_replicas(scenario.history.snapshots, 2) == 1
        assert min_ready(scenario.history.snapshots, CLIQUE) == 1
