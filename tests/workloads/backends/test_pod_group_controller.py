"""Backends on an embedded cluster: late CRDs, interference by users, crashes."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kilonova.kube import unstructured_resource
from kilonova.local.simnodes import NO_NODES
from kilonova.workloads.settings import OperatorSettings
from tests.local.embedded_cluster import DEFINITIONS, advance_time, virtual_time, wait_for_condition
from tests.workloads.api_objects import clique, group, pod_clique_set, pod_template
from tests.workloads.backends.foreign_kinds import (
    KAI_POD_GROUPS,
    KAI_TOPOLOGIES,
    VOLCANO_POD_GROUPS,
    install_foreign_kinds,
    is_served,
    load_definition,
    uninstall_foreign_kinds,
)
from tests.workloads.crashing_operator import crashing_operator
from tests.workloads.running_operator import running_operator
from tests.workloads.workload_cluster import (
    GANGS,
    NAMESPACE,
    PODS,
    SETS,
    TOPOLOGY_BINDINGS,
    WorkloadCluster,
    workload_cluster,
)

pytestmark = virtual_time

EVENTS = unstructured_resource("", "v1", "events", "Event", True)
KAI = OperatorSettings(
    schedulers=("default-scheduler", "kai-scheduler"), backends=("kai-scheduler",)
)
VOLCANO = OperatorSettings(schedulers=("default-scheduler", "volcano"), backends=("volcano",))


def build_set(scheduler: str, replicas: int = 1) -> Any:
    spec = pod_template(schedulerName=scheduler, terminationGracePeriodSeconds=1)
    return pod_clique_set(
        clique("front", pod_spec=spec),
        clique("hand", 2, pod_spec=spec),
        groups=[group("team", "hand", replicas=2)],
        replicas=replicas,
        labels={"kai.scheduler/queue": "q"},
    )


async def list_event_messages(cluster: WorkloadCluster, reason: str) -> list[str]:
    """Messages of all events with this reason."""
    found = (await cluster.client.list(EVENTS)).items
    return sorted({each["message"] for each in found if each["reason"] == reason})


async def wait_for_pod_groups(cluster: WorkloadCluster, resource: Any, *wanted: str) -> None:
    async def condition() -> bool:
        return await cluster.list_names(resource) == list(wanted)

    await wait_for_condition(condition, within=60)


async def test_missing_crd_is_reported_and_waited_for() -> None:
    async with workload_cluster(fleet=NO_NODES) as cluster, running_operator(cluster.cluster, KAI):
        await cluster.apply(build_set("kai-scheduler"))

        async def messages() -> bool:
            return bool(await list_event_messages(cluster, "KAIBackendMappingFailed"))

        await wait_for_condition(messages, within=60)
        assert await list_event_messages(cluster, "KAIBackendMappingFailed") == [
            "podgroups.scheduling.run.ai is not installed in version scheduling.run.ai/v2alpha2; "
            "PodGroups are created once kai-scheduler is installed"
        ]
        assert len(await cluster.list_objects(PODS)) == 5
        await install_foreign_kinds(cluster.client, KAI_POD_GROUPS)
        await wait_for_pod_groups(cluster, KAI_POD_GROUPS, "sys-0", "sys-0-team-0")


async def test_pod_groups_are_recreated_after_their_crd_is_reinstalled() -> None:
    async with workload_cluster(fleet=NO_NODES) as cluster:
        await install_foreign_kinds(cluster.client, KAI_POD_GROUPS)
        async with running_operator(cluster.cluster, KAI):
            await cluster.apply(build_set("kai-scheduler"))
            await wait_for_pod_groups(cluster, KAI_POD_GROUPS, "sys-0", "sys-0-team-0")
            await uninstall_foreign_kinds(cluster.client, KAI_POD_GROUPS)
            await asyncio.sleep(60)
            await install_foreign_kinds(cluster.client, KAI_POD_GROUPS)

            async def back() -> bool:
                return await cluster.list_names(KAI_POD_GROUPS) == ["sys-0", "sys-0-team-0"]

            await wait_for_condition(back, within=600)


async def test_disabled_backend_creates_and_watches_nothing() -> None:
    async with workload_cluster(fleet=NO_NODES) as cluster:
        await install_foreign_kinds(
            cluster.client, KAI_POD_GROUPS, KAI_TOPOLOGIES, VOLCANO_POD_GROUPS
        )
        async with running_operator(cluster.cluster) as operator:
            assert operator.backends.runnables == ()
            await cluster.apply(build_set("kai-scheduler"))
            levels = [{"domain": "zone", "key": "z"}]
            bound = {"metadata": {"name": "fleet"}, "spec": {"levels": levels}}
            await cluster.client.create(TOPOLOGY_BINDINGS, bound)
            await wait_for_condition(lambda: _wait_for_count(cluster, GANGS, 2))
            await advance_time()
            assert await cluster.list_names(KAI_POD_GROUPS) == []
            assert (await cluster.client.list(KAI_TOPOLOGIES)).items == []
            (pod, *_) = await cluster.list_objects(PODS)
            assert "pod-group-name" not in pod["metadata"].get("annotations", {})


async def test_deleted_or_changed_pod_group_is_repaired_and_foreign_fields_stay() -> None:
    async with workload_cluster(fleet=NO_NODES) as cluster:
        await install_foreign_kinds(cluster.client, KAI_POD_GROUPS)
        async with running_operator(cluster.cluster, KAI):
            await cluster.apply(build_set("kai-scheduler"))
            await wait_for_pod_groups(cluster, KAI_POD_GROUPS, "sys-0", "sys-0-team-0")
            first = await cluster.get(KAI_POD_GROUPS, "sys-0")
            await cluster.client.delete(KAI_POD_GROUPS, "sys-0", NAMESPACE)

            async def another() -> bool:
                found = await cluster.get(KAI_POD_GROUPS, "sys-0")
                return found is not None and found["metadata"]["uid"] != first["metadata"]["uid"]

            await wait_for_condition(another)
            change = {
                "metadata": {"labels": {"app.kubernetes.io/managed-by": None, "theirs": "1"}},
                "spec": {
                    "minMember": 1,
                    "subGroups": [{"name": "other", "minMember": 1}],
                    "queue": "moved",
                    "markUnschedulable": True,
                },
            }
            await cluster.client.patch(KAI_POD_GROUPS, "sys-0", change, NAMESPACE)
            await cluster.client.patch(
                KAI_POD_GROUPS, "sys-0", {"status": {"phase": "x"}}, NAMESPACE, subresource="status"
            )

            async def mended() -> bool:
                found = await cluster.get(KAI_POD_GROUPS, "sys-0")
                return found["spec"]["minMember"] == 3 and bool(
                    found["metadata"]["labels"].get("app.kubernetes.io/managed-by")
                )

            await wait_for_condition(mended)
            found = await cluster.get(KAI_POD_GROUPS, "sys-0")
            kept = {"queue": "moved", "markUnschedulable": True}
            assert found["spec"] == {**first["spec"], **kept}
            assert found["metadata"]["labels"] == {**first["metadata"]["labels"], "theirs": "1"}
            assert found["status"] == {"phase": "x"}
            await advance_time()
            again = await cluster.get(KAI_POD_GROUPS, "sys-0")
            assert again["metadata"]["resourceVersion"] == found["metadata"]["resourceVersion"]


async def test_pod_group_of_another_owner_is_left_alone_until_deleted() -> None:
    async with workload_cluster(fleet=NO_NODES) as cluster:
        await install_foreign_kinds(cluster.client, KAI_POD_GROUPS)
        foreign = {"metadata": {"name": "sys-0"}, "spec": {"minMember": 9}}
        await cluster.client.create(KAI_POD_GROUPS, foreign, NAMESPACE)
        async with running_operator(cluster.cluster, KAI):
            await cluster.apply(build_set("kai-scheduler"))
            await wait_for_pod_groups(cluster, KAI_POD_GROUPS, "sys-0", "sys-0-team-0")
            await advance_time()
            assert (await cluster.get(KAI_POD_GROUPS, "sys-0"))["spec"] == {"minMember": 9}
            messages = await list_event_messages(cluster, "KAIBackendMappingFailed")
            assert messages == ["PodGroup sys-0 exists and is not owned by this PodGang"]
            await cluster.client.delete(KAI_POD_GROUPS, "sys-0", NAMESPACE)
            await wait_for_pod_groups(cluster, KAI_POD_GROUPS, "sys-0", "sys-0-team-0")


async def test_set_without_queue_is_reported_and_gets_pod_groups_with_a_new_one() -> None:
    async with workload_cluster(fleet=NO_NODES) as cluster:
        await install_foreign_kinds(cluster.client, KAI_POD_GROUPS)
        async with running_operator(cluster.cluster, KAI):
            set_ = build_set("kai-scheduler")
            set_.metadata.labels.clear()
            await cluster.apply(set_)
            await wait_for_condition(lambda: _wait_for_count(cluster, GANGS, 2))
            await advance_time()
            assert await cluster.list_names(KAI_POD_GROUPS) == []
            assert (
                "names no queue"
                in (await list_event_messages(cluster, "KAIBackendMappingFailed"))[0]
            )
            labels = {"metadata": {"labels": {"kai.scheduler/queue": "q"}}}
            await cluster.client.patch(SETS, "sys", labels, NAMESPACE)
            await wait_for_pod_groups(cluster, KAI_POD_GROUPS, "sys-0", "sys-0-team-0")


async def test_pod_groups_are_created_and_deleted_with_gangs() -> None:
    async with workload_cluster(fleet=NO_NODES) as cluster:
        await install_foreign_kinds(cluster.client, VOLCANO_POD_GROUPS)
        async with running_operator(cluster.cluster, VOLCANO):
            await cluster.apply(build_set("volcano"))
            await wait_for_pod_groups(cluster, VOLCANO_POD_GROUPS, "sys-0", "sys-0-team-0")
            await cluster.client.patch(SETS, "sys", {"spec": {"replicas": 2}}, NAMESPACE)
            await wait_for_pod_groups(
                cluster, VOLCANO_POD_GROUPS, "sys-0", "sys-0-team-0", "sys-1", "sys-1-team-0"
            )
            await cluster.client.patch(SETS, "sys", {"spec": {"replicas": 0}}, NAMESPACE)
            await wait_for_pod_groups(cluster, VOLCANO_POD_GROUPS)


async def test_old_volcano_is_reported_and_a_new_one_is_noticed() -> None:
    async with workload_cluster(fleet=NO_NODES) as cluster:
        old = load_definition(VOLCANO_POD_GROUPS)
        schema = old["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        del schema["properties"]["spec"]["properties"]["subGroupPolicy"]
        await cluster.client.create(DEFINITIONS, old)
        await wait_for_condition(lambda: is_served(cluster.client, VOLCANO_POD_GROUPS))
        async with running_operator(cluster.cluster, VOLCANO):
            await cluster.apply(build_set("volcano"))
            await wait_for_pod_groups(cluster, VOLCANO_POD_GROUPS, "sys-0", "sys-0-team-0")
            found = await cluster.get(VOLCANO_POD_GROUPS, "sys-0")
            assert found["spec"] == {"minMember": 3, "queue": "default"}
            await advance_time()
            (message,) = await list_event_messages(cluster, "VolcanoCapabilityUnavailable")
            assert "no subGroupPolicy" in message
            patch = {"spec": {"versions": load_definition(VOLCANO_POD_GROUPS)["spec"]["versions"]}}
            await cluster.client.patch(DEFINITIONS, old["metadata"]["name"], patch)

            async def grouped() -> bool:
                now = await cluster.get(VOLCANO_POD_GROUPS, "sys-0")
                return len(now["spec"].get("subGroupPolicy", ())) == 2

            await wait_for_condition(grouped)


@pytest.mark.parametrize("writes", [1, 2, 3, 7])
async def test_crash_between_any_two_writes_leaves_the_same_pod_groups(writes: int) -> None:
    async with workload_cluster(fleet=NO_NODES) as cluster:
        await install_foreign_kinds(cluster.client, KAI_POD_GROUPS)
        async with _run_crashing_operators(cluster, writes):
            await cluster.apply(build_set("kai-scheduler"))
            await wait_for_pod_groups(cluster, KAI_POD_GROUPS, "sys-0", "sys-0-team-0")
            await cluster.client.delete(SETS, "sys", NAMESPACE)
            await wait_for_pod_groups(cluster, KAI_POD_GROUPS)


@pytest.mark.parametrize("writes", [1, 2, 3])
async def test_tas19_crash_between_deletion_and_creation_leaves_no_topology_missing(
    writes: int,
) -> None:
    async with workload_cluster(fleet=NO_NODES) as cluster:
        await install_foreign_kinds(cluster.client, KAI_TOPOLOGIES)
        async with _run_crashing_operators(cluster, writes):
            for keys in (["z"], ["z", "r"], ["r"], ["r", "z"]):
                levels = [{"domain": f"d{each}", "key": each} for each in keys]
                await cluster.client.apply(TOPOLOGY_BINDINGS, "fleet", {"spec": {"levels": levels}})

                async def condition(keys: list[str] = keys) -> bool:
                    found = await cluster.get(KAI_TOPOLOGIES, "fleet")
                    bound = await cluster.get(TOPOLOGY_BINDINGS, "fleet")
                    statuses = bound.get("status", {}).get("schedulerTopologyStatuses", ())
                    return (
                        found is not None
                        and [each["nodeLabel"] for each in found["spec"]["levels"]] == keys
                        and all(each["inSync"] for each in statuses)
                        and bool(statuses)
                    )

                await wait_for_condition(condition, within=60)


@asynccontextmanager
async def _run_crashing_operators(cluster: WorkloadCluster, writes: int) -> AsyncGenerator[None]:
    """One operator after another, each of which crashes after so many writes."""

    async def live_and_die() -> None:
        for life in range(1000):
            arrives = writes == 1 or life % 2 == 1
            async with crashing_operator(
                cluster.cluster, writes, last_write_arrives=arrives, settings=KAI
            ) as died:
                await died.wait()

    task = asyncio.create_task(live_and_die())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})


async def _wait_for_count(cluster: WorkloadCluster, resource: Any, count: int) -> bool:
    return len(await cluster.list_objects(resource)) == count
