"""Faults: things are lost, people meddle, the operator dies. The end is always the same."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kilonova.api.grove import names
from kilonova.kube import Resource
from kilonova.local.nodes.fleet import Fleet, NodeGroup
from tests.conftest import Api
from tests.local.embedded_cluster import NODES, eventually, virtual_time
from tests.workloads.builders import clique, group, pod_clique_set, pod_template
from tests.workloads.ground import (
    CHILDREN,
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
from tests.workloads.mortal import mortal_operator
from tests.workloads.operator_cluster import operating
from tests.workloads.scenarios.waiting import until_gangs_run
from tests.workloads.scenarios.world import World, world

SET = "workload2"
GANGS_OF_SET = (f"{SET}-0", f"{SET}-0-sg-x-0")


async def start(stage: World) -> None:
    await stage.apply(SET)
    await stage.until_running(10)
    await until_gangs_run(stage, *GANGS_OF_SET)
    await stage.until_settled()


async def until_all_but(stage: World, lost: set[str], count: int) -> None:
    """Wait until so many pods run, none of them one that was lost."""

    async def so() -> bool:
        found = {each["metadata"]["uid"] for each in await stage.running()}
        return len(found) == len(await stage.pods()) == count and not found & lost

    await stage.until(so)


async def test_pods_deleted_by_hand_come_back_at_their_indexes(api: Api) -> None:
    async with world(api, nodes=12, free=12) as stage:
        await start(stage)
        before = {each["spec"]["hostname"] for each in await stage.pods()}
        lost = (await stage.pods(f"{SET}-0-sg-x-1-pc-c"))[:2]
        for pod in lost:
            await stage.client.delete(PODS, pod["metadata"]["name"], stage.namespace)
        await until_all_but(stage, {each["metadata"]["uid"] for each in lost}, 10)
        assert {each["spec"]["hostname"] for each in await stage.pods()} == before
        await until_gangs_run(stage, *GANGS_OF_SET)


async def test_pods_of_a_lost_node_come_up_elsewhere(api: Api) -> None:
    async with world(api, nodes=12, free=10) as stage:
        await start(stage)
        node = (await stage.pods(f"{SET}-0-pc-a"))[0]["spec"]["nodeName"]
        await stage.client.delete(NODES, node)
        lost: set[str] = set()
        for pod in await stage.pods():
            if pod["spec"]["nodeName"] == node:
                lost.add(pod["metadata"]["uid"])
                # What Kubernetes' collector of pods does, which does not run beside these servers.
                await stage.client.delete(PODS, pod["metadata"]["name"], stage.namespace, grace=0)
        assert lost
        for each in stage.nodes:
            if each != node:
                await stage.cordon(each, closed=False)
        await until_all_but(stage, lost, 10)
        assert node not in {each["spec"]["nodeName"] for each in await stage.pods()}
        stage.nodes.remove(node)


DELETED: list[tuple[Resource[Any], str]] = [
    (SERVICES, f"{SET}-0"),
    (GANGS, f"{SET}-0"),
    (GANGS, f"{SET}-0-sg-x-0"),
    (CLIQUES, f"{SET}-0-pc-a"),
    (CLIQUES, f"{SET}-0-sg-x-1-pc-c"),
    (GROUPS, f"{SET}-0-sg-x"),
]


async def test_deleted_children_come_back(api: Api) -> None:
    async with world(api, nodes=20, free=20) as stage:
        await start(stage)
        for kind, name in DELETED:
            before = (await stage.get(kind, name))["metadata"]["uid"]
            await stage.client.delete(kind, name, stage.namespace)
            await until_new(stage, kind, name, before)
        await stage.until_running(10)
        await until_gangs_run(stage, *GANGS_OF_SET)


async def until_new(stage: World, kind: Resource[Any], name: str, uid: str) -> None:
    async def so() -> bool:
        found = await stage.get(kind, name)
        return found is not None and found["metadata"]["uid"] != uid

    await stage.until(so)


EDITS: list[tuple[Resource[Any], str, Any]] = [
    (SERVICES, f"{SET}-0", {"spec": {"selector": {"app": "other"}}}),
    (GANGS, f"{SET}-0", {"spec": {"podgroups": []}}),
    (GANGS, f"{SET}-0-sg-x-0", {"metadata": {"labels": {names.COMPONENT: "other"}}}),
    (CLIQUES, f"{SET}-0-pc-a", {"spec": {"minAvailable": 2}}),
    (CLIQUES, f"{SET}-0-sg-x-0-pc-c", {"spec": {"startsAfter": [f"{SET}-0-pc-a"]}}),
    (GROUPS, f"{SET}-0-sg-x", {"spec": {"minAvailable": 2}}),
]


async def test_edited_children_are_put_right_and_no_pod_is_lost(api: Api) -> None:
    async with world(api, nodes=12, free=12) as stage:
        await start(stage)
        pods = {each["metadata"]["uid"] for each in await stage.pods()}
        for kind, name, patch in EDITS:
            before = await stage.get(kind, name)
            await stage.client.patch(kind, name, patch, stage.namespace)
            await until_same(stage, kind, before)
        await stage.until_settled()
        assert {each["metadata"]["uid"] for each in await stage.running()} == pods


async def until_same(stage: World, kind: Resource[Any], before: Any) -> None:
    async def so() -> bool:
        found = await stage.get(kind, before["metadata"]["name"])
        labels = found["metadata"]["labels"], before["metadata"]["labels"]
        return found["spec"] == before["spec"] and labels[0] == labels[1]

    await stage.until(so)


async def test_what_happens_while_no_operator_runs_is_made_good(api: Api) -> None:
    async with world(api, nodes=20, free=20) as stage:
        await start(stage)
        await stage.stop_operator()
        await stage.scale(GROUPS, f"{SET}-0-sg-x", 3)
        await stage.scale(CLIQUES, f"{SET}-0-pc-a", 3)
        (first, *_) = await stage.pods(f"{SET}-0-sg-x-0-pc-c")
        await stage.client.delete(PODS, first["metadata"]["name"], stage.namespace)
        await stage.client.delete(SERVICES, f"{SET}-0", stage.namespace)
        await stage.start_operator()
        await until_all_but(stage, {first["metadata"]["uid"]}, 15)
        await until_gangs_run(stage, *GANGS_OF_SET, f"{SET}-0-sg-x-1")
        assert await stage.get(SERVICES, f"{SET}-0") is not None


# An operator that dies, on the embedded cluster in virtual time.

Act = Callable[[Ground], Awaitable[None]]
Check = Callable[[Ground], Awaitable[bool]]
FEW_NODES = Fleet((NodeGroup("node", 2, start="100ms", stop="100ms"),))


def system(version: str = "1", replicas: int = 1) -> Any:
    spec = pod_template(terminationGracePeriodSeconds=1)
    return pod_clique_set(
        clique("front", pod_spec=spec, annotations={"version": version}),
        clique("hand", pod_spec=spec),
        groups=[group("team", "hand", replicas=2)],
        replicas=replicas,
    )


async def nothing(_: Ground) -> None:
    return


async def apply(place: Ground) -> None:
    await place.apply(system())


async def update(place: Ground) -> None:
    await place.apply(system("2"))


async def scale_in(place: Ground) -> None:
    await place.client.set_scale(GROUPS, "sys-0-team", NAMESPACE, 1)


async def delete(place: Ground) -> None:
    await place.client.delete(SETS, "sys", NAMESPACE)


def is_whole(pods: int, version: str = "1") -> Check:
    async def holds(place: Ground) -> bool:
        found, status = await place.all(PODS), await place.status()
        fronts = [each for each in found if "front" in each["metadata"]["name"]]
        return (
            len(found) == pods
            and all(each["status"].get("phase") == "Running" for each in found)
            and [each["metadata"]["annotations"].get("version") for each in fronts] == [version]
            and status.get("availableReplicas") == status.get("updatedReplicas") == 1
            and len(await place.all(CLIQUES)) == pods
            and [each["phase"] for each in status["podGangStatuses"]] == ["Running"] * (pods - 1)
        )

    return holds


async def is_gone(place: Ground) -> bool:
    return await place.left() == []


STORIES: dict[str, tuple[Act, Act, Check]] = {
    "apply": (nothing, apply, is_whole(3)),
    "update": (apply, update, is_whole(3, "2")),
    "scale in": (apply, scale_in, is_whole(2)),
    "delete": (apply, delete, is_gone),
}


@virtual_time
@pytest.mark.parametrize("story", STORIES)
async def test_operator_killed_between_any_two_writes_changes_nothing(story: str) -> None:
    before, act, done = STORIES[story]
    async with ground(fleet=FEW_NODES) as place:
        wanted: Any = None
        writes, died = 0, True
        while died:
            writes += 1
            await prepare(place, before)
            await act(place)
            died = await live(place, writes, done)
            async with operating(place.cluster):
                await comes_true(place, done)
                await asyncio.sleep(5)
                assert await done(place)
            found = await picture(place)
            wanted = wanted or found
            assert found == wanted, f"after {writes} writes"
            await clear(place)
        assert writes > 5


async def prepare(place: Ground, act: Act) -> None:
    if act is nothing:
        return
    async with operating(place.cluster):
        await act(place)
        await comes_true(place, is_whole(3))
        await asyncio.sleep(5)


async def live(place: Ground, writes: int, done: Check) -> bool:
    """Run an operator that dies at a write, unless it is done before; whether it died.

    Every other operator loses the write at which it dies.
    """

    async def is_over() -> bool:
        return died.is_set() or await done(place)

    arrives = writes % 2 == 0
    async with mortal_operator(place.cluster, writes, last_arrives=arrives) as died:
        await eventually(is_over, within=300, every=0.2)
        return died.is_set()


async def clear(place: Ground) -> None:
    if await is_gone(place):
        return
    async with operating(place.cluster):
        await delete(place)
        await comes_true(place, is_gone)


async def comes_true(place: Ground, check: Check) -> None:
    await eventually(lambda: check(place), within=300, every=0.2)


async def picture(place: Ground) -> Any:
    """What there is, but for what is drawn by lot, and the names of pods, which tell attempts."""
    return {
        kind.plural: sorted((_stable(kind, each) for each in await place.all(kind)), key=repr)
        for kind in (SETS, *CHILDREN)
    }


def _stable(kind: Resource[Any], found: Any) -> Any:
    own, spec = found["metadata"], dict(found.get("spec", {}))
    kept = {field: own.get(field) for field in ("labels", "annotations", "finalizers")}
    if kind == PODS:
        return kept, spec["hostname"], spec.get("schedulingGates")
    if kind == GANGS:
        spec["podgroups"] = [
            {**each, "podReferences": len(each["podReferences"])} for each in spec["podgroups"]
        ]
    return kept, own["name"], spec
