"""A Volcano user's PodGroups and queues, on both servers, with Volcano's kinds and without it."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from kilonova.api.json import JsonObject
from kilonova.kube import ApiStatusError, Client, NotFound
from tests.conftest import Api
from tests.workloads.admission.webhooks import webhooks
from tests.workloads.backends.foreign_kinds import (
    VOLCANO_GROUPS,
    VOLCANO_QUEUES,
    install,
    is_served,
    uninstall,
)
from tests.workloads.ground import PODS, SETS
from tests.workloads.manifests.load import set_of
from tests.workloads.scenarios.world import SETTINGS, world

QUEUE = "scheduling.grove.io/volcano-queue"
ON = replace(SETTINGS, schedulers=("kilonova-scheduler", "volcano"), backends=("volcano",))


def for_volcano(name: str, queue: str = "") -> JsonObject:
    """A set of the manifests that Volcano is to place."""
    body = set_of(name)
    for each in body["spec"]["template"]["cliques"]:
        each["spec"]["podSpec"]["schedulerName"] = "volcano"
        each.pop("labels", None)
    body["metadata"]["annotations"] = {QUEUE: queue} if queue else {}
    return body


async def test_gangs_are_pod_groups_that_pods_name_and_that_go_with_the_set(api: Api) -> None:
    async with world(api, nodes=1, schedules=False, settings=ON) as stage:
        await install(stage.client, VOLCANO_GROUPS)
        body = for_volcano("workload2", "fast")
        await stage.apply(body)
        name = body["metadata"]["name"]

        async def grouped() -> bool:
            found = await stage.all(VOLCANO_GROUPS)
            return [len(each["spec"].get("subGroupPolicy", ())) for each in found] == [3, 2]

        await stage.until(grouped)
        base, scaled = await stage.all(VOLCANO_GROUPS)
        assert base["metadata"]["name"] == f"{name}-0"
        assert (base["spec"]["minMember"], base["spec"]["queue"]) == (3, "fast")
        assert [
            (each["name"], each["subGroupSize"]) for each in scaled["spec"]["subGroupPolicy"]
        ] == [(f"{name}-0-sg-x-1-pc-b", 1), (f"{name}-0-sg-x-1-pc-c", 1)]
        for pod in await stage.all(PODS):
            own = pod["metadata"]
            gang = own["labels"]["grove.io/podgang"]
            assert own["annotations"]["scheduling.k8s.io/group-name"] == gang
            assert own["annotations"]["scheduling.volcano.sh/group-name"] == gang
        moved = {"metadata": {"annotations": {QUEUE: "slow"}}}
        await stage.client.patch(SETS, name, moved, stage.namespace)

        async def in_the_other() -> bool:
            return {each["spec"]["queue"] for each in await stage.all(VOLCANO_GROUPS)} == {"slow"}

        await stage.until(in_the_other)
        await stage.client.delete(SETS, name, stage.namespace)

        async def gone() -> bool:
            return not await stage.all(VOLCANO_GROUPS) and not await stage.all(SETS)

        await stage.until(gone)


@asynccontextmanager
async def queue(client: Client, name: str, state: str) -> AsyncGenerator[None]:
    """A queue in a state, while inside."""
    await client.apply(VOLCANO_QUEUES, name, {"spec": {"weight": 1}})
    await client.patch(VOLCANO_QUEUES, name, {"status": {"state": state}}, subresource="status")
    try:
        yield
    finally:
        await client.delete(VOLCANO_QUEUES, name)


async def refusal(client: Client, namespace: str, body: JsonObject) -> str:
    """Why a set is refused; empty where it is taken."""
    try:
        await client.create(SETS, body, namespace, dry_run=True)
    except ApiStatusError as error:
        return error.message.partition(" denied the request: ")[2]
    return ""


async def test_queue_must_be_there_and_open_when_a_set_comes_into_it(
    api: Api, tmp_path: Path
) -> None:
    path, space = f"metadata.annotations[{QUEUE}]", api.namespace
    async with webhooks(api, tmp_path, ON) as client:
        await install(client, VOLCANO_QUEUES)
        asked = for_volcano("kai-queue", f"fast-{space}")
        unnamed = for_volcano("kai-queue")
        absent = f'Not found: "fast-{space}": volcano queue "fast-{space}" does not exist'
        assert await refusal(client, space, asked) == f"{path}: {absent}"
        async with queue(client, f"fast-{space}", "Closed"), queue(client, "default", "Open"):
            shut = f'Invalid value: "fast-{space}": volcano queue "fast-{space}" is not Open'
            assert await refusal(client, space, asked) == f"{path}: {shut}, but Closed"
            assert await refusal(client, space, unnamed) == ""
            # One that is in a queue stays there; it may not move to one that is shut.
            await client.create(SETS, unnamed, space)
            name = unnamed["metadata"]["name"]
            change = {"metadata": {"annotations": asked["metadata"]["annotations"]}}
            with pytest.raises(ApiStatusError, match="is not Open"):
                await client.patch(SETS, name, change, space)
            state = {"status": {"state": "Closed"}}
            await client.patch(VOLCANO_QUEUES, "default", state, subresource="status")
            scaled = await client.patch(SETS, name, {"spec": {"replicas": 3}}, space)
            assert scaled["spec"]["replicas"] == 3
            await client.delete(SETS, name, space)
        async with queue(client, f"fast-{space}", "Open"):
            assert await refusal(client, space, asked) == ""


async def test_queues_are_not_asked_for_where_volcano_is_not_enabled(
    api: Api, tmp_path: Path
) -> None:
    settings = replace(ON, backends=())
    async with webhooks(api, tmp_path, settings) as client:
        await uninstall(client, VOLCANO_QUEUES)
        assert not await is_served(client, VOLCANO_QUEUES)
        told = await refusal(client, api.namespace, for_volcano("kai-queue", "fast"))
        assert 'schedulerName: Unsupported value: "volcano"' in told
        assert "queue" not in told
        with pytest.raises(NotFound):
            await client.get(VOLCANO_QUEUES, "fast")
