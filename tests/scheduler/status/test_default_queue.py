"""The Queue object of the default queue: created if missing, never changed, with a status."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kilonova.kube import Client, NotFound
from kilonova.kube.client.transport import Reply, Request
from tests.local.embedded_cluster import PODS, advance_time, virtual_time, wait_for_condition
from tests.scheduler.harness.embedded_scheduler import (
    QUEUES,
    are_all_placed,
    embedded_cluster,
    fleet,
    pod,
    running_scheduler,
    scheduled_cluster,
)
from tests.scheduler.harness.fault_injection import (
    InterceptedTransport,
    killed_scheduler,
    transport_of,
)

pytestmark = virtual_time

GPU = "nvidia.com/gpu"


async def test_default_queue_is_created_and_reports_gangs_that_name_no_queue() -> None:
    async with scheduled_cluster(fleet(1)) as (cluster, _):
        client = cluster.client("tester")
        for name, gpus in (("runs", 8), ("waits", 1)):
            await client.create(PODS, pod(name, gpus), "default")

        async def is_reported() -> bool:
            status = await status_of(client)
            # Before the first is placed, one may be pending as well.
            return GPU in status.get("allocated", {}) and status.get("pendingGangs") == 1

        await wait_for_condition(is_reported)
        status = await status_of(client)
        assert (status["allocated"][GPU], status["requested"][GPU]) == ("8", "9")
        assert status["fairShare"][GPU] == "8"
        assert [each["reason"] for each in status["conditions"]] == ["QueueReady"]
        assert "spec" not in await client.get(QUEUES, "default")


async def test_new_queue_is_observed_before_the_status_interval_ends() -> None:
    async with scheduled_cluster(fleet(1)) as (cluster, _):
        client = cluster.client("tester")
        await wait_for_condition(exists(client))
        await advance_time(1)
        assert (await status_of(client))["pendingGangs"] == 0
        await client.create(QUEUES, {"metadata": {"name": "team"}})
        await advance_time(1)
        assert (await client.get(QUEUES, "team"))["status"]["conditions"]


async def test_deleted_default_queue_is_created_again() -> None:
    async with scheduled_cluster(fleet(1)) as (cluster, _):
        client = cluster.client("tester")
        await wait_for_condition(exists(client))
        uid = (await client.get(QUEUES, "default"))["metadata"]["uid"]
        await client.delete(QUEUES, "default")

        async def is_new() -> bool:
            return (
                await exists(client)()
                and (await client.get(QUEUES, "default"))["metadata"]["uid"] != uid
            )

        await wait_for_condition(is_new)


async def test_default_queue_of_a_user_keeps_its_spec_and_its_limit_holds() -> None:
    async with embedded_cluster(fleet(1)) as cluster:
        client = cluster.client("tester")
        body = {"metadata": {"name": "default"}, "spec": {"weight": 3, "limit": {GPU: 2}}}
        created = await client.create(QUEUES, body)
        async with running_scheduler(cluster):
            for name, gpus in (("runs", 2), ("waits", 1)):
                await client.create(PODS, pod(name, gpus), "default")
            await wait_for_condition(are_all_placed(client, ["runs"]))
            await advance_time(30)
            found = await client.get(QUEUES, "default")
            assert (found["metadata"]["uid"], found["spec"]) == (
                created["metadata"]["uid"],
                created["spec"],
            )
            assert found["metadata"]["generation"] == 1
            assert (found["status"]["allocated"][GPU], found["status"]["pendingGangs"]) == ("2", 1)


@pytest.mark.parametrize("code", [403, 404], ids=["forbidden", "not installed"])
async def test_scheduler_works_where_the_default_queue_cannot_be_created(
    code: int, caplog: pytest.LogCaptureFixture
) -> None:
    async with embedded_cluster(fleet(1)) as cluster:
        client = cluster.client("tester")
        transport = InterceptedTransport(transport_of(cluster))
        refused = 0

        async def refuse(request: Request) -> Reply | None:
            nonlocal refused
            if request.method != "POST" or not request.path.endswith("/queues"):
                return None
            refused += 1
            body = b'{"kind":"Status","code":%d,"message":"refused"}' % code
            return Reply(code, body, {})

        transport.intercept = refuse
        async with killed_scheduler(transport):
            await client.create(PODS, pod("runs", 1), "default")
            await wait_for_condition(are_all_placed(client, ["runs"]))
            await advance_time(200)
            assert refused > 1
            said = [each for each in caplog.records if "default queue" in each.getMessage()]
            assert [each.levelname for each in said] == ["WARNING"]
            assert not await exists(client)()
            transport.intercept = None
            await wait_for_condition(exists(client), within=120)


async def status_of(client: Client) -> dict[str, Any]:
    try:
        return (await client.get(QUEUES, "default")).get("status", {})
    except NotFound:
        return {}


def exists(client: Client) -> Callable[[], Awaitable[bool]]:
    async def is_there() -> bool:
        try:
            await client.get(QUEUES, "default")
        except NotFound:
            return False
        return True

    return is_there
