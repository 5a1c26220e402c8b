"""CascadeDelete: no object of a set is left. Every kind that the server knows is listed."""

from typing import Literal

import pytest

from kilonova.api.json import JsonObject
from kilonova.kube import unstructured_resource
from kilonova.workloads.admission.defaults import apply_defaults
from tests.local.embedded_cluster import wait_for_condition
from tests.workloads.manifests.load import load_set
from tests.workloads.running_operator import running_operator
from tests.workloads.scenarios.support.namespace_inventory import list_namespace_objects
from tests.workloads.scenarios.support.scenario_api import ScenarioApi
from tests.workloads.scenarios.support.scenario_cluster import ScenarioCluster, scenario_cluster
from tests.workloads.workload_cluster import (
    AUTOSCALERS,
    CLIQUES,
    CONTROLLER_REVISIONS,
    GANGS,
    NAMESPACE,
    PODS,
    RESOURCE_CLAIMS,
    SCALING_GROUPS,
    SERVICES,
    SETS,
    workload_cluster,
)

EVERY_KIND = (
    SETS,
    CLIQUES,
    SCALING_GROUPS,
    GANGS,
    PODS,
    SERVICES,
    AUTOSCALERS,
    RESOURCE_CLAIMS,
    CONTROLLER_REVISIONS,
)
CONFIG_MAPS = unstructured_resource("", "v1", "configmaps", "ConfigMap", True)


def build_set_of_every_kind() -> JsonObject:
    """A set with autoscalers and claims of its own."""
    body = load_set("workload2")
    template = body["spec"]["template"]
    template["cliques"][0]["spec"]["autoScalingConfig"] = {"maxReplicas": 4}
    template["podCliqueScalingGroups"][0]["scaleConfig"] = {"maxReplicas": 4}
    device = {"name": "device", "exactly": {"deviceClassName": "example.com"}}
    template["resourceClaimTemplates"] = [
        {"name": "shared", "templateSpec": {"spec": {"devices": {"requests": [device]}}}}
    ]
    template["resourceSharing"] = [
        {"name": "shared", "scope": "PerReplica", "filter": {"childCliqueNames": ["pc-a"]}}
    ]
    return body


async def wait_for_inventory(cluster: ScenarioCluster, api: ScenarioApi, wanted: list[str]) -> None:
    async def condition() -> bool:
        return await list_namespace_objects(api) == wanted

    await cluster.wait_until(condition)


@pytest.mark.parametrize("propagation", ["Background", "Foreground"])
async def test_cascade_delete_leaves_nothing_behind(
    api: ScenarioApi, propagation: Literal["Background", "Foreground"]
) -> None:
    async with scenario_cluster(api, nodes=20, free_nodes=20) as cluster:
        before = await list_namespace_objects(api)
        body = build_set_of_every_kind()
        await cluster.apply(body, replicas=2)
        await cluster.wait_until_running(20)
        for kind in EVERY_KIND:
            assert await cluster.list_objects(kind), kind.plural
        await cluster.client.delete(
            SETS, body["metadata"]["name"], cluster.namespace, propagation_policy=propagation
        )
        await wait_for_inventory(cluster, api, before)


async def test_scale_in_leaves_nothing_behind_either(api: ScenarioApi) -> None:
    async with scenario_cluster(api, nodes=20, free_nodes=20) as cluster:
        body = build_set_of_every_kind()
        await cluster.apply(body)
        await cluster.wait_until_running(10)
        await cluster.wait_until_settled()
        before = await list_namespace_objects(api)
        await cluster.scale(SETS, body["metadata"]["name"], 2)
        await cluster.wait_until_running(20)
        await cluster.scale(SETS, body["metadata"]["name"], 1)
        await wait_for_inventory(cluster, api, before)


async def test_objects_of_other_owners_stay(api: ScenarioApi) -> None:
    async with scenario_cluster(api, nodes=10, free_nodes=10) as cluster:
        body = build_set_of_every_kind()
        await cluster.apply(body)
        await cluster.wait_until_running(10)
        labels = {"app.kubernetes.io/part-of": body["metadata"]["name"]}
        own_gangs = {"metadata": {"name": "mine", "labels": labels}, "data": {}}
        await cluster.client.create(CONFIG_MAPS, own_gangs, cluster.namespace)
        await cluster.client.delete(SETS, body["metadata"]["name"], cluster.namespace)

        async def only_mine() -> bool:
            return (
                not await cluster.list_remaining_objects()
                and "configmaps/mine" in await list_namespace_objects(api)
            )

        await cluster.wait_until(only_mine)


@pytest.mark.looptime
async def test_set_is_deleted_completely_without_a_garbage_collector() -> None:
    async with (
        workload_cluster(controllers="*,-garbage-collector-controller") as cluster,
        running_operator(cluster.cluster),
    ):
        body = build_set_of_every_kind()
        body["spec"]["template"]["resourceSharing"].append(
            {"name": "shared-by-all", "scope": "AllReplicas"}
        )
        body["spec"]["template"]["resourceClaimTemplates"].append(
            {**body["spec"]["template"]["resourceClaimTemplates"][0], "name": "shared-by-all"}
        )
        await cluster.apply(apply_defaults(body))

        async def all_there() -> bool:
            return all([await cluster.list_objects(kind) for kind in EVERY_KIND])

        await wait_for_condition(all_there)
        await cluster.client.delete(SETS, body["metadata"]["name"], NAMESPACE)

        async def nothing_left() -> bool:
            return await cluster.list_remaining_objects() == []

        await wait_for_condition(nothing_left)
