"""The controller of cliques on an embedded cluster, in virtual time."""

from typing import Any

import pytest

from kilonova.api.grove import names
from kilonova.api.grove.parts import RollingUpdate
from kilonova.kube.resource import plain
from kilonova.local.nodes import NO_NODES
from tests.local.embedded_cluster import EVENTS, eventually, gone, settle, virtual_time
from tests.workloads.builders import clique, pod_clique_set, pod_template
from tests.workloads.cliques.clique_stage import Stage, conditions, playing
from tests.workloads.ground import CLIQUES, GANGS, NAMESPACE, PODS, SETS

pytestmark = virtual_time

W = "sys-0-w"
QUOTAS = plain("", "v1", "resourcequotas", "ResourceQuota", True)


async def up(scene: Stage, replicas: int = 2, least: int | None = None, **more: Any) -> Any:
    """A clique with all of its pods ready."""
    set_ = await scene.add_set(pod_clique_set(clique("w", replicas, least, **more)))
    made = await scene.add_clique(set_, "w")
    await scene.add_gang(made)
    await scene.until_ready(replicas)
    return made


async def test_pods_come_with_their_gang_and_are_born_free() -> None:
    async with playing() as (scene, process):
        set_ = await scene.add_set(pod_clique_set(clique("w", 2)))
        made = await scene.add_clique(set_, "w")
        status = await scene.until(lambda each: each.get("observedGeneration") == 1)
        assert await scene.pods() == []
        assert conditions(status) == {
            "MinAvailableBreached": ("True", "ScheduledReplicasBelowMinAvailable"),
            "PodCliqueScheduled": ("False", "InsufficientScheduledPods"),
        }
        await scene.add_gang(made)
        status = await scene.until_ready(2)
        assert conditions(status) == {
            "MinAvailableBreached": ("False", "SufficientReadyPods"),
            "PodCliqueScheduled": ("True", "SufficientScheduledPods"),
        }
        assert status["scheduleGatedReplicas"] == 0
        assert status["healthyIncarnation"] == 0
        assert await scene.indexes(W) == [0, 1]
        assert [each.method for each in process.written if "/pods" in each.path] == ["POST"] * 2
        labels = {pod["metadata"]["labels"][names.POD_TEMPLATE_HASH] for pod in await scene.pods()}
        assert labels == {status["currentPodTemplateHash"]}


async def test_gates_are_lifted_when_the_gang_lists_the_pods() -> None:
    async with playing() as (scene, _):
        template = clique("w", 2, pod_spec=pod_template(schedulingGates=[{"name": "mine"}]))
        set_ = await scene.add_set(pod_clique_set(template))
        await scene.add_gang(await scene.add_clique(set_, "w"), listed=False)
        await scene.until(lambda each: each.get("scheduleGatedReplicas") == 2)
        await scene.list_pods()
        await scene.until(lambda each: each.get("scheduleGatedReplicas") == 0)
        gates = [pod["spec"]["schedulingGates"] for pod in await scene.pods()]
        assert gates == [[{"name": "mine"}]] * 2


async def test_gs6_a_scaled_gang_starts_when_its_base_is_placed() -> None:
    async with playing() as (scene, _):
        set_ = await scene.add_set(pod_clique_set(clique("w", 1)))
        await scene.add_gang(name="sys-0")
        made = await scene.add_clique(set_, "w")
        await scene.add_gang(made, name="sys-0-g-0")
        labels = {names.POD_GANG: "sys-0-g-0", names.BASE_POD_GANG: "sys-0"}
        await scene.patch(CLIQUES, W, {"metadata": {"labels": labels}})
        await scene.until(lambda each: each.get("scheduleGatedReplicas") == 1)
        placed = {
            "type": "Scheduled",
            "status": "True",
            "reason": "Placed",
            "message": "",
            "lastTransitionTime": "2026-05-01T00:00:00Z",
        }
        status = {"status": {"phase": "Starting", "conditions": [placed]}}
        await scene.patch(GANGS, "sys-0", status, "status")
        await scene.until_ready(1)


async def test_so1_a_clique_starts_after_another() -> None:
    async with playing() as (scene, _):
        first = clique("a", 2, 1)
        second = clique("w", 2, after=["a"])
        startup: Any = "CliqueStartupTypeExplicit"
        set_ = await scene.add_set(pod_clique_set(first, second, startup=startup))
        later = await scene.add_clique(set_, "w")
        await scene.add_gang(later)
        await scene.until(lambda each: each.get("scheduledReplicas") == 2)
        await settle(20)
        assert (await scene.status())["readyReplicas"] == 0
        await scene.add_clique(set_, "a")
        await scene.until(lambda each: each.get("replicas") == 2, "sys-0-a")
        await scene.list_pods()
        await scene.until_ready(2, "sys-0-a")
        await scene.until_ready(2)
        await scene.scale(W, 3)
        await scene.until(lambda each: each.get("replicas") == 3)
        born = [pod["metadata"]["annotations"] for pod in await scene.pods(W)]
        assert [each[names.RELEASED] for each in born] == ["true"] * 3


async def test_a_clique_is_scaled_out_and_in_and_to_zero_and_back() -> None:
    async with playing() as (scene, _):
        await up(scene, 2)
        for replicas in (4, 1, 0, 2):
            await scene.scale(W, replicas)
            await scene.until(lambda each, wanted=replicas: each["replicas"] == wanted)
            await scene.list_pods()
            status = await scene.until_ready(replicas)
            assert await scene.indexes(W) == list(range(replicas))
            assert conditions(status)["MinAvailableBreached"][0] == "False"


async def test_a_pod_deleted_by_hand_or_failed_is_replaced() -> None:
    async with playing() as (scene, _):
        await up(scene, 2)
        before = await scene.pods()
        await scene.place.client.delete(PODS, before[0]["metadata"]["name"], NAMESPACE)
        failed = {"status": {"phase": "Failed", "reason": "Evicted"}}
        await scene.patch(PODS, before[1]["metadata"]["name"], failed, "status")
        await scene.until_gone(before)
        await scene.list_pods()
        await scene.until_ready(2)
        assert await scene.indexes(W) == [0, 1]


async def test_all_pods_are_started_anew_in_another_incarnation() -> None:
    async with playing() as (scene, _):
        await up(scene, 2)
        before = await scene.pods()
        await scene.patch(CLIQUES, W, {"metadata": {"annotations": {names.INCARNATION: "1"}}})
        await scene.until_gone(before)
        await scene.list_pods()
        await scene.until(lambda each: each.get("healthyIncarnation") == 1)
        await scene.until_ready(2)


@pytest.mark.parametrize("how", [RollingUpdate(), RollingUpdate(0, 1)])
async def test_ru7_pods_are_replaced_when_their_turn_has_come(how: RollingUpdate) -> None:
    async with playing() as (scene, _):
        await up(scene, 2, rolling_update=how)
        await scene.change_template(W, "second", "img:2")
        status = await scene.until(lambda each: "updateProgress" in each)
        assert conditions(status)["MinAvailableBreached"] == ("Unknown", "UpdateInProgress")
        await settle(10)
        assert (await scene.status())["updatedReplicas"] == 0
        await scene.give_turn()

        async def listed_and_done() -> bool:
            await scene.list_pods()
            progress = (await scene.status())["updateProgress"]
            return "updateEndedAt" in progress

        await eventually(listed_and_done)
        status = await scene.until_ready(2)
        assert status["currentPodTemplateHash"] == "second"
        selected = status["updateProgress"]["readyPodsSelectedToUpdate"]
        assert len({selected["current"], *selected["completed"]}) == 2
        assert conditions(status)["UpdateInProgress"] == ("False", "UpdateCompleted")
        assert await scene.indexes(W) == [0, 1]


async def test_od1_nothing_is_replaced_where_people_delete() -> None:
    async with playing() as (scene, _):
        await up(scene, 2)
        await scene.patch(SETS, "sys", {"spec": {"updateStrategy": {"type": "OnDelete"}}})
        await scene.change_template(W, "second", "img:2")
        await scene.give_turn()
        status = await scene.until(lambda each: "updateProgress" in each)
        assert "updateEndedAt" in status["updateProgress"]
        await settle(10)
        assert (await scene.status())["updatedReplicas"] == 0
        for pod in await scene.pods():
            await scene.place.client.delete(PODS, pod["metadata"]["name"], NAMESPACE)
        await scene.until(lambda each: each["updatedReplicas"] == 2)


async def test_a_clique_that_finishes() -> None:
    async with playing(fleet=NO_NODES) as (scene, _):
        template = clique("w", 2, pod_spec=pod_template(restartPolicy="Never"))
        set_ = await scene.add_set(pod_clique_set(template, backoff_limit=1))
        await scene.add_gang(await scene.add_clique(set_, "w"))
        await scene.until(lambda each: each.get("replicas") == 2)
        first, second = (pod["metadata"]["name"] for pod in await scene.pods())
        await scene.patch(PODS, first, {"status": {"phase": "Failed"}}, "status")
        await scene.patch(PODS, second, {"status": {"phase": "Succeeded"}}, "status")

        async def replaced() -> bool:
            return len(await scene.pods()) == 3

        await eventually(replaced)
        (third,) = {pod["metadata"]["name"] for pod in await scene.pods()} - {first, second}
        await scene.patch(PODS, third, {"status": {"phase": "Succeeded"}}, "status")
        status = await scene.until(lambda each: each.get("succeededReplicas") == 2)
        assert conditions(status)["Complete"] == ("True", "AllPodsSucceeded")


async def test_what_goes_wrong_is_told_until_it_goes_well() -> None:
    async with playing(fleet=NO_NODES) as (scene, _):
        quota = {"metadata": {"name": "few"}, "spec": {"hard": {"pods": "1"}}}
        await scene.place.client.create(QUOTAS, quota, NAMESPACE)
        set_ = await scene.add_set(pod_clique_set(clique("w", 2)))
        await scene.add_gang(await scene.add_clique(set_, "w"))
        status = await scene.until(lambda each: bool(each.get("lastErrors")))
        (error,) = status["lastErrors"]
        assert error["code"] == "ERR_SYNC_PODS"
        assert "exceeded quota" in error["description"]
        await scene.place.client.delete(QUOTAS, "few", NAMESPACE)
        await scene.until(lambda each: not each.get("lastErrors"), within=600)
        assert (await scene.status())["replicas"] == 2
        events = (await scene.place.client.list(EVENTS, NAMESPACE)).items
        assert {"PodCreateFailed", "PodCreateSuccessful"} <= {each["reason"] for each in events}


async def test_a_big_clique_that_cannot_grow_tries_less_and_less_often() -> None:
    async with playing(fleet=NO_NODES) as (scene, process):
        quota = {"metadata": {"name": "few"}, "spec": {"hard": {"pods": "64"}}}
        await scene.place.client.create(QUOTAS, quota, NAMESPACE)
        set_ = await scene.add_set(pod_clique_set(clique("w", 70)))
        await scene.add_gang(await scene.add_clique(set_, "w"))
        await scene.until(lambda each: bool(each.get("lastErrors")))
        await settle(60)
        before = len(process.written)
        await settle(60)
        assert len(process.written) - before < 10


async def test_a_pod_of_somebody_else_in_the_way_is_told() -> None:
    async with playing(fleet=NO_NODES) as (scene, _):
        foreign = {"metadata": {"name": names.pod(W, 0, 0)}, "spec": pod_template()}
        await scene.place.client.create(PODS, foreign, NAMESPACE)
        set_ = await scene.add_set(pod_clique_set(clique("w", 1)))
        await scene.add_gang(await scene.add_clique(set_, "w"))
        status = await scene.until(lambda each: bool(each.get("lastErrors")))
        assert "already exists" in status["lastErrors"][0]["description"]
        await scene.place.client.delete(PODS, names.pod(W, 0, 0), NAMESPACE)
        await scene.until(lambda each: each.get("replicas") == 1, within=600)


async def test_losing_every_node_is_told() -> None:
    async with playing() as (scene, _):
        await up(scene, 1)
        (pod,) = await scene.pods()
        await scene.place.client.delete(PODS, pod["metadata"]["name"], NAMESPACE)

        async def told() -> bool:
            events = (await scene.place.client.list(EVENTS, NAMESPACE)).items
            return "AllScheduledReplicasLost" in {each["reason"] for each in events}

        await eventually(told)


async def test_a_deleted_clique_leaves_nothing() -> None:
    async with playing() as (scene, _):
        await up(scene, 3)
        await scene.place.client.delete(CLIQUES, W, NAMESPACE)
        await gone(scene.place.client, CLIQUES, W)

        async def no_pods() -> bool:
            return not await scene.place.all(PODS)

        await eventually(no_pods)


async def test_a_clique_at_rest_writes_nothing() -> None:
    async with playing() as (scene, process):
        await up(scene, 3)
        await settle(10)
        before = len(process.written)
        await settle(600)
        assert process.written[before:] == []


async def test_statuses_are_written_at_their_pace() -> None:
    async with playing() as (scene, process):
        await up(scene, 60)
        writes = [each for each in process.written if each.path.endswith("/status")]
        assert len(writes) < 15


async def test_the_status_of_a_set_or_a_gang_concerns_no_clique() -> None:
    async with playing() as (scene, process):
        await up(scene, 2)
        await settle(5)
        before = len(process.written)
        await scene.patch(SETS, "sys", {"status": {"availableReplicas": 1}}, "status")
        await scene.patch(GANGS, "sys-0", {"status": {"phase": "Running"}}, "status")
        await settle(5)
        assert process.written[before:] == []
