"""Replicas with a whole operator on an embedded cluster, in virtual time."""

import asyncio
from typing import Any

import pytest

from kilonova.api.grove import names
from kilonova.api.grove.parts import RollingUpdate
from kilonova.api.grove.podcliqueset import ResourceClaimTemplate, ResourceSharing
from kilonova.kube.resource import plain
from kilonova.local.nodes.fleet import Fleet, NodeGroup
from tests.local.embedded_cluster import EVENTS, NODES, eventually, settle, virtual_time
from tests.workloads.builders import clique, group, pod_clique_set, pod_template
from tests.workloads.ground import (
    AUTOSCALERS,
    CHILDREN,
    CLAIMS,
    CLIQUES,
    GANGS,
    GROUPS,
    NAMESPACE,
    PODS,
    SERVICES,
    SETS,
    Ground,
    ground,
)
from tests.workloads.operator_cluster import operating

CLAIM_TEMPLATES = plain(
    "resource.k8s.io", "v1", "resourceclaimtemplates", "ResourceClaimTemplate", True
)

pytestmark = virtual_time


def two_units(image: str = "busybox", **rest: Any) -> Any:
    """One clique alone, and a group of two replicas of which one is needed."""
    members = group("x", "b", "c", replicas=2, **rest.pop("in_group", {}))
    spec = {"containers": [{"name": "main", "image": image}]}
    return pod_clique_set(
        clique("a", 2, 1), clique("b", pod_spec=spec), clique("c", 3, 1), groups=[members], **rest
    )


async def available(place: Ground, replicas: int = 1) -> None:
    await place.until(lambda each: each.get("availableReplicas") == replicas)


async def group_status(place: Ground) -> Any:
    return (await place.get(GROUPS, "sys-0-x")).get("status", {})


async def phases(place: Ground) -> dict[str, str]:
    return {
        each["metadata"]["name"]: each.get("status", {}).get("phase", "")
        for each in await place.all(GANGS)
    }


async def pods_of(place: Ground, clique_name: str) -> list[str]:
    found = await place.client.list(PODS, NAMESPACE, labels=f"{names.POD_CLIQUE}={clique_name}")
    return sorted(
        each["metadata"]["name"]
        for each in found.items
        if not each["metadata"].get("deletionTimestamp")
    )


async def uids(place: Ground) -> set[str]:
    return {
        each["metadata"]["uid"]
        for each in await place.all(PODS)
        if not each["metadata"].get("deletionTimestamp")
    }


async def fail(place: Ground, *pods: str) -> None:
    """Have pods be lost with their nodes, and nobody take them in again."""
    for node in await place.all(NODES):
        patch = {"spec": {"unschedulable": True}}
        await place.client.patch(NODES, node["metadata"]["name"], patch)
    for each in pods:
        await place.client.delete(PODS, each, NAMESPACE, grace=0)


async def mend(place: Ground) -> None:
    """Let the nodes take pods again."""
    for node in await place.all(NODES):
        patch = {"spec": {"unschedulable": None}}
        await place.client.patch(NODES, node["metadata"]["name"], patch)


async def incarnations(place: Ground) -> dict[str, str]:
    return {
        each["metadata"]["name"]: each["metadata"].get("annotations", {}).get(names.INCARNATION, "")
        for each in await place.all(CLIQUES)
    }


async def test_replica_comes_up_with_its_gangs_running() -> None:
    async with ground() as place, operating(place.cluster):
        await place.apply(two_units())
        await available(place)
        await eventually(lambda: _all_run(place))
        counts = ("replicas", "scheduledReplicas", "availableReplicas", "updatedReplicas")

        async def counted() -> bool:
            found = await group_status(place)
            return [found[each] for each in counts] == [2, 2, 2, 2]

        await eventually(counted)


async def _all_run(place: Ground) -> bool:
    return set((await phases(place)).values()) == {"Running"}


async def test_operator_at_rest_writes_nothing() -> None:
    async with ground() as place, operating(place.cluster):
        await place.apply(two_units())
        await available(place)
        await settle()
        before = [
            (each["metadata"]["name"], each["metadata"]["resourceVersion"])
            for kind in (SETS, *CHILDREN)
            for each in await place.all(kind)
        ]
        await settle(200)
        after = [
            (each["metadata"]["name"], each["metadata"]["resourceVersion"])
            for kind in (SETS, *CHILDREN)
            for each in await place.all(kind)
        ]
        assert before == after


async def test_pods_are_born_without_a_gate_where_their_gang_knows_them() -> None:
    async with ground() as place, operating(place.cluster):
        await place.apply(pod_clique_set(clique("a", 20)))
        await available(place)
        (gang,) = await place.all(GANGS)
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
    async with ground() as place, operating(place.cluster):
        await place.apply(set_)
        await eventually(lambda: _count(place, CLIQUES, 2))
        await settle()
        before = await place.left()
        await place.client.set_scale(GROUPS, "sys-0-x", NAMESPACE, 4)
        await eventually(lambda: _count(place, CLIQUES, 5))
        await eventually(lambda: _count(place, CLAIMS, 4))
        assert await place.names(GANGS) == ["sys-0", "sys-0-x-0", "sys-0-x-1", "sys-0-x-2"]
        await place.client.set_scale(GROUPS, "sys-0-x", NAMESPACE, 1)
        await eventually(lambda: _same(place, before))


_REQUEST = {"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}


async def _count(place: Ground, kind: Any, number: int) -> bool:
    return len(await place.all(kind)) == number


async def _same(place: Ground, before: list[str]) -> bool:
    return await place.left() == before


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (SERVICES, "sys-0"),
        (GANGS, "sys-0"),
        (GANGS, "sys-0-x-0"),
        (CLIQUES, "sys-0-a"),
        (CLIQUES, "sys-0-x-1-c"),
        (GROUPS, "sys-0-x"),
    ],
    ids=lambda each: each if isinstance(each, str) else each.plural,
)
async def test_child_that_somebody_deletes_comes_back(kind: Any, name: str) -> None:
    async with ground() as place, operating(place.cluster):
        await place.apply(two_units())
        await available(place)
        await settle()
        before = {each for each in await place.left() if not each.startswith("pods/")}
        uid = (await place.get(kind, name))["metadata"]["uid"]
        await place.client.delete(kind, name, NAMESPACE)

        async def is_back() -> bool:
            found = await place.get(kind, name)
            return found is not None and found["metadata"]["uid"] != uid

        await eventually(is_back)
        await eventually(lambda: _all_run(place))
        await available(place)
        after = {each for each in await place.left() if not each.startswith("pods/")}
        assert after == before
        assert len(await place.all(PODS)) == 10


async def test_lost_unit_is_started_anew_alone() -> None:
    """GT4, first half, and GT5."""
    async with ground() as place, operating(place.cluster):
        await place.apply(two_units(termination_delay="10s"))
        await available(place)
        await settle()
        before = await uids(place)
        lost = await pods_of(place, "sys-0-x-1-b")
        await fail(place, *lost)
        await eventually(lambda: _anew(place, {"sys-0-x-1-b", "sys-0-x-1-c"}), within=30)
        await mend(place)
        await eventually(lambda: _all_run(place))
        kept = before & await uids(place)
        assert len(kept) == 6
        assert await _told(place, "PodCliqueScalingGroupReplicaDeleteSuccessful")


async def _anew(place: Ground, wanted: set[str]) -> bool:
    return {name for name, each in (await incarnations(place)).items() if each == "1"} == wanted


async def _told(place: Ground, reason: str) -> bool:
    return any(each["reason"] == reason for each in await place.all(EVENTS))


async def test_lost_replica_is_started_anew_as_a_whole_and_keeps_its_scale() -> None:
    """GT1, and GT4, second half."""
    async with ground() as place, operating(place.cluster):
        await place.apply(two_units(termination_delay="10s"))
        await available(place)
        await place.client.set_scale(CLIQUES, "sys-0-a", NAMESPACE, 3)
        await place.client.set_scale(GROUPS, "sys-0-x", NAMESPACE, 3)
        await eventually(lambda: _count(place, PODS, 15))
        await eventually(lambda: _all_run(place))
        await settle()
        before = await uids(place)
        await fail(place, *await pods_of(place, "sys-0-a"))
        everyone = {
            "sys-0-a",
            *(f"sys-0-x-{index}-{name}" for index in range(3) for name in "bc"),
        }
        await eventually(lambda: _anew(place, everyone), within=30)
        told = await group_status(place)
        assert [each["reason"] for each in told["conditions"] if each["type"] == _TERMINATION] == [
            "GangTerminationActive"
        ]
        await settle(60)
        assert await _anew(place, everyone), "not again and again while nothing has room"
        await mend(place)
        await eventually(lambda: _all_run(place))
        assert not before & await uids(place)
        assert len(await uids(place)) == 15
        await settle()
        told = await group_status(place)
        assert not [each for each in told["conditions"] if each["type"] == _TERMINATION]


_TERMINATION = "GangTerminationInProgress"


async def test_loss_that_can_be_borne_terminates_nothing() -> None:
    """GT3, first half, and GT6."""
    async with ground() as place, operating(place.cluster):
        await place.apply(two_units(termination_delay="10s"))
        await available(place)
        await settle()
        await fail(place, (await pods_of(place, "sys-0-a"))[0])
        await settle(60)
        assert await _anew(place, set())


async def test_units_are_updated_one_at_a_time() -> None:
    """RU8."""
    async with ground() as place, operating(place.cluster):
        await place.apply(two_units())
        await available(place)
        await settle()
        lowest = 2
        await place.apply(two_units("busybox:2"))
        while not await _is_over(place):
            lowest = min(lowest, (await group_status(place))["availableReplicas"])
            await asyncio.sleep(0.05)
        assert lowest == 1
        assert set((await incarnations(place)).values()) == {"", "1"}
        status = await group_status(place)
        assert status["updatedReplicas"] == 2
        assert status["updateProgress"]["updatedPodCliquesCount"] == 4


async def _is_over(place: Ground) -> bool:
    progress = (await group_status(place)).get("updateProgress", {})
    return "updateEndedAt" in progress


async def test_update_without_room_takes_one_unit_and_waits() -> None:
    """RU10."""
    async with ground() as place, operating(place.cluster):
        await place.apply(two_units())
        await available(place)
        await settle()
        await fail(place)
        await place.apply(two_units("busybox:2"))
        await settle(120)
        anew = {name for name, each in (await incarnations(place)).items() if each}
        assert anew == {"sys-0-x-0-b", "sys-0-x-0-c"}
        await mend(place)
        await eventually(lambda: _is_over(place))


async def test_stuck_update_is_told_and_goes_on_when_it_can() -> None:
    how = RollingUpdate(progress_deadline="1m")
    async with ground() as place, operating(place.cluster):
        await place.apply(two_units(in_group={"rolling_update": how}))
        await available(place)
        await settle()
        await fail(place)
        await place.apply(two_units("busybox:2", in_group={"rolling_update": how}))
        await eventually(lambda: _reason(place, "ProgressDeadlineExceeded"), within=90)
        await mend(place)
        await eventually(lambda: _reason(place, "UpdateCompleted"))


async def _reason(place: Ground, reason: str) -> bool:
    conditions = (await group_status(place)).get("conditions", [])
    return any(each["reason"] == reason for each in conditions)


async def test_surge_keeps_all_units_available() -> None:
    how = {"rolling_update": RollingUpdate(max_unavailable=0, max_surge=1)}
    async with ground() as place, operating(place.cluster):
        await place.apply(two_units(in_group=how))
        await available(place)
        await settle()
        before = {each for each in await place.left() if "pods/" not in each}
        lowest = 2
        await place.apply(two_units("busybox:2", in_group=how))
        while not await _is_over(place):
            lowest = min(lowest, (await group_status(place))["availableReplicas"])
            await asyncio.sleep(0.05)
        assert lowest == 2
        await settle()
        after = {each for each in await place.left() if "pods/" not in each}
        assert {each for each in after ^ before if "controllerrevisions" not in each} == set()
        assert len(await place.all(PODS)) == 10


async def test_claims_from_a_template_elsewhere_come_with_it() -> None:
    sharing = (ResourceSharing("theirs", "PerReplica"),)
    set_ = pod_clique_set(clique("a", 2, resource_sharing=sharing))
    async with ground() as place, operating(place.cluster):
        await place.apply(set_)
        await eventually(lambda: _told(place, "ResourceClaimTemplateReadFailed"))
        template = {
            "metadata": {"name": "theirs"},
            "spec": {"spec": {"devices": {"requests": [_REQUEST]}}},
        }
        await place.client.create(CLAIM_TEMPLATES, template, NAMESPACE)
        await eventually(lambda: _count(place, CLAIMS, 2), within=600)
        (claim, _) = await place.all(CLAIMS)
        assert claim["spec"]["devices"]["requests"][0]["name"] == "gpu"
        await place.client.delete(CLAIM_TEMPLATES, "theirs", NAMESPACE)
        await place.client.set_scale(CLIQUES, "sys-0-a", NAMESPACE, 1)
        await eventually(lambda: _count(place, CLAIMS, 1))


async def test_scaled_gang_waits_for_its_base() -> None:
    """GS5 and GS6: no pod of it may be placed while its base has no nodes."""
    async with ground(fleet=Fleet((NodeGroup("node", 1),))) as place, operating(place.cluster):
        await fail(place)
        await place.apply(two_units())
        await eventually(lambda: _count(place, PODS, 10))
        await settle(30)
        gated = {
            each["metadata"]["labels"][names.POD_GANG]
            for each in await place.all(PODS)
            if each["spec"].get("schedulingGates")
        }
        assert gated == {"sys-0-x-0"}
        await mend(place)
        await eventually(lambda: _all_run(place))


async def test_service_that_is_somebody_elses_is_told_and_the_rest_is_made() -> None:
    async with ground() as place, operating(place.cluster):
        theirs = {"metadata": {"name": "sys-0"}, "spec": {"ports": [{"port": 80}]}}
        await place.client.create(SERVICES, theirs, NAMESPACE)
        await place.apply(two_units())
        await available(place)
        errors = (await group_status(place))["lastErrors"]
        assert [each["code"] for each in errors] == ["ERR_SYNC_SERVICES"]
        status = await place.until(lambda status: bool(status.get("lastErrors")))
        (error,) = status["lastErrors"]
        assert error["code"] == "ERR_SYNC_SERVICES"
        assert "Service sys-0" in error["description"]
        await place.client.delete(SERVICES, "sys-0", NAMESPACE)
        await eventually(lambda: _no_errors(place), within=600)
        await place.until(lambda status: not status.get("lastErrors"))
        assert "sys-0" in await place.names(SERVICES)


async def _no_errors(place: Ground) -> bool:
    return not (await group_status(place)).get("lastErrors")


async def test_set_that_is_deleted_takes_everything_along() -> None:
    async with ground() as place, operating(place.cluster):
        await place.apply(two_units(replicas=2))
        await available(place, 2)
        await place.client.delete(SETS, "sys", NAMESPACE)
        await eventually(lambda: _same(place, []))


async def test_operator_that_starts_again_goes_on() -> None:
    async with ground() as place:
        async with operating(place.cluster):
            await place.apply(two_units())
            await eventually(lambda: _has(place, GANGS))
        async with operating(place.cluster):
            await available(place)
            await eventually(lambda: _all_run(place))
        assert len(await place.all(PODS)) == 10


async def _has(place: Ground, kind: Any) -> bool:
    return bool(await place.all(kind))


async def test_edit_of_another_field_of_a_clique_is_taken_back() -> None:
    async with ground() as place, operating(place.cluster):
        await place.apply(pod_clique_set(clique("a", pod_spec=pod_template())))
        await available(place)
        patch = {"spec": {"podSpec": {"hostNetwork": True}, "replicas": 2}}
        await place.client.patch(CLIQUES, "sys-0-a", patch, NAMESPACE)
        await eventually(lambda: _count(place, PODS, 2))
        await settle()
        spec = (await place.get(CLIQUES, "sys-0-a"))["spec"]
        assert "hostNetwork" not in spec["podSpec"]
        assert spec["replicas"] == 2
        assert await place.names(AUTOSCALERS) == []
