"""Container logs through the console: last lines, followed, and of the previous run."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from kilonova.console import Console
from kilonova.kube import Client
from kilonova.local.simnodes.fleet.model import Fleet, NodeGroup
from tests.console.console_page import http_session, running_console
from tests.local.embedded_cluster import PODS, pod, run_cluster, wait_for_condition

pytestmark = pytest.mark.asyncio(loop_scope="module")
ONE_NODE = Fleet((NodeGroup("n", 1),))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client() -> AsyncIterator[Client]:
    async with run_cluster(fleet=ONE_NODE) as cluster:
        client = cluster.client("tester")
        two = pod("two")
        two["spec"]["containers"] = [{"name": name, "image": "i"} for name in ("first", "second")]
        restarting = pod("restarting")
        annotations = {"sim.kilonova.dev/run-seconds": "0.1", "sim.kilonova.dev/exit-code": "3"}
        restarting["metadata"]["annotations"] = annotations
        for body in (two, restarting, pod("nowhere", nodeSelector={"zone": "missing"})):
            await client.create(PODS, body, "default")
        await wait_for_condition(lambda: has_run(client))
        yield client


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def console(client: Client) -> AsyncIterator[Console]:
    async with running_console(client) as console:
        yield console


async def has_run(client: Client) -> bool:
    """Whether the containers have logs."""
    restarting = (await client.get(PODS, "restarting", "default")).get("status", {})
    two = (await client.get(PODS, "two", "default")).get("status", {})
    restarts = [each["restartCount"] for each in restarting.get("containerStatuses", ())]
    return any(restarts) and two.get("phase") == "Running"


@pytest.mark.parametrize(
    ("query", "status", "text"),
    [
        ({"id": "default/two", "container": "second"}, 200, "simulated container second started"),
        ({"id": "default/two", "container": "first"}, 200, "simulated container first started"),
        ({"id": "default/restarting", "previous": "true"}, 200, "simulated container main started"),
        ({"id": "default/two", "container": "first", "previous": "true"}, 400, "previous"),
        ({"id": "default/two"}, 400, "first"),
        ({"id": "default/two", "container": "third"}, 400, "third"),
        ({"id": "default/none"}, 404, "not found"),
        ({"id": "default/nowhere"}, 200, ""),
        ({"id": "none"}, 400, "want NAMESPACE/NAME"),
        ({"id": "../two"}, 400, "want NAMESPACE/NAME"),
        ({}, 400, "query parameter id is required"),
        ({"id": "default/two", "container": "a/b"}, 400, "not a valid container name"),
        ({"id": "default/two", "container": "first", "tail": "0"}, 400, "1 to 5000"),
        ({"id": "default/two", "container": "first", "tail": "many"}, 400, "1 to 5000"),
    ],
)
async def test_log_is_returned_or_an_error(
    console: Console, query: dict[str, str], status: int, text: str
) -> None:
    async with http_session(console) as session, session.get("/api/logs", params=query) as reply:
        assert reply.status == status
        body: Any = await reply.text() if status == 200 else (await reply.json())["message"]
        assert text in body
        assert reply.headers["cache-control"] == "no-store"
        assert reply.headers["x-content-type-options"] == "nosniff"


async def test_following_streams_until_the_pod_is_deleted(client: Client, console: Console) -> None:
    await client.create(PODS, pod("live"), "default")
    await wait_for_condition(lambda: is_running(client, "live"))
    query = {"id": "default/live", "follow": "true"}
    async with http_session(console) as session, session.get("/api/logs", params=query) as reply:
        assert b"started" in await reply.content.readline()
        rest = asyncio.ensure_future(reply.content.read())
        await client.delete(PODS, "live", "default", grace_period_seconds=0)
        assert b"started" not in await asyncio.wait_for(rest, 30)


async def is_running(client: Client, name: str) -> bool:
    return (await client.get(PODS, name, "default")).get("status", {}).get("phase") == "Running"


async def test_logs_need_the_token(console: Console) -> None:
    async with (
        http_session(console, None) as session,
        session.get("/api/logs", params={"id": "default/two"}) as reply,
    ):
        assert reply.status == 401
