"""CascadeDelete: nothing of a set stays behind. A test lists every kind that the server knows."""

from typing import Literal

import pytest

from kilonova.api.json import JsonObject
from kilonova.kube import plain
from kilonova.workloads.admission.defaults import defaulted
from tests.conftest import Api
from tests.local.embedded_cluster import eventually
from tests.workloads.ground import (
    AUTOSCALERS,
    CLAIMS,
    CLIQUES,
    GANGS,
    GROUPS,
    NAMESPACE,
    PODS,
    REVISIONS,
    SERVICES,
    SETS,
    ground,
)
from tests.workloads.manifests.load import set_of
from tests.workloads.operator_cluster import operating
from tests.workloads.scenarios.inventory import inventory
from tests.workloads.scenarios.world import World, world

EVERY_KIND = (SETS, CLIQUES, GROUPS, GANGS, PODS, SERVICES, AUTOSCALERS, CLAIMS, REVISIONS)
CONFIG_MAPS = plain("", "v1", "configmaps", "ConfigMap", True)


def set_of_every_kind() -> JsonObject:
    """A set with autoscalers and claims of its own."""
    body = set_of("workload2")
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


async def until_inventory(stage: World, api: Api, wanted: list[str]) -> None:
    async def so() -> bool:
        return await inventory(api) == wanted

    await stage.until(so)


@pytest.mark.parametrize("propagation", ["Background", "Foreground"])
async def test_cascade_delete_leaves_nothing_behind(
    api: Api, propagation: Literal["Background", "Foreground"]
) -> None:
    async with world(api, nodes=20, free=20) as stage:
        before = await inventory(api)
        body = set_of_every_kind()
        await stage.apply(body, replicas=2)
        await stage.until_running(20)
        for kind in EVERY_KIND:
            assert await stage.all(kind), kind.plural
        await stage.client.delete(
            SETS, body["metadata"]["name"], stage.namespace, propagation=propagation
        )
        await until_inventory(stage, api, before)


async def test_scale_in_leaves_nothing_behind_either(api: Api) -> None:
    async with world(api, nodes=20, free=20) as stage:
        body = set_of_every_kind()
        await stage.apply(body)
        await stage.until_running(10)
        await stage.until_settled()
        before = await inventory(api)
        await stage.scale(SETS, body["metadata"]["name"], 2)
        await stage.until_running(20)
        await stage.scale(SETS, body["metadata"]["name"], 1)
        await until_inventory(stage, api, before)


async def test_what_others_made_stays(api: Api) -> None:
    async with world(api, nodes=10, free=10) as stage:
        body = set_of_every_kind()
        await stage.apply(body)
        await stage.until_running(10)
        labels = {"app.kubernetes.io/part-of": body["metadata"]["name"]}
        mine = {"metadata": {"name": "mine", "labels": labels}, "data": {}}
        await stage.client.create(CONFIG_MAPS, mine, stage.namespace)
        await stage.client.delete(SETS, body["metadata"]["name"], stage.namespace)

        async def only_mine() -> bool:
            return not await stage.left() and "configmaps/mine" in await inventory(api)

        await stage.until(only_mine)


@pytest.mark.looptime
async def test_set_is_taken_away_whole_though_nobody_collects_garbage() -> None:
    async with (
        ground(controllers="*,-garbage-collector-controller") as place,
        operating(place.cluster),
    ):
        body = set_of_every_kind()
        body["spec"]["template"]["resourceSharing"].append(
            {"name": "shared-by-all", "scope": "AllReplicas"}
        )
        body["spec"]["template"]["resourceClaimTemplates"].append(
            {**body["spec"]["template"]["resourceClaimTemplates"][0], "name": "shared-by-all"}
        )
        await place.apply(defaulted(body))

        async def all_there() -> bool:
            return all([await place.all(kind) for kind in EVERY_KIND])

        await eventually(all_there)
        await place.client.delete(SETS, body["metadata"]["name"], NAMESPACE)

        async def nothing_left() -> bool:
            return await place.left() == []

        await eventually(nothing_left)
