"""PodGroups and queues of Volcano, on both servers, with Volcano's CRDs and without Volcano."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from kilonova.api.json import JsonObject
from kilonova.kube import ApiStatusError, Client, NotFound
from tests.workloads.admission.running_webhooks import running_webhooks
from tests.workloads.backends.foreign_kinds import (
    VOLCANO_POD_GROUPS,
    VOLCANO_QUEUES,
    install_foreign_kinds,
    is_served,
    uninstall_foreign_kinds,
)
from tests.workloads.manifests.load import load_set
from tests.workloads.scenarios.support.scenario_api import ScenarioApi
from tests.workloads.scenarios.support.scenario_cluster import SETTINGS, scenario_cluster
from tests.workloads.workload_cluster import PODS, SETS

QUEUE = "scheduling.grove.io/volcano-queue"
ON = replace(SETTINGS, schedulers=("kilonova-scheduler", "volcano"), backends=("volcano",))


def with_volcano_scheduler(name: str, queue: str = "") -> JsonObject:
    """A set of the manifests that Volcano is to place."""
    body = load_set(name)
    for each in body["spec"]["template"]["cliques"]:
        each["spec"]["podSpec"]["schedulerName"] = "volcano"
        each.pop("labels", None)
    body["metadata"]["annotations"] = {QUEUE: queue} if queue else {}
    return body


async def test_gangs_have_pod_groups_that_are_deleted_with_the_set(api: ScenarioApi) -> None:
    async with scenario_cluster(api, nodes=1, with_scheduler=False, settings=ON) as cluster:
        await install_foreign_kinds(cluster.client, VOLCANO_POD_GROUPS)
        body = with_volcano_scheduler("workload2", "fast")
        await cluster.apply(body)
        name = body["metadata"]["name"]

        async def grouped() -> bool:
            found = await cluster.list_objects(VOLCANO_POD_GROUPS)
            return [len(each["spec"].get("subGroupPolicy", ())) for each in found] == [3, 2]

        await cluster.wait_until(grouped)
        base, scaled = await cluster.list_objects(VOLCANO_POD_GROUPS)
        assert base["metadata"]["name"] == f"{name}-0"
        assert (base["spec"]["minMember"], base["spec"]["queue"]) == (3, "fast")
        assert [
            (each["name"], each["subGroupSize"]) for each in scaled["spec"]["subGroupPolicy"]
        ] == [(f"{name}-0-sg-x-1-pc-b", 1), (f"{name}-0-sg-x-1-pc-c", 1)]
        for pod in await cluster.list_objects(PODS):
            own = pod["metadata"]
            gang = own["labels"]["grove.io/podgang"]
            assert own["annotations"]["scheduling.k8s.io/group-name"] == gang
            assert own["annotations"]["scheduling.volcano.sh/group-name"] == gang
        moved = {"metadata": {"annotations": {QUEUE: "slow"}}}
        await cluster.client.patch(SETS, name, moved, cluster.namespace)

        async def in_the_other() -> bool:
            return {
                each["spec"]["queue"] for each in await cluster.list_objects(VOLCANO_POD_GROUPS)
            } == {"slow"}

        await cluster.wait_until(in_the_other)
        await cluster.client.delete(SETS, name, cluster.namespace)

        async def gone() -> bool:
            return not await cluster.list_objects(
                VOLCANO_POD_GROUPS
            ) and not await cluster.list_objects(SETS)

        await cluster.wait_until(gone)


@asynccontextmanager
async def create_queue(client: Client, name: str, state: str) -> AsyncGenerator[None]:
    """A queue in a state, while inside."""
    await client.apply(VOLCANO_QUEUES, name, {"spec": {"weight": 1}})
    await client.patch(VOLCANO_QUEUES, name, {"status": {"state": state}}, subresource="status")
    try:
        yield
    finally:
        await client.delete(VOLCANO_QUEUES, name)


async def get_rejection(client: Client, namespace: str, body: JsonObject) -> str:
    """Why a set is rejected; empty if it is accepted."""
    try:
        await client.create(SETS, body, namespace, dry_run=True)
    except ApiStatusError as error:
        return error.message.partition(" denied the request: ")[2]
    return ""


async def test_queue_must_exist_and_be_open_when_a_set_enters_it(
    api: ScenarioApi, tmp_path: Path
) -> None:
    path, space = f"metadata.annotations[{QUEUE}]", api.namespace
    async with running_webhooks(api, tmp_path, ON) as client:
        await install_foreign_kinds(client, VOLCANO_QUEUES)
        request = with_volcano_scheduler("kai-queue", f"fast-{space}")
        unnamed = with_volcano_scheduler("kai-queue")
        absent = f'Not found: "fast-{space}": volcano queue "fast-{space}" does not exist'
        assert await get_rejection(client, space, request) == f"{path}: {absent}"
        async with (
            create_queue(client, f"fast-{space}", "Closed"),
            create_queue(client, "default", "Open"),
        ):
            shut = f'Invalid value: "fast-{space}": volcano queue "fast-{space}" is not Open'
            assert (
                await get_rejection(client, space, request)
                == f"{path}: {shut}: its state is Closed"
            )
            assert await get_rejection(client, space, unnamed) == ""
            # A set stays in its queue; it cannot be moved to a closed one.
            await client.create(SETS, unnamed, space)
            name = unnamed["metadata"]["name"]
            change = {"metadata": {"annotations": request["metadata"]["annotations"]}}
            with pytest.raises(ApiStatusError, match="is not Open"):
                await client.patch(SETS, name, change, space)
            state = {"status": {"state": "Closed"}}
            await client.patch(VOLCANO_QUEUES, "default", state, subresource="status")
            scaled = await client.patch(SETS, name, {"spec": {"replicas": 3}}, space)
            assert scaled["spec"]["replicas"] == 3
            await client.delete(SETS, name, space)
        async with create_queue(client, f"fast-{space}", "Open"):
            assert await get_rejection(client, space, request) == ""


async def test_queues_are_not_required_where_volcano_is_not_enabled(
    api: ScenarioApi, tmp_path: Path
) -> None:
    settings = replace(ON, backends=())
    async with running_webhooks(api, tmp_path, settings) as client:
        await uninstall_foreign_kinds(client, VOLCANO_QUEUES)
        assert not await is_served(client, VOLCANO_QUEUES)
        message = await get_rejection(
            client, api.namespace, with_volcano_scheduler("kai-queue", "fast")
        )
        assert 'schedulerName: Unsupported value: "volcano"' in message
        assert "queue" not in message
        with pytest.raises(NotFound):
            await client.get(VOLCANO_QUEUES, "fast")
