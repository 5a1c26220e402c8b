"""The PodClique controller on an embedded cluster, in virtual time."""

from typing import Any

import pytest

from kilonova.api.grove import names
from kilonova.api.grove.common import RollingUpdate
from kilonova.kube.client.resource import unstructured_resource
from kilonova.local.simnodes import NO_NODES
from tests.local.embedded_cluster import (
    EVENTS,
    advance_time,
    virtual_time,
    wait_deleted,
    wait_for_condition,
)
from tests.workloads.api_objects import clique, pod_clique_set, pod_template
from tests.workloads.controllers.podclique.clique_cluster import (
    CliqueCluster,
    get_conditions,
    running_controller,
)
from tests.workloads.workload_cluster import CLIQUES, GANGS, NAMESPACE, PODS, SETS

pytestmark = virtual_time

W = "sys-0-w"
QUOTAS = unstructured_resource("", "v1", "resourcequotas", "ResourceQuota", True)


async def start_clique(
    cluster: CliqueCluster, replicas: int = 2, min_available: int | None = None, **more: Any
) -> Any:
    """A clique with all of its pods ready."""
    set_ = await cluster.add_set(pod_clique_set(clique("w", replicas, min_available, **more)))
    created = await cluster.add_clique(set_, "w")
    await cluster.add_gang(created)
    await cluster.wait_until_ready(replicas)
    return created


async def test_pods_are_created_with_their_gang_and_without_gate() -> None:
    async with running_controller() as (cluster, process):
        set_ = await cluster.add_set(pod_clique_set(clique("w", 2)))
        created = await cluster.add_clique(set_, "w")
        status = await cluster.wait_for_status(lambda each: each.get("observedGeneration") == 1)
        assert await cluster.list_pods() == []
        assert get_conditions(status) == {
            "MinAvailableBreached": ("True", "ScheduledReplicasBelowMinAvailable"),
            "PodCliqueScheduled": ("False", "InsufficientScheduledPods"),
        }
        await cluster.add_gang(created)
        status = await cluster.wait_until_ready(2)
        assert get_conditions(status) == {
            "MinAvailableBreached": ("False", "SufficientReadyPods"),
            "PodCliqueScheduled": ("True", "SufficientScheduledPods"),
        }
        assert status["scheduleGatedReplicas"] == 0
        assert status["healthyIncarnation"] == 0
        assert await cluster.list_indexes(W) == [0, 1]
        assert [each.method for each in process.writes if "/pods" in each.path] == ["POST"] * 2
        labels = {
            pod["metadata"]["labels"][names.POD_TEMPLATE_HASH] for pod in await cluster.list_pods()
        }
        assert labels == {status["currentPodTemplateHash"]}


async def test_gates_are_lifted_when_the_gang_lists_the_pods() -> None:
    async with running_controller() as (cluster, _):
        template = clique("w", 2, pod_spec=pod_template(schedulingGates=[{"name": "mine"}]))
        set_ = await cluster.add_set(pod_clique_set(template))
        await cluster.add_gang(await cluster.add_clique(set_, "w"), listed=False)
        await cluster.wait_for_status(lambda each: each.get("scheduleGatedReplicas") == 2)
        await cluster.add_pods_to_gang()
        await cluster.wait_for_status(lambda each: each.get("scheduleGatedReplicas") == 0)
        gates = [pod["spec"]["schedulingGates"] for pod in await cluster.list_pods()]
        assert gates == [[{"name": "mine"}]] * 2


async def test_gs6_scaled_gang_starts_when_its_base_is_scheduled() -> None:
    async with running_controller() as (cluster, _):
        set_ = await cluster.add_set(pod_clique_set(clique("w", 1)))
        await cluster.add_gang(name="sys-0")
        created = await cluster.add_clique(set_, "w")
        await cluster.add_gang(created, name="sys-0-g-0")
        labels = {names.POD_GANG: "sys-0-g-0", names.BASE_POD_GANG: "sys-0"}
        await cluster.patch(CLIQUES, W, {"metadata": {"labels": labels}})
        await cluster.wait_for_status(lambda each: each.get("scheduleGatedReplicas") == 1)
        placed = {
            "type": "Scheduled",
            "status": "True",
            "reason": "Placed",
            "message": "",
            "lastTransitionTime": "2026-05-01T00:00:00Z",
        }
        status = {"status": {"phase": "Starting", "conditions": [placed]}}
        await cluster.patch(GANGS, "sys-0", status, "status")
        await cluster.wait_until_ready(1)


async def test_so1_a_clique_starts_after_another() -> None:
    async with running_controller() as (cluster, _):
        first = clique("a", 2, 1)
        second = clique("w", 2, after=["a"])
        startup: Any = "CliqueStartupTypeExplicit"
        set_ = await cluster.add_set(pod_clique_set(first, second, startup=startup))
        later = await cluster.add_clique(set_, "w")
        await cluster.add_gang(later)
        await cluster.wait_for_status(lambda each: each.get("scheduledReplicas") == 2)
        await advance_time(20)
        assert (await cluster.get_status())["readyReplicas"] == 0
        await cluster.add_clique(set_, "a")
        await cluster.wait_for_status(lambda each: each.get("replicas") == 2, "sys-0-a")
        await cluster.add_pods_to_gang()
        await cluster.wait_until_ready(2, "sys-0-a")
        await cluster.wait_until_ready(2)
        await cluster.scale(W, 3)
        await cluster.wait_for_status(lambda each: each.get("replicas") == 3)
        created_pods = [pod["metadata"]["annotations"] for pod in await cluster.list_pods(W)]
        assert [each[names.STARTUP_RELEASED] for each in created_pods] == ["true"] * 3


async def test_a_clique_is_scaled_out_and_in_and_to_zero_and_back() -> None:
    async with running_controller() as (cluster, _):
        await start_clique(cluster, 2)
        for replicas in (4, 1, 0, 2):
            await cluster.scale(W, replicas)
            await cluster.wait_for_status(lambda each, wanted=replicas: each["replicas"] == wanted)
            await cluster.add_pods_to_gang()
            status = await cluster.wait_until_ready(replicas)
            assert await cluster.list_indexes(W) == list(range(replicas))
            assert get_conditions(status)["MinAvailableBreached"][0] == "False"


async def test_a_pod_deleted_by_hand_or_failed_is_replaced() -> None:
    async with running_controller() as (cluster, _):
        await start_clique(cluster, 2)
        before = await cluster.list_pods()
        await cluster.cluster.client.delete(PODS, before[0]["metadata"]["name"], NAMESPACE)
        failed = {"status": {"phase": "Failed", "reason": "Evicted"}}
        await cluster.patch(PODS, before[1]["metadata"]["name"], failed, "status")
        await cluster.wait_until_deleted(before)
        await cluster.add_pods_to_gang()
        await cluster.wait_until_ready(2)
        assert await cluster.list_indexes(W) == [0, 1]


async def test_all_pods_are_restarted_in_another_incarnation() -> None:
    async with running_controller() as (cluster, _):
        await start_clique(cluster, 2)
        before = await cluster.list_pods()
        await cluster.patch(CLIQUES, W, {"metadata": {"annotations": {names.INCARNATION: "1"}}})
        await cluster.wait_until_deleted(before)
        await cluster.add_pods_to_gang()
        await cluster.wait_for_status(lambda each: each.get("healthyIncarnation") == 1)
        await cluster.wait_until_ready(2)


@pytest.mark.parametrize("how", [RollingUpdate(), RollingUpdate(0, 1)])
async def test_ru7_pods_are_replaced_when_their_replica_is_updating(how: RollingUpdate) -> None:
    async with running_controller() as (cluster, _):
        await start_clique(cluster, 2, rolling_update=how)
        await cluster.change_template(W, "second", "img:2")
        status = await cluster.wait_for_status(lambda each: "updateProgress" in each)
        assert get_conditions(status)["MinAvailableBreached"] == ("Unknown", "UpdateInProgress")
        await advance_time(10)
        assert (await cluster.get_status())["updatedReplicas"] == 0
        await cluster.allow_update()

        async def listed_and_done() -> bool:
            await cluster.add_pods_to_gang()
            progress = (await cluster.get_status())["updateProgress"]
            return "updateEndedAt" in progress

        await wait_for_condition(listed_and_done)
        status = await cluster.wait_until_ready(2)
        assert status["currentPodTemplateHash"] == "second"
        selected = status["updateProgress"]["readyPodsSelectedToUpdate"]
        assert len({selected["current"], *selected["completed"]}) == 2
        assert get_conditions(status)["UpdateInProgress"] == ("False", "UpdateCompleted")
        assert await cluster.list_indexes(W) == [0, 1]


async def test_od1_nothing_is_replaced_under_on_delete() -> None:
    async with running_controller() as (cluster, _):
        await start_clique(cluster, 2)
        await cluster.patch(SETS, "sys", {"spec": {"updateStrategy": {"type": "OnDelete"}}})
        await cluster.change_template(W, "second", "img:2")
        await cluster.allow_update()
        status = await cluster.wait_for_status(lambda each: "updateProgress" in each)
        assert "updateEndedAt" in status["updateProgress"]
        await advance_time(10)
        assert (await cluster.get_status())["updatedReplicas"] == 0
        for pod in await cluster.list_pods():
            await cluster.cluster.client.delete(PODS, pod["metadata"]["name"], NAMESPACE)
        await cluster.wait_for_status(lambda each: each["updatedReplicas"] == 2)


async def test_clique_runs_to_completion() -> None:
    async with running_controller(fleet=NO_NODES) as (cluster, _):
        template = clique("w", 2, pod_spec=pod_template(restartPolicy="Never"))
        set_ = await cluster.add_set(pod_clique_set(template, backoff_limit=1))
        await cluster.add_gang(await cluster.add_clique(set_, "w"))
        await cluster.wait_for_status(lambda each: each.get("replicas") == 2)
        first, second = (pod["metadata"]["name"] for pod in await cluster.list_pods())
        await cluster.patch(PODS, first, {"status": {"phase": "Failed"}}, "status")
        await cluster.patch(PODS, second, {"status": {"phase": "Succeeded"}}, "status")

        async def replaced() -> bool:
            return len(await cluster.list_pods()) == 3

        await wait_for_condition(replaced)
        (third,) = {pod["metadata"]["name"] for pod in await cluster.list_pods()} - {first, second}
        await cluster.patch(PODS, third, {"status": {"phase": "Succeeded"}}, "status")
        status = await cluster.wait_for_status(lambda each: each.get("succeededReplicas") == 2)
        assert get_conditions(status)["Complete"] == ("True", "AllPodsSucceeded")


async def test_write_failure_is_reported_until_it_succeeds() -> None:
    async with running_controller(fleet=NO_NODES) as (cluster, _):
        quota = {"metadata": {"name": "few"}, "spec": {"hard": {"pods": "1"}}}
        await cluster.cluster.client.create(QUOTAS, quota, NAMESPACE)
        set_ = await cluster.add_set(pod_clique_set(clique("w", 2)))
        await cluster.add_gang(await cluster.add_clique(set_, "w"))
        status = await cluster.wait_for_status(lambda each: bool(each.get("lastErrors")))
        (error,) = status["lastErrors"]
        assert error["code"] == "ERR_SYNC_PODS"
        assert "exceeded quota" in error["description"]
        await cluster.cluster.client.delete(QUOTAS, "few", NAMESPACE)
        await cluster.wait_for_status(lambda each: not each.get("lastErrors"), timeout=600)
        assert (await cluster.get_status())["replicas"] == 2
        events = (await cluster.cluster.client.list(EVENTS, NAMESPACE)).items
        assert {"PodCreateFailed", "PodCreateSuccessful"} <= {each["reason"] for each in events}


async def test_rejected_pod_creation_of_a_big_clique_backs_off() -> None:
    async with running_controller(fleet=NO_NODES) as (cluster, process):
        quota = {"metadata": {"name": "few"}, "spec": {"hard": {"pods": "64"}}}
        await cluster.cluster.client.create(QUOTAS, quota, NAMESPACE)
        set_ = await cluster.add_set(pod_clique_set(clique("w", 70)))
        await cluster.add_gang(await cluster.add_clique(set_, "w"))
        await cluster.wait_for_status(lambda each: bool(each.get("lastErrors")))
        await advance_time(60)
        before = len(process.writes)
        await advance_time(60)
        assert len(process.writes) - before < 10


async def test_conflicting_pod_of_another_owner_is_reported() -> None:
    async with running_controller(fleet=NO_NODES) as (cluster, _):
        foreign = {"metadata": {"name": names.pod(W, 0, 0)}, "spec": pod_template()}
        await cluster.cluster.client.create(PODS, foreign, NAMESPACE)
        set_ = await cluster.add_set(pod_clique_set(clique("w", 1)))
        await cluster.add_gang(await cluster.add_clique(set_, "w"))
        status = await cluster.wait_for_status(lambda each: bool(each.get("lastErrors")))
        assert "already exists" in status["lastErrors"][0]["description"]
        await cluster.cluster.client.delete(PODS, names.pod(W, 0, 0), NAMESPACE)
        await cluster.wait_for_status(lambda each: each.get("replicas") == 1, timeout=600)


async def test_losing_every_node_is_reported() -> None:
    async with running_controller() as (cluster, _):
        await start_clique(cluster, 1)
        (pod,) = await cluster.list_pods()
        await cluster.cluster.client.delete(PODS, pod["metadata"]["name"], NAMESPACE)

        async def message() -> bool:
            events = (await cluster.cluster.client.list(EVENTS, NAMESPACE)).items
            return "AllScheduledReplicasLost" in {each["reason"] for each in events}

        await wait_for_condition(message)


async def test_a_deleted_clique_leaves_nothing() -> None:
    async with running_controller() as (cluster, _):
        await start_clique(cluster, 3)
        await cluster.cluster.client.delete(CLIQUES, W, NAMESPACE)
        await wait_deleted(cluster.cluster.client, CLIQUES, W)

        async def no_pods() -> bool:
            return not await cluster.cluster.list_objects(PODS)

        await wait_for_condition(no_pods)


async def test_idle_clique_writes_nothing() -> None:
    async with running_controller() as (cluster, process):
        await start_clique(cluster, 3)
        await advance_time(10)
        before = len(process.writes)
        await advance_time(600)
        assert process.writes[before:] == []


async def test_statuses_are_throttled() -> None:
    async with running_controller() as (cluster, process):
        await start_clique(cluster, 60)
        writes = [each for each in process.writes if each.path.endswith("/status")]
        assert len(writes) < 15


async def test_statuses_of_sets_and_gangs_enqueue_no_clique() -> None:
    async with running_controller() as (cluster, process):
        await start_clique(cluster, 2)
        await advance_time(5)
        before = len(process.writes)
        await cluster.patch(SETS, "sys", {"status": {"availableReplicas": 1}}, "status")
        await cluster.patch(GANGS, "sys-0", {"status": {"phase": "Running"}}, "status")
        await advance_time(5)
        assert process.writes[before:] == []
