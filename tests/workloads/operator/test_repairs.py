"""Changes and failures of a set's objects are repaired."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kilonova.api.grove import names
from kilonova.api.grove.topology import SetTopologyConstraint, TopologyPackConstraint
from kilonova.kube.client.resource import Resource
from tests.local.embedded_cluster import (
    NODES,
    advance_time,
    virtual_time,
    wait_deleted,
    wait_for_condition,
)
from tests.workloads.api_objects import clique, group, pod_clique_set, pod_template
from tests.workloads.running_operator import running_operator
from tests.workloads.workload_cluster import (
    CHILDREN,
    CLIQUES,
    CONTROLLER_REVISIONS,
    GANGS,
    NAMESPACE,
    PODS,
    SCALING_GROUPS,
    SERVICES,
    SETS,
    TOPOLOGY_BINDINGS,
    WorkloadCluster,
    workload_cluster,
)

pytestmark = virtual_time


def build_set(replicas: int = 1, **fields: Any) -> Any:
    spec = pod_template(terminationGracePeriodSeconds=1)
    return pod_clique_set(
        clique("front", pod_spec=spec),
        clique("hand", 2, pod_spec=spec),
        groups=[group("team", "hand", replicas=2)],
        replicas=replicas,
        **fields,
    )


@asynccontextmanager
async def start_set(replicas: int = 1, **fields: Any) -> AsyncGenerator[WorkloadCluster]:
    async with workload_cluster() as cluster, running_operator(cluster.cluster):
        await cluster.apply(build_set(replicas, **fields))
        await wait_until_whole(cluster, replicas)
        yield cluster


async def wait_until_whole(cluster: WorkloadCluster, replicas: int = 1) -> None:
    """Wait until all pods run and all objects exist."""

    async def condition() -> bool:
        pods = [
            each
            for each in await cluster.list_objects(PODS)
            if each["status"].get("phase") == "Running"
        ]
        status = await cluster.get_status()
        return (
            len(pods) == len(await cluster.list_names(PODS)) == 5 * replicas
            and status.get("availableReplicas") == replicas
            and len(await cluster.list_names(CLIQUES)) == 3 * replicas
            and len(await cluster.list_names(SCALING_GROUPS)) == replicas
            and len(await cluster.list_names(GANGS)) == 2 * replicas
            and len(await cluster.list_names(SERVICES)) == replicas + 1
        )

    await wait_for_condition(condition, within=300)


@pytest.mark.parametrize(
    ("resource", "name"),
    [
        (CLIQUES, "sys-0-front"),
        (CLIQUES, "sys-0-team-1-hand"),
        (SCALING_GROUPS, "sys-0-team"),
        (GANGS, "sys-0"),
        (GANGS, "sys-0-team-0"),
        (SERVICES, "sys-0"),
    ],
    ids=lambda each: each if isinstance(each, str) else each.plural,
)
async def test_deleted_child_is_recreated(resource: Resource[Any], name: str) -> None:
    async with start_set() as cluster:
        before = (await cluster.get(resource, name))["metadata"]["uid"]
        await cluster.client.delete(resource, name, NAMESPACE)

        async def is_new() -> bool:
            found = await cluster.get(resource, name)
            return found is not None and found["metadata"]["uid"] != before

        await wait_for_condition(is_new)
        await wait_until_whole(cluster)


@pytest.mark.parametrize(
    ("resource", "name", "patch"),
    [
        (CLIQUES, "sys-0-front", {"metadata": {"labels": {names.POD_GANG: "other"}}}),
        (CLIQUES, "sys-0-front", {"spec": {"minAvailable": 0}}),
        (SCALING_GROUPS, "sys-0-team", {"spec": {"minAvailable": 2}}),
        (GANGS, "sys-0", {"spec": {"podgroups": []}}),
        (SERVICES, "sys-0", {"spec": {"selector": {"app": "other"}}}),
    ],
    ids=["clique's label", "clique", "group", "gang", "service"],
)
async def test_edited_child_is_reverted(resource: Resource[Any], name: str, patch: Any) -> None:
    async with start_set() as cluster:
        before = await cluster.get(resource, name)
        await cluster.client.patch(resource, name, patch, NAMESPACE)

        async def is_as_before() -> bool:
            found = await cluster.get(resource, name)
            same_labels = found["metadata"]["labels"] == before["metadata"]["labels"]
            return same_labels and found["spec"] == before["spec"]

        await wait_for_condition(is_as_before)
        await wait_until_whole(cluster)


async def test_deleted_pod_is_recreated_at_its_index() -> None:
    async with start_set() as cluster:
        pod = next(
            each for each in await cluster.list_objects(PODS) if "hand" in each["metadata"]["name"]
        )
        await cluster.client.delete(PODS, pod["metadata"]["name"], NAMESPACE)
        await advance_time(3)
        await wait_until_whole(cluster)
        hosts = {each["spec"]["hostname"] for each in await cluster.list_objects(PODS)}
        assert pod["spec"]["hostname"] in hosts


async def test_pods_of_a_lost_node_are_recreated_elsewhere() -> None:
    async with start_set(2) as cluster:
        node = (await cluster.list_objects(PODS))[0]["spec"]["nodeName"]
        await cluster.client.delete(NODES, node)
        await advance_time(120)
        await wait_until_whole(cluster, 2)
        assert node not in {each["spec"]["nodeName"] for each in await cluster.list_objects(PODS)}


async def test_idle_operator_writes_nothing() -> None:
    async with start_set(2) as cluster:
        await advance_time(30)
        kinds = (SETS, *CHILDREN)

        async def versions() -> list[str]:
            return [
                each["metadata"]["resourceVersion"]
                for resource in kinds
                for each in await cluster.list_objects(resource)
            ]

        before = await versions()
        await advance_time(600)
        assert await versions() == before


async def test_new_operator_writes_nothing_without_changes() -> None:
    async with workload_cluster() as cluster:
        async with running_operator(cluster.cluster):
            await cluster.apply(build_set(2))
            await wait_until_whole(cluster, 2)
            await advance_time(30)
        before = {each: await cluster.list_objects(each) for each in (SETS, *CHILDREN)}
        async with running_operator(cluster.cluster):
            await advance_time(60)
        assert {each: await cluster.list_objects(each) for each in (SETS, *CHILDREN)} == before


async def test_set_recreated_under_the_same_name_at_once_gets_its_own_objects() -> None:
    async with start_set() as cluster:
        old = {each["metadata"]["uid"] for each in await cluster.list_objects(CLIQUES)}
        await cluster.client.delete(SETS, "sys", NAMESPACE)
        await wait_deleted(cluster.client, SETS, "sys")
        await cluster.apply(build_set())

        async def is_new() -> bool:
            found = {each["metadata"]["uid"] for each in await cluster.list_objects(CLIQUES)}
            return len(found) == 3 and not found & old

        await wait_for_condition(is_new)
        await wait_until_whole(cluster)
        assert len(await cluster.list_names(CONTROLLER_REVISIONS)) == 1


async def test_set_deleted_in_the_foreground_leaves_nothing() -> None:
    async with start_set(2) as cluster:
        await cluster.client.delete(SETS, "sys", NAMESPACE, propagation_policy="Foreground")

        async def is_empty() -> bool:
            return await cluster.list_remaining_objects() == []

        await wait_for_condition(is_empty)


async def test_finished_set_is_complete_and_deleted_after_its_ttl() -> None:
    work = pod_template(restartPolicy="Never")
    async with workload_cluster() as cluster, running_operator(cluster.cluster):
        await cluster.apply(
            pod_clique_set(
                clique("work", 2, pod_spec=work), replicas=2, ttl_seconds_after_finished=60
            )
        )
        await advance_time(10)
        for pod in await cluster.list_objects(PODS):
            status = {"phase": "Succeeded", "conditions": []}
            name = pod["metadata"]["name"]
            await cluster.client.patch(
                PODS, name, {"status": status}, NAMESPACE, subresource="status"
            )
        await cluster.wait_for_status(lambda each: "Complete" in list_true_conditions(each))
        await cluster.wait_for_status(
            lambda each: {gang["phase"] for gang in each["podGangStatuses"]} == {"Succeeded"}
        )
        await advance_time(50)
        assert await cluster.get(SETS, "sys") is not None
        await advance_time(15)
        await wait_deleted(cluster.client, SETS, "sys")

        async def is_empty() -> bool:
            return await cluster.list_remaining_objects() == []

        await wait_for_condition(is_empty)


def list_true_conditions(status: Any) -> set[str]:
    return {each["type"] for each in status.get("conditions", ()) if each["status"] == "True"}


async def test_status_reports_gang_phases() -> None:
    async with start_set() as cluster:
        status = await cluster.wait_for_status(
            lambda each: [gang["phase"] for gang in each["podGangStatuses"]] == ["Running"] * 2
        )
        base, scaled = status["podGangStatuses"]
        assert (base["name"], scaled["name"]) == ("sys-0", "sys-0-team-0")
        assert list_true_conditions(base) == {"Initialized", "Scheduled", "Ready"}
        selector = f"{names.MANAGED_BY}={names.OPERATOR},{names.PART_OF}=sys"
        assert status["hpaPodSelector"] == selector


async def test_topology_changes_are_reported() -> None:
    constraint = SetTopologyConstraint(
        topology_name="plant", pack=TopologyPackConstraint(required="rack")
    )
    async with start_set(topology_constraint=constraint) as cluster:

        async def reason() -> str:
            found = (await cluster.get_status()).get("conditions", ())
            own = [each for each in found if each["type"] == "TopologyLevelsUnavailable"]
            return f"{own[0]['status']} {own[0]['reason']}" if own else ""

        async def becomes(wanted: str) -> None:
            async def condition() -> bool:
                return await reason() == wanted

            await wait_for_condition(condition)

        await becomes("Unknown ClusterTopologyNotFound")
        levels = [{"domain": "zone", "key": "zone"}]
        body = {"metadata": {"name": "plant"}, "spec": {"levels": levels}}
        await cluster.client.create(TOPOLOGY_BINDINGS, body)
        await becomes("True ClusterTopologyLevelsUnavailable")
        more = {"spec": {"levels": [*levels, {"domain": "rack", "key": "rack"}]}}
        await cluster.client.patch(TOPOLOGY_BINDINGS, "plant", more)
        await becomes("False AllClusterTopologyLevelsAvailable")
        gang = await cluster.get(GANGS, "sys-0")
        assert gang["spec"]["topologyConstraint"]["packConstraint"] == {"required": "rack"}
        await cluster.client.delete(TOPOLOGY_BINDINGS, "plant")
        await becomes("Unknown ClusterTopologyNotFound")
