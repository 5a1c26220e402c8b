"""Backends on an embedded cluster: kinds that come late, people who interfere, crashes."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kilonova.kube import plain
from kilonova.local.nodes import NO_NODES
from kilonova.workloads.settings import Settings
from tests.local.embedded_cluster import DEFINITIONS, eventually, settle
from tests.workloads.backends.foreign_kinds import (
    KAI_GROUPS,
    KAI_TOPOLOGIES,
    VOLCANO_GROUPS,
    definition_of,
    install,
    is_served,
    uninstall,
)
from tests.workloads.builders import clique, group, pod_clique_set, pod_template
from tests.workloads.ground import GANGS, NAMESPACE, PODS, SETS, TOPOLOGIES, Ground, ground
from tests.workloads.mortal import mortal_operator
from tests.workloads.operator_cluster import operating

pytestmark = pytest.mark.looptime

EVENTS = plain("", "v1", "events", "Event", True)
KAI = Settings(schedulers=("default-scheduler", "kai-scheduler"), backends=("kai-scheduler",))
VOLCANO = Settings(schedulers=("default-scheduler", "volcano"), backends=("volcano",))


def system(scheduler: str, replicas: int = 1) -> Any:
    spec = pod_template(schedulerName=scheduler, terminationGracePeriodSeconds=1)
    return pod_clique_set(
        clique("front", pod_spec=spec),
        clique("hand", 2, pod_spec=spec),
        groups=[group("team", "hand", replicas=2)],
        replicas=replicas,
        labels={"kai.scheduler/queue": "q"},
    )


async def told(place: Ground, reason: str) -> list[str]:
    """Messages of all events with this reason, wherever they are about."""
    found = (await place.client.list(EVENTS)).items
    return sorted({each["message"] for each in found if each["reason"] == reason})


async def groups_become(place: Ground, resource: Any, *wanted: str) -> None:
    async def so() -> bool:
        return await place.names(resource) == list(wanted)

    await eventually(so, within=60)


async def test_kind_that_is_missing_is_told_of_and_waited_for() -> None:
    async with ground(fleet=NO_NODES) as place, operating(place.cluster, KAI):
        await place.apply(system("kai-scheduler"))

        async def said() -> bool:
            return bool(await told(place, "KAIBackendMappingFailed"))

        await eventually(said, within=60)
        assert await told(place, "KAIBackendMappingFailed") == [
            "podgroups.scheduling.run.ai is not installed in version scheduling.run.ai/v2alpha2: "
            "install kai-scheduler, and PodGroups will be made"
        ]
        assert len(await place.all(PODS)) == 5
        await install(place.client, KAI_GROUPS)
        await groups_become(place, KAI_GROUPS, "sys-0", "sys-0-team-0")


async def test_pod_groups_come_back_after_their_kind_was_installed_anew() -> None:
    async with ground(fleet=NO_NODES) as place:
        await install(place.client, KAI_GROUPS)
        async with operating(place.cluster, KAI):
            await place.apply(system("kai-scheduler"))
            await groups_become(place, KAI_GROUPS, "sys-0", "sys-0-team-0")
            await uninstall(place.client, KAI_GROUPS)
            await asyncio.sleep(60)
            await install(place.client, KAI_GROUPS)

            async def back() -> bool:
                return await place.names(KAI_GROUPS) == ["sys-0", "sys-0-team-0"]

            await eventually(back, within=600)


async def test_backend_that_is_not_enabled_makes_nothing_and_watches_nothing() -> None:
    async with ground(fleet=NO_NODES) as place:
        await install(place.client, KAI_GROUPS, KAI_TOPOLOGIES, VOLCANO_GROUPS)
        async with operating(place.cluster) as operator:
            assert operator.backends.parts == ()
            await place.apply(system("kai-scheduler"))
            levels = [{"domain": "zone", "key": "z"}]
            bound = {"metadata": {"name": "fleet"}, "spec": {"levels": levels}}
            await place.client.create(TOPOLOGIES, bound)
            await eventually(lambda: _has(place, GANGS, 2))
            await settle()
            assert await place.names(KAI_GROUPS) == []
            assert (await place.client.list(KAI_TOPOLOGIES)).items == []
            (pod, *_) = await place.all(PODS)
            assert "pod-group-name" not in pod["metadata"].get("annotations", {})


async def test_pod_group_that_is_deleted_or_changed_is_mended_and_the_rest_of_it_kept() -> None:
    async with ground(fleet=NO_NODES) as place:
        await install(place.client, KAI_GROUPS)
        async with operating(place.cluster, KAI):
            await place.apply(system("kai-scheduler"))
            await groups_become(place, KAI_GROUPS, "sys-0", "sys-0-team-0")
            first = await place.get(KAI_GROUPS, "sys-0")
            await place.client.delete(KAI_GROUPS, "sys-0", NAMESPACE)

            async def another() -> bool:
                found = await place.get(KAI_GROUPS, "sys-0")
                return found is not None and found["metadata"]["uid"] != first["metadata"]["uid"]

            await eventually(another)
            change = {
                "metadata": {"labels": {"app.kubernetes.io/managed-by": None, "theirs": "1"}},
                "spec": {
                    "minMember": 1,
                    "subGroups": [{"name": "other", "minMember": 1}],
                    "queue": "moved",
                    "markUnschedulable": True,
                },
            }
            await place.client.patch(KAI_GROUPS, "sys-0", change, NAMESPACE)
            await place.client.patch(
                KAI_GROUPS, "sys-0", {"status": {"phase": "x"}}, NAMESPACE, subresource="status"
            )

            async def mended() -> bool:
                found = await place.get(KAI_GROUPS, "sys-0")
                return found["spec"]["minMember"] == 3 and bool(
                    found["metadata"]["labels"].get("app.kubernetes.io/managed-by")
                )

            await eventually(mended)
            found = await place.get(KAI_GROUPS, "sys-0")
            kept = {"queue": "moved", "markUnschedulable": True}
            assert found["spec"] == {**first["spec"], **kept}
            assert found["metadata"]["labels"] == {**first["metadata"]["labels"], "theirs": "1"}
            assert found["status"] == {"phase": "x"}
            await settle()
            again = await place.get(KAI_GROUPS, "sys-0")
            assert again["metadata"]["resourceVersion"] == found["metadata"]["resourceVersion"]


async def test_pod_group_of_somebody_else_is_left_alone_until_it_goes() -> None:
    async with ground(fleet=NO_NODES) as place:
        await install(place.client, KAI_GROUPS)
        theirs = {"metadata": {"name": "sys-0"}, "spec": {"minMember": 9}}
        await place.client.create(KAI_GROUPS, theirs, NAMESPACE)
        async with operating(place.cluster, KAI):
            await place.apply(system("kai-scheduler"))
            await groups_become(place, KAI_GROUPS, "sys-0", "sys-0-team-0")
            await settle()
            assert (await place.get(KAI_GROUPS, "sys-0"))["spec"] == {"minMember": 9}
            said = await told(place, "KAIBackendMappingFailed")
            assert said == ["PodGroup sys-0 is there, and is somebody else's"]
            await place.client.delete(KAI_GROUPS, "sys-0", NAMESPACE)
            await groups_become(place, KAI_GROUPS, "sys-0", "sys-0-team-0")


async def test_set_that_loses_its_queue_is_told_and_gets_its_pod_groups_with_the_next() -> None:
    async with ground(fleet=NO_NODES) as place:
        await install(place.client, KAI_GROUPS)
        async with operating(place.cluster, KAI):
            set_ = system("kai-scheduler")
            set_.metadata.labels.clear()
            await place.apply(set_)
            await eventually(lambda: _has(place, GANGS, 2))
            await settle()
            assert await place.names(KAI_GROUPS) == []
            assert "names no queue" in (await told(place, "KAIBackendMappingFailed"))[0]
            labels = {"metadata": {"labels": {"kai.scheduler/queue": "q"}}}
            await place.client.patch(SETS, "sys", labels, NAMESPACE)
            await groups_become(place, KAI_GROUPS, "sys-0", "sys-0-team-0")


async def test_pod_groups_come_and_go_with_gangs() -> None:
    async with ground(fleet=NO_NODES) as place:
        await install(place.client, VOLCANO_GROUPS)
        async with operating(place.cluster, VOLCANO):
            await place.apply(system("volcano"))
            await groups_become(place, VOLCANO_GROUPS, "sys-0", "sys-0-team-0")
            await place.client.patch(SETS, "sys", {"spec": {"replicas": 2}}, NAMESPACE)
            await groups_become(
                place, VOLCANO_GROUPS, "sys-0", "sys-0-team-0", "sys-1", "sys-1-team-0"
            )
            await place.client.patch(SETS, "sys", {"spec": {"replicas": 0}}, NAMESPACE)
            await groups_become(place, VOLCANO_GROUPS)


async def test_old_volcano_is_told_of_and_a_new_one_is_noticed() -> None:
    async with ground(fleet=NO_NODES) as place:
        old = definition_of(VOLCANO_GROUPS)
        schema = old["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        del schema["properties"]["spec"]["properties"]["subGroupPolicy"]
        await place.client.create(DEFINITIONS, old)
        await eventually(lambda: is_served(place.client, VOLCANO_GROUPS))
        async with operating(place.cluster, VOLCANO):
            await place.apply(system("volcano"))
            await groups_become(place, VOLCANO_GROUPS, "sys-0", "sys-0-team-0")
            found = await place.get(VOLCANO_GROUPS, "sys-0")
            assert found["spec"] == {"minMember": 3, "queue": "default"}
            await settle()
            (message,) = await told(place, "VolcanoCapabilityUnavailable")
            assert "no subGroupPolicy" in message
            patch = {"spec": {"versions": definition_of(VOLCANO_GROUPS)["spec"]["versions"]}}
            await place.client.patch(DEFINITIONS, old["metadata"]["name"], patch)

            async def grouped() -> bool:
                now = await place.get(VOLCANO_GROUPS, "sys-0")
                return len(now["spec"].get("subGroupPolicy", ())) == 2

            await eventually(grouped)


@pytest.mark.parametrize("writes", [1, 2, 3, 7])
async def test_crash_between_any_two_writes_leaves_the_same_pod_groups(writes: int) -> None:
    async with ground(fleet=NO_NODES) as place:
        await install(place.client, KAI_GROUPS)
        async with _mortals(place, writes):
            await place.apply(system("kai-scheduler"))
            await groups_become(place, KAI_GROUPS, "sys-0", "sys-0-team-0")
            await place.client.delete(SETS, "sys", NAMESPACE)
            await groups_become(place, KAI_GROUPS)


@pytest.mark.parametrize("writes", [1, 2, 3])
async def test_tas19_crash_between_deletion_and_creation_leaves_no_topology_missing(
    writes: int,
) -> None:
    async with ground(fleet=NO_NODES) as place:
        await install(place.client, KAI_TOPOLOGIES)
        async with _mortals(place, writes):
            for keys in (["z"], ["z", "r"], ["r"], ["r", "z"]):
                levels = [{"domain": f"d{each}", "key": each} for each in keys]
                await place.client.apply(TOPOLOGIES, "fleet", {"spec": {"levels": levels}})

                async def so(keys: list[str] = keys) -> bool:
                    found = await place.get(KAI_TOPOLOGIES, "fleet")
                    bound = await place.get(TOPOLOGIES, "fleet")
                    statuses = bound.get("status", {}).get("schedulerTopologyStatuses", ())
                    return (
                        found is not None
                        and [each["nodeLabel"] for each in found["spec"]["levels"]] == keys
                        and all(each["inSync"] for each in statuses)
                        and bool(statuses)
                    )

                await eventually(so, within=60)


@asynccontextmanager
async def _mortals(place: Ground, writes: int) -> AsyncGenerator[None]:
    """One operator after another, each of which dies after so many writes."""

    async def live_and_die() -> None:
        for life in range(1000):
            arrives = writes == 1 or life % 2 == 1
            async with mortal_operator(
                place.cluster, writes, last_arrives=arrives, settings=KAI
            ) as died:
                await died.wait()

    task = asyncio.create_task(live_and_die())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})


async def _has(place: Ground, resource: Any, count: int) -> bool:
    return len(await place.all(resource)) == count
