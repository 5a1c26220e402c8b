"""What people and machines do to a set's objects, and what becomes of it."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kilonova.api.grove import names
from kilonova.api.grove.topology import Pack, SetTopologyConstraint
from kilonova.kube.resource import Resource
from tests.local.embedded_cluster import NODES, eventually, gone, settle
from tests.workloads.builders import clique, group, pod_clique_set, pod_template
from tests.workloads.ground import (
    CHILDREN,
    CLIQUES,
    GANGS,
    GROUPS,
    NAMESPACE,
    PODS,
    REVISIONS,
    SERVICES,
    SETS,
    TOPOLOGIES,
    Ground,
    ground,
)
from tests.workloads.operator_cluster import operating

pytestmark = pytest.mark.looptime


def system(replicas: int = 1, **fields: Any) -> Any:
    spec = pod_template(terminationGracePeriodSeconds=1)
    return pod_clique_set(
        clique("front", pod_spec=spec),
        clique("hand", 2, pod_spec=spec),
        groups=[group("team", "hand", replicas=2)],
        replicas=replicas,
        **fields,
    )


@asynccontextmanager
async def a_system(replicas: int = 1, **fields: Any) -> AsyncGenerator[Ground]:
    async with ground() as place, operating(place.cluster):
        await place.apply(system(replicas, **fields))
        await whole(place, replicas)
        yield place


async def whole(place: Ground, replicas: int = 1) -> None:
    """Wait until all pods run, and all objects are there."""

    async def so() -> bool:
        pods = [each for each in await place.all(PODS) if each["status"].get("phase") == "Running"]
        status = await place.status()
        return (
            len(pods) == len(await place.names(PODS)) == 5 * replicas
            and status.get("availableReplicas") == replicas
            and len(await place.names(CLIQUES)) == 3 * replicas
            and len(await place.names(GROUPS)) == replicas
            and len(await place.names(GANGS)) == 2 * replicas
            and len(await place.names(SERVICES)) == replicas + 1
        )

    await eventually(so, within=300)


@pytest.mark.parametrize(
    ("resource", "name"),
    [
        (CLIQUES, "sys-0-front"),
        (CLIQUES, "sys-0-team-1-hand"),
        (GROUPS, "sys-0-team"),
        (GANGS, "sys-0"),
        (GANGS, "sys-0-team-0"),
        (SERVICES, "sys-0"),
    ],
    ids=lambda each: each if isinstance(each, str) else each.plural,
)
async def test_deleted_child_comes_back(resource: Resource[Any], name: str) -> None:
    async with a_system() as place:
        before = (await place.get(resource, name))["metadata"]["uid"]
        await place.client.delete(resource, name, NAMESPACE)

        async def is_new() -> bool:
            found = await place.get(resource, name)
            return found is not None and found["metadata"]["uid"] != before

        await eventually(is_new)
        await whole(place)


@pytest.mark.parametrize(
    ("resource", "name", "patch"),
    [
        (CLIQUES, "sys-0-front", {"metadata": {"labels": {names.POD_GANG: "other"}}}),
        (CLIQUES, "sys-0-front", {"spec": {"minAvailable": 0}}),
        (GROUPS, "sys-0-team", {"spec": {"minAvailable": 2}}),
        (GANGS, "sys-0", {"spec": {"podgroups": []}}),
        (SERVICES, "sys-0", {"spec": {"selector": {"app": "other"}}}),
    ],
    ids=["clique's label", "clique", "group", "gang", "service"],
)
async def test_edited_child_is_put_right(resource: Resource[Any], name: str, patch: Any) -> None:
    async with a_system() as place:
        before = await place.get(resource, name)
        await place.client.patch(resource, name, patch, NAMESPACE)

        async def is_as_before() -> bool:
            found = await place.get(resource, name)
            same_labels = found["metadata"]["labels"] == before["metadata"]["labels"]
            return same_labels and found["spec"] == before["spec"]

        await eventually(is_as_before)
        await whole(place)


async def test_pod_deleted_by_hand_comes_back_at_its_index() -> None:
    async with a_system() as place:
        pod = next(each for each in await place.all(PODS) if "hand" in each["metadata"]["name"])
        await place.client.delete(PODS, pod["metadata"]["name"], NAMESPACE)
        await settle(3)
        await whole(place)
        hosts = {each["spec"]["hostname"] for each in await place.all(PODS)}
        assert pod["spec"]["hostname"] in hosts


async def test_pods_of_a_lost_node_come_up_elsewhere() -> None:
    async with a_system(2) as place:
        node = (await place.all(PODS))[0]["spec"]["nodeName"]
        await place.client.delete(NODES, node)
        await settle(120)
        await whole(place, 2)
        assert node not in {each["spec"]["nodeName"] for each in await place.all(PODS)}


async def test_operator_at_rest_writes_nothing() -> None:
    async with a_system(2) as place:
        await settle(30)
        kinds = (SETS, *CHILDREN)

        async def versions() -> list[str]:
            return [
                each["metadata"]["resourceVersion"]
                for resource in kinds
                for each in await place.all(resource)
            ]

        before = await versions()
        await settle(600)
        assert await versions() == before


async def test_new_operator_writes_nothing_where_nothing_is_to_do() -> None:
    async with ground() as place:
        async with operating(place.cluster):
            await place.apply(system(2))
            await whole(place, 2)
            await settle(30)
        before = {each: await place.all(each) for each in (SETS, *CHILDREN)}
        async with operating(place.cluster):
            await settle(60)
        assert {each: await place.all(each) for each in (SETS, *CHILDREN)} == before


async def test_set_made_anew_under_the_same_name_at_once_gets_its_own_objects() -> None:
    async with a_system() as place:
        old = {each["metadata"]["uid"] for each in await place.all(CLIQUES)}
        await place.client.delete(SETS, "sys", NAMESPACE)
        await gone(place.client, SETS, "sys")
        await place.apply(system())

        async def is_new() -> bool:
            found = {each["metadata"]["uid"] for each in await place.all(CLIQUES)}
            return len(found) == 3 and not found & old

        await eventually(is_new)
        await whole(place)
        assert len(await place.names(REVISIONS)) == 1


async def test_set_deleted_in_the_foreground_leaves_nothing() -> None:
    async with a_system(2) as place:
        await place.client.delete(SETS, "sys", NAMESPACE, propagation="Foreground")

        async def is_empty() -> bool:
            return await place.left() == []

        await eventually(is_empty)


async def test_finished_set_is_complete_and_goes_after_its_time() -> None:
    work = pod_template(restartPolicy="Never")
    async with ground() as place, operating(place.cluster):
        await place.apply(
            pod_clique_set(
                clique("work", 2, pod_spec=work), replicas=2, ttl_seconds_after_finished=60
            )
        )
        await settle(10)
        for pod in await place.all(PODS):
            status = {"phase": "Succeeded", "conditions": []}
            name = pod["metadata"]["name"]
            await place.client.patch(
                PODS, name, {"status": status}, NAMESPACE, subresource="status"
            )
        await place.until(lambda each: "Complete" in true_conditions(each))
        await place.until(
            lambda each: {gang["phase"] for gang in each["podGangStatuses"]} == {"Succeeded"}
        )
        await settle(50)
        assert await place.get(SETS, "sys") is not None
        await settle(15)
        await gone(place.client, SETS, "sys")

        async def is_empty() -> bool:
            return await place.left() == []

        await eventually(is_empty)


def true_conditions(status: Any) -> set[str]:
    return {each["type"] for each in status.get("conditions", ()) if each["status"] == "True"}


async def test_status_tells_how_far_gangs_are() -> None:
    async with a_system() as place:
        status = await place.until(
            lambda each: [gang["phase"] for gang in each["podGangStatuses"]] == ["Running"] * 2
        )
        base, scaled = status["podGangStatuses"]
        assert (base["name"], scaled["name"]) == ("sys-0", "sys-0-team-0")
        assert true_conditions(base) == {"Initialized", "Scheduled", "Ready"}
        selector = f"{names.MANAGED_BY}={names.OPERATOR},{names.PART_OF}=sys"
        assert status["hpaPodSelector"] == selector


async def test_topology_that_comes_changes_and_goes_is_told() -> None:
    constraint = SetTopologyConstraint(topology_name="plant", pack=Pack(required="rack"))
    async with a_system(topology_constraint=constraint) as place:

        async def reason() -> str:
            found = (await place.status()).get("conditions", ())
            own = [each for each in found if each["type"] == "TopologyLevelsUnavailable"]
            return f"{own[0]['status']} {own[0]['reason']}" if own else ""

        async def becomes(wanted: str) -> None:
            async def so() -> bool:
                return await reason() == wanted

            await eventually(so)

        await becomes("Unknown ClusterTopologyNotFound")
        levels = [{"domain": "zone", "key": "zone"}]
        body = {"metadata": {"name": "plant"}, "spec": {"levels": levels}}
        await place.client.create(TOPOLOGIES, body)
        await becomes("True ClusterTopologyLevelsUnavailable")
        more = {"spec": {"levels": [*levels, {"domain": "rack", "key": "rack"}]}}
        await place.client.patch(TOPOLOGIES, "plant", more)
        await becomes("False AllClusterTopologyLevelsAvailable")
        gang = await place.get(GANGS, "sys-0")
        assert gang["spec"]["topologyConstraint"]["packConstraint"] == {"required": "rack"}
        await place.client.delete(TOPOLOGIES, "plant")
        await becomes("Unknown ClusterTopologyNotFound")
