"""What containers have written, through the console: the last lines, live, and of the last run."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from kilonova.console import Console
from kilonova.kube import Client
from kilonova.local.nodes.fleet import Fleet, NodeGroup
from tests.console.looking import browser, console_on
from tests.local.embedded_cluster import PODS, eventually, pod, running

pytestmark = pytest.mark.asyncio(loop_scope="module")
ONE_NODE = Fleet((NodeGroup("n", 1),))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client() -> AsyncIterator[Client]:
    async with running(fleet=ONE_NODE) as cluster:
        client = cluster.client("tester")
        two = pod("two")
        two["spec"]["containers"] = [{"name": name, "image": "i"} for name in ("first", "second")]
        again = pod("again")
        fate = {"sim.kilonova.dev/run-seconds": "0.1", "sim.kilonova.dev/exit-code": "3"}
        again["metadata"]["annotations"] = fate
        for body in (two, again, pod("nowhere", nodeSelector={"there": "is-none"})):
            await client.create(PODS, body, "default")
        await eventually(lambda: has_run(client))
        yield client


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def console(client: Client) -> AsyncIterator[Console]:
    async with console_on(client) as console:
        yield console


async def has_run(client: Client) -> bool:
    """Whether the pods are so far that there is something to read."""
    again = (await client.get(PODS, "again", "default")).get("status", {})
    two = (await client.get(PODS, "two", "default")).get("status", {})
    restarts = [each["restartCount"] for each in again.get("containerStatuses", ())]
    return any(restarts) and two.get("phase") == "Running"


@pytest.mark.parametrize(
    ("query", "status", "said"),
    [
        ({"id": "default/two", "container": "second"}, 200, "simulated container second started"),
        ({"id": "default/two", "container": "first"}, 200, "simulated container first started"),
        ({"id": "default/again", "previous": "true"}, 200, "simulated container main started"),
        ({"id": "default/two", "container": "first", "previous": "true"}, 400, "previous"),
        ({"id": "default/two"}, 400, "first"),
        ({"id": "default/two", "container": "third"}, 400, "third"),
        ({"id": "default/none"}, 404, "not found"),
        ({"id": "default/nowhere"}, 200, ""),
        ({"id": "none"}, 400, "want NAMESPACE/NAME"),
        ({"id": "../two"}, 400, "want NAMESPACE/NAME"),
        ({}, 400, "wants id="),
        ({"id": "default/two", "container": "a/b"}, 400, "no name of a container"),
        ({"id": "default/two", "container": "first", "tail": "0"}, 400, "1 to 5000"),
        ({"id": "default/two", "container": "first", "tail": "many"}, 400, "1 to 5000"),
    ],
)
async def test_the_lines_of_a_container_or_why_there_are_none(
    console: Console, query: dict[str, str], status: int, said: str
) -> None:
    async with browser(console) as session, session.get("/api/logs", params=query) as reply:
        assert reply.status == status
        answer: Any = await reply.text() if status == 200 else (await reply.json())["message"]
        assert said in answer
        assert reply.headers["cache-control"] == "no-store"
        assert reply.headers["x-content-type-options"] == "nosniff"


async def test_who_follows_hears_until_the_pod_is_gone(client: Client, console: Console) -> None:
    await client.create(PODS, pod("live"), "default")
    await eventually(lambda: is_running(client, "live"))
    query = {"id": "default/live", "follow": "true"}
    async with browser(console) as session, session.get("/api/logs", params=query) as reply:
        assert b"started" in await reply.content.readline()
        rest = asyncio.ensure_future(reply.content.read())
        await client.delete(PODS, "live", "default", grace=0)
        assert b"started" not in await asyncio.wait_for(rest, 30)


async def is_running(client: Client, name: str) -> bool:
    return (await client.get(PODS, name, "default")).get("status", {}).get("phase") == "Running"


async def test_only_who_has_the_token_reads_them(console: Console) -> None:
    async with (
        browser(console, None) as session,
        session.get("/api/logs", params={"id": "default/two"}) as reply,
    ):
        assert reply.status == 401
