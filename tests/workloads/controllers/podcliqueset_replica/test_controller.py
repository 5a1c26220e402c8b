"""Replicas with a whole operator on an embedded cluster, in virtual time."""

import asyncio
from typing import Any

import pytest

from kilonova.api.grove import names
from kilonova.api.grove.common import RollingUpdate
from kilonova.api.grove.podcliqueset import ResourceClaimTemplate, ResourceSharing
from kilonova.kube.client.resource import unstructured_resource
from kilonova.local.simnodes.fleet.model import Fleet, NodeGroup
from tests.local.embedded_cluster import (
    EVENTS,
    NODES,
    advance_time,
    virtual_time,
    wait_for_condition,
)
from tests.workloads.api_objects import clique, group, pod_clique_set, pod_template
from tests.workloads.running_operator import running_operator
from tests.workloads.workload_cluster import (
    AUTOSCALERS,
    CHILDREN,
    CLIQUES,
    GANGS,
    NAMESPACE,
    PODS,
    RESOURCE_CLAIMS,
    SCALING_GROUPS,
    SERVICES,
    SETS,
    WorkloadCluster,
    workload_cluster,
)

CLAIM_TEMPLATES = unstructured_resource(
    "resource.k8s.io", "v1", "resourceclaimtemplates", "ResourceClaimTemplate", True
)

pytestmark = virtual_time


def build_two_group_replicas(image: str = "busybox", **rest: Any) -> Any:
    """One clique alone, and a group of two replicas of which one is needed."""
    members = group("x", "b", "c", replicas=2, **rest.pop("in_group", {}))
    spec = {"containers": [{"name": "main", "image": image}]}
    return pod_clique_set(
        clique("a", 2, 1), clique("b", pod_spec=spec), clique("c", 3, 1), groups=[members], **rest
    )


async def wait_until_available(cluster: WorkloadCluster, replicas: int = 1) -> None:
    await cluster.wait_for_status(lambda each: each.get("availableReplicas") == replicas)


async def get_group_status(cluster: WorkloadCluster) -> Any:
    return (await cluster.get(SCALING_GROUPS, "sys-0-x")).get("status", {})


async def list_phases(cluster: WorkloadCluster) -> dict[str, str]:
    return {
        each["metadata"]["name"]: each.get("status", {}).get("phase", "")
        for each in await cluster.list_objects(GANGS)
    }


async def list_pods(cluster: WorkloadCluster, clique_name: str) -> list[str]:
    found = await cluster.client.list(
        PODS, NAMESPACE, label_selector=f"{names.POD_CLIQUE}={clique_name}"
    )
    return sorted(
        each["metadata"]["name"]
        for each in found.items
        if not each["metadata"].get("deletionTimestamp")
    )


async def list_pod_uids(cluster: WorkloadCluster) -> set[str]:
    return {
        each["metadata"]["uid"]
        for each in await cluster.list_objects(PODS)
        if not each["metadata"].get("deletionTimestamp")
    }


async def fail_pods(cluster: WorkloadCluster, *pods: str) -> None:
    """Delete pods and cordon their nodes."""
    for node in await cluster.list_objects(NODES):
        patch = {"spec": {"unschedulable": True}}
        await cluster.client.patch(NODES, node["metadata"]["name"], patch)
    for each in pods:
        await cluster.client.delete(PODS, each, NAMESPACE, grace_period_seconds=0)


async def repair_pods(cluster: WorkloadCluster) -> None:
    """Uncordon the nodes."""
    for node in await cluster.list_objects(NODES):
        patch = {"spec": {"unschedulable": None}}
        await cluster.client.patch(NODES, node["metadata"]["name"], patch)


async def list_incarnations(cluster: WorkloadCluster) -> dict[str, str]:
    return {
        each["metadata"]["name"]: each["metadata"].get("annotations", {}).get(names.INCARNATION, "")
        for each in await cluster.list_objects(CLIQUES)
    }


async def test_replica_becomes_available_with_running_gangs() -> None:
    async with workload_cluster() as cluster, running_operator(cluster.cluster):
        await cluster.apply(build_two_group_replicas())
        await wait_until_available(cluster)
        await wait_for_condition(lambda: _are_all_running(cluster))
        counts = ("replicas", "scheduledReplicas", "availableReplicas", "updatedReplicas")

        async def counted() -> bool:
            found = await get_group_status(cluster)
            return [found[each] for each in counts] == [2, 2, 2, 2]

        await wait_for_condition(counted)


async def _are_all_running(cluster: WorkloadCluster) -> bool:
    return set((await list_phases(cluster)).values()) == {"Running"}


async def test_idle_operator_writes_nothing() -> None:
    async with workload_cluster() as cluster, running_operator(cluster.cluster):
        await cluster.apply(build_two_group_replicas())
        await wait_until_available(cluster)
        await advance_time()
        before = [
            (each["metadata"]["name"], each["metadata"]["resourceVersion"])
            for kind in (SETS, *CHILDREN)
            for each in await cluster.list_objects(kind)
        ]
        await advance_time(200)
        after = [
            (each["metadata"]["name"], each["metadata"]["resourceVersion"])
            for kind in (SETS, *CHILDREN)
            for each in await cluster.list_objects(kind)
        ]
        assert before == after


async def test_pods_listed_by_their_gang_are_created_without_gate() -> None:
    async with workload_cluster() as cluster, running_operator(cluster.cluster):
        await cluster.apply(pod_clique_set(clique("a", 20)))
        await wait_until_available(cluster)
        (gang,) = await cluster.list_objects(GANGS)
        assert gang["metadata"]["generation"] == 1, "listed once, before they were there"


async def test_group_is_scaled_out_and_in_and_nothing_is_left_behind() -> None:
    template = ResourceClaimTemplate("gpu", {"spec": {"devices": {"requests": [_REQUEST]}}})
    sharing = (ResourceSharing("gpu", "PerReplica"),)
    set_ = pod_clique_set(
        clique("a"),
        clique("b", resource_sharing=sharing),
        groups=[group("x", "b")],
        resource_claim_templates=(template,),
    )
    async with workload_cluster() as cluster, running_operator(cluster.cluster):
        await cluster.apply(set_)
        await wait_for_condition(lambda: _count_objects(cluster, CLIQUES, 2))
        await advance_time()
        before = await cluster.list_remaining_objects()
        await cluster.client.set_scale(SCALING_GROUPS, "sys-0-x", NAMESPACE, 4)
        await wait_for_condition(lambda: _count_objects(cluster, CLIQUES, 5))
        await wait_for_condition(lambda: _count_objects(cluster, RESOURCE_CLAIMS, 4))
        assert await cluster.list_names(GANGS) == ["sys-0", "sys-0-x-0", "sys-0-x-1", "sys-0-x-2"]
        await cluster.client.set_scale(SCALING_GROUPS, "sys-0-x", NAMESPACE, 1)
        await wait_for_condition(lambda: _is_unchanged(cluster, before))


_REQUEST = {"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}


async def _count_objects(cluster: WorkloadCluster, kind: Any, number: int) -> bool:
    return len(await cluster.list_objects(kind)) == number


async def _is_unchanged(cluster: WorkloadCluster, before: list[str]) -> bool:
    return await cluster.list_remaining_objects() == before


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (SERVICES, "sys-0"),
        (GANGS, "sys-0"),
        (GANGS, "sys-0-x-0"),
        (CLIQUES, "sys-0-a"),
        (CLIQUES, "sys-0-x-1-c"),
        (SCALING_GROUPS, "sys-0-x"),
    ],
    ids=lambda each: each if isinstance(each, str) else each.plural,
)
async def test_child_that_is_deleted_is_recreated(kind: Any, name: str) -> None:
    async with workload_cluster() as cluster, running_operator(cluster.cluster):
        await cluster.apply(build_two_group_replicas())
        await wait_until_available(cluster)
        await advance_time()
        before = {
            each for each in await cluster.list_remaining_objects() if not each.startswith("pods/")
        }
        uid = (await cluster.get(kind, name))["metadata"]["uid"]
        await cluster.client.delete(kind, name, NAMESPACE)

        async def is_back() -> bool:
            found = await cluster.get(kind, name)
            return found is not None and found["metadata"]["uid"] != uid

        await wait_for_condition(is_back)
        await wait_for_condition(lambda: _are_all_running(cluster))
        await wait_until_available(cluster)
        after = {
            each for each in await cluster.list_remaining_objects() if not each.startswith("pods/")
        }
        assert after == before
        assert len(await cluster.list_objects(PODS)) == 10


async def test_lost_group_replica_is_restarted_alone() -> None:
    """GT4, first half, and GT5."""
    async with workload_cluster() as cluster, running_operator(cluster.cluster):
        await cluster.apply(build_two_group_replicas(termination_delay="10s"))
        await wait_until_available(cluster)
        await advance_time()
        before = await list_pod_uids(cluster)
        lost = await list_pods(cluster, "sys-0-x-1-b")
        await fail_pods(cluster, *lost)
        await wait_for_condition(
            lambda: _is_restarted(cluster, {"sys-0-x-1-b", "sys-0-x-1-c"}), within=30
        )
        await repair_pods(cluster)
        await wait_for_condition(lambda: _are_all_running(cluster))
        kept = before & await list_pod_uids(cluster)
        assert len(kept) == 6
        assert await _has_event(cluster, "PodCliqueScalingGroupReplicaDeleteSuccessful")


async def _is_restarted(cluster: WorkloadCluster, wanted: set[str]) -> bool:
    return {
        name for name, each in (await list_incarnations(cluster)).items() if each == "1"
    } == wanted


async def _has_event(cluster: WorkloadCluster, reason: str) -> bool:
    return any(each["reason"] == reason for each in await cluster.list_objects(EVENTS))


async def test_lost_replica_is_restarted_as_a_whole_and_keeps_its_scale() -> None:
    """GT1, and GT4, second half."""
    async with workload_cluster() as cluster, running_operator(cluster.cluster):
        await cluster.apply(build_two_group_replicas(termination_delay="10s"))
        await wait_until_available(cluster)
        await cluster.client.set_scale(CLIQUES, "sys-0-a", NAMESPACE, 3)
        await cluster.client.set_scale(SCALING_GROUPS, "sys-0-x", NAMESPACE, 3)
        await wait_for_condition(lambda: _count_objects(cluster, PODS, 15))
        await wait_for_condition(lambda: _are_all_running(cluster))
        await advance_time()
        before = await list_pod_uids(cluster)
        await fail_pods(cluster, *await list_pods(cluster, "sys-0-a"))
        all_pods = {
            "sys-0-a",
            *(f"sys-0-x-{index}-{name}" for index in range(3) for name in "bc"),
        }
        await wait_for_condition(lambda: _is_restarted(cluster, all_pods), within=30)
        status = await get_group_status(cluster)
        assert [
            each["reason"]
            for each in status["conditions"]
            if each["type"] == _TERMINATION_CONDITION
        ] == ["GangTerminationActive"]
        await advance_time(60)
        assert await _is_restarted(cluster, all_pods), "not restarted repeatedly without capacity"
        await repair_pods(cluster)
        await wait_for_condition(lambda: _are_all_running(cluster))
        assert not before & await list_pod_uids(cluster)
        assert len(await list_pod_uids(cluster)) == 15
        await advance_time()
        status = await get_group_status(cluster)
        assert not [each for each in status["conditions"] if each["type"] == _TERMINATION_CONDITION]


_TERMINATION_CONDITION = "GangTerminationInProgress"


async def test_loss_within_min_available_terminates_nothing() -> None:
    """GT3, first half, and GT6."""
    async with workload_cluster() as cluster, running_operator(cluster.cluster):
        await cluster.apply(build_two_group_replicas(termination_delay="10s"))
        await wait_until_available(cluster)
        await advance_time()
        await fail_pods(cluster, (await list_pods(cluster, "sys-0-a"))[0])
        await advance_time(60)
        assert await _is_restarted(cluster, set())


async def test_group_replicas_are_updated_one_at_a_time() -> None:
    """RU8."""
    async with workload_cluster() as cluster, running_operator(cluster.cluster):
        await cluster.apply(build_two_group_replicas())
        await wait_until_available(cluster)
        await advance_time()
        lowest = 2
        await cluster.apply(build_two_group_replicas("busybox:2"))
        while not await _is_termination_over(cluster):
            lowest = min(lowest, (await get_group_status(cluster))["availableReplicas"])
            await asyncio.sleep(0.05)
        assert lowest == 1
        assert set((await list_incarnations(cluster)).values()) == {"", "1"}
        status = await get_group_status(cluster)
        assert status["updatedReplicas"] == 2
        assert status["updateProgress"]["updatedPodCliquesCount"] == 4


async def _is_termination_over(cluster: WorkloadCluster) -> bool:
    progress = (await get_group_status(cluster)).get("updateProgress", {})
    return "updateEndedAt" in progress


async def test_update_without_capacity_takes_one_group_replica_and_waits() -> None:
    """RU10."""
    async with workload_cluster() as cluster, running_operator(cluster.cluster):
        await cluster.apply(build_two_group_replicas())
        await wait_until_available(cluster)
        await advance_time()
        await fail_pods(cluster)
        await cluster.apply(build_two_group_replicas("busybox:2"))
        await advance_time(120)
        restarted = {name for name, each in (await list_incarnations(cluster)).items() if each}
        assert restarted == {"sys-0-x-0-b", "sys-0-x-0-c"}
        await repair_pods(cluster)
        await wait_for_condition(lambda: _is_termination_over(cluster))


async def test_stuck_update_is_reported_and_continues_with_capacity() -> None:
    options = RollingUpdate(progress_deadline="1m")
    async with workload_cluster() as cluster, running_operator(cluster.cluster):
        await cluster.apply(build_two_group_replicas(in_group={"rolling_update": options}))
        await wait_until_available(cluster)
        await advance_time()
        await fail_pods(cluster)
        await cluster.apply(
            build_two_group_replicas("busybox:2", in_group={"rolling_update": options})
        )
        await wait_for_condition(
            lambda: _has_reason(cluster, "ProgressDeadlineExceeded"), within=90
        )
        await repair_pods(cluster)
        await wait_for_condition(lambda: _has_reason(cluster, "UpdateCompleted"))


async def _has_reason(cluster: WorkloadCluster, reason: str) -> bool:
    conditions = (await get_group_status(cluster)).get("conditions", [])
    return any(each["reason"] == reason for each in conditions)


async def test_surge_keeps_all_group_replicas_available() -> None:
    options = {"rolling_update": RollingUpdate(max_unavailable=0, max_surge=1)}
    async with workload_cluster() as cluster, running_operator(cluster.cluster):
        await cluster.apply(build_two_group_replicas(in_group=options))
        await wait_until_available(cluster)
        await advance_time()
        before = {each for each in await cluster.list_remaining_objects() if "pods/" not in each}
        lowest = 2
        await cluster.apply(build_two_group_replicas("busybox:2", in_group=options))
        while not await _is_termination_over(cluster):
            lowest = min(lowest, (await get_group_status(cluster))["availableReplicas"])
            await asyncio.sleep(0.05)
        assert lowest == 2
        await advance_time()
        after = {each for each in await cluster.list_remaining_objects() if "pods/" not in each}
        assert {each for each in after ^ before if "controllerrevisions" not in each} == set()
        assert len(await cluster.list_objects(PODS)) == 10


async def test_claims_of_an_external_template_are_created_with_it() -> None:
    sharing = (ResourceSharing("theirs", "PerReplica"),)
    set_ = pod_clique_set(clique("a", 2, resource_sharing=sharing))
    async with workload_cluster() as cluster, running_operator(cluster.cluster):
        await cluster.apply(set_)
        await wait_for_condition(lambda: _has_event(cluster, "ResourceClaimTemplateReadFailed"))
        template = {
            "metadata": {"name": "theirs"},
            "spec": {"spec": {"devices": {"requests": [_REQUEST]}}},
        }
        await cluster.client.create(CLAIM_TEMPLATES, template, NAMESPACE)
        await wait_for_condition(lambda: _count_objects(cluster, RESOURCE_CLAIMS, 2), within=600)
        (claim, _) = await cluster.list_objects(RESOURCE_CLAIMS)
        assert claim["spec"]["devices"]["requests"][0]["name"] == "gpu"
        await cluster.client.delete(CLAIM_TEMPLATES, "theirs", NAMESPACE)
        await cluster.client.set_scale(CLIQUES, "sys-0-a", NAMESPACE, 1)
        await wait_for_condition(lambda: _count_objects(cluster, RESOURCE_CLAIMS, 1))


async def test_scaled_gang_waits_for_its_base() -> None:
    """GS5 and GS6: no pod of it may be placed while its base has no nodes."""
    async with (
        workload_cluster(fleet=Fleet((NodeGroup("node", 1),))) as cluster,
        running_operator(cluster.cluster),
    ):
        await fail_pods(cluster)
        await cluster.apply(build_two_group_replicas())
        await wait_for_condition(lambda: _count_objects(cluster, PODS, 10))
        await advance_time(30)
        gated = {
            each["metadata"]["labels"][names.POD_GANG]
            for each in await cluster.list_objects(PODS)
            if each["spec"].get("schedulingGates")
        }
        assert gated == {"sys-0-x-0"}
        await repair_pods(cluster)
        await wait_for_condition(lambda: _are_all_running(cluster))


async def test_service_of_another_owner_is_reported_and_other_objects_are_created() -> None:
    async with workload_cluster() as cluster, running_operator(cluster.cluster):
        foreign = {"metadata": {"name": "sys-0"}, "spec": {"ports": [{"port": 80}]}}
        await cluster.client.create(SERVICES, foreign, NAMESPACE)
        await cluster.apply(build_two_group_replicas())
        await wait_until_available(cluster)
        errors = (await get_group_status(cluster))["lastErrors"]
        assert [each["code"] for each in errors] == ["ERR_SYNC_SERVICES"]
        status = await cluster.wait_for_status(lambda status: bool(status.get("lastErrors")))
        (error,) = status["lastErrors"]
        assert error["code"] == "ERR_SYNC_SERVICES"
        assert "Service sys-0" in error["description"]
        await cluster.client.delete(SERVICES, "sys-0", NAMESPACE)
        await wait_for_condition(lambda: _has_no_errors(cluster), within=600)
        await cluster.wait_for_status(lambda status: not status.get("lastErrors"))
        assert "sys-0" in await cluster.list_names(SERVICES)


async def _has_no_errors(cluster: WorkloadCluster) -> bool:
    return not (await get_group_status(cluster)).get("lastErrors")


async def test_deleted_set_deletes_all_objects() -> None:
    async with workload_cluster() as cluster, running_operator(cluster.cluster):
        await cluster.apply(build_two_group_replicas(replicas=2))
        await wait_until_available(cluster, 2)
        await cluster.client.delete(SETS, "sys", NAMESPACE)
        await wait_for_condition(lambda: _is_unchanged(cluster, []))


async def test_restarted_operator_continues() -> None:
    async with workload_cluster() as cluster:
        async with running_operator(cluster.cluster):
            await cluster.apply(build_two_group_replicas())
            await wait_for_condition(lambda: _has_object(cluster, GANGS))
        async with running_operator(cluster.cluster):
            await wait_until_available(cluster)
            await wait_for_condition(lambda: _are_all_running(cluster))
        assert len(await cluster.list_objects(PODS)) == 10


async def _has_object(cluster: WorkloadCluster, kind: Any) -> bool:
    return bool(await cluster.list_objects(kind))


async def test_edit_of_another_clique_field_is_reverted() -> None:
    async with workload_cluster() as cluster, running_operator(cluster.cluster):
        await cluster.apply(pod_clique_set(clique("a", pod_spec=pod_template())))
        await wait_until_available(cluster)
        patch = {"spec": {"podSpec": {"hostNetwork": True}, "replicas": 2}}
        await cluster.client.patch(CLIQUES, "sys-0-a", patch, NAMESPACE)
        await wait_for_condition(lambda: _count_objects(cluster, PODS, 2))
        await advance_time()
        spec = (await cluster.get(CLIQUES, "sys-0-a"))["spec"]
        assert "hostNetwork" not in spec["podSpec"]
        assert spec["replicas"] == 2
        assert await cluster.list_names(AUTOSCALERS) == []
