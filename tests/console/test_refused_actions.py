"""Actions that make no sense, or come from elsewhere; and a console that ends while looked at."""

import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
import pytest_asyncio

from kilonova.cli.install import install_definitions
from kilonova.console import Console
from kilonova.kube import Client
from tests.console.looking import act, address, browser, console_on, page_of
from tests.local.embedded_cluster import running

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client() -> AsyncIterator[Client]:
    async with running() as cluster:
        client = cluster.client("kilonova")
        await install_definitions(client)
        yield client


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def console(client: Client) -> AsyncIterator[Console]:
    async with console_on(client, allow_actions=True) as console:
        yield console


@pytest.mark.parametrize(
    ("action", "status", "said"),
    [
        ({"act": "delete", "table": "pods", "id": "default/none"}, 404, "not found"),
        ({"act": "cordon", "table": "nodes", "id": "none"}, 404, "not found"),
        ({"act": "drain", "table": "nodes", "id": "none"}, 404, "not found"),
        ({"act": "scale", "table": "sets", "id": "default/none", "replicas": 1}, 404, "not found"),
        ({"act": "scale", "table": "sets", "id": "default/s"}, 400, "replicas is None"),
        ({"act": "scale", "table": "sets", "id": "a/s", "replicas": -1}, 400, "replicas is -1"),
        (
            {"act": "scale", "table": "pods", "id": "default/p"},
            400,
            "only cliques, deployments, sets and statefulsets",
        ),
        (
            {"act": "delete", "table": "nodes", "id": "n"},
            400,
            "only cliques, deployments, gangs, jobs, pods, sets and statefulsets",
        ),
        ({"act": "delete", "table": "pods", "id": "p"}, 400, "want NAMESPACE/NAME"),
        ({"act": "delete", "table": "pods", "id": "a/b/c"}, 400, "want NAMESPACE/NAME"),
        ({"act": "cordon", "table": "nodes", "id": ".."}, 400, "is no id of nodes: want NAME"),
        ({"act": "delete", "table": "pods", "id": "../p"}, 400, "want NAMESPACE/NAME"),
        ({"act": "delete", "table": "pods", "id": "a/p?x=y"}, 400, "want NAMESPACE/NAME"),
        (
            {"act": "restart", "table": "jobs", "id": "a/j"},
            400,
            "only deployments and statefulsets",
        ),
        ({"act": "suspend", "table": "deployments", "id": "a/d"}, 400, "only jobs"),
        ({"act": "resume", "table": "jobs", "id": "default/none"}, 404, "not found"),
        ({"act": "restart", "table": "deployments", "id": "default/none"}, 404, "not found"),
        ({"act": "explode", "table": "pods", "id": "a/p"}, 400, "Invalid enum value"),
        ({"table": "pods"}, 400, "missing required field"),
    ],
)
async def test_what_makes_no_sense_is_refused_in_words(
    console: Console, action: dict[str, Any], status: int, said: str
) -> None:
    code, message = await act(console, **action)
    assert code == status
    assert said in message


async def test_other_pages_cannot_act(console: Console) -> None:
    action = '{"act": "cordon", "table": "nodes", "id": "n"}'
    as_json = "application/json; charset=utf-8"
    async with browser(console) as session:
        for headers, status in (
            ({"content-type": "text/plain"}, 415),
            ({"content-type": as_json, "origin": "http://evil.example"}, 403),
            ({"content-type": as_json, "origin": "null"}, 403),
            ({"content-type": as_json, "origin": "null", "host": ""}, 403),
            ({"content-type": as_json, "origin": "http://["}, 403),
            ({"content-type": as_json, "origin": address(console)}, 404),
        ):
            async with session.post("/api/actions", data=action, headers=headers) as reply:
                assert reply.status == status, headers


async def test_an_action_too_deep_to_be_read_is_refused_in_words(console: Console) -> None:
    action = b'{"act": "cordon", "table": "nodes", "id": "n", "more": ' + b"[" * 30_000
    headers = {"content-type": "application/json"}
    async with (
        browser(console) as session,
        session.post("/api/actions", data=action, headers=headers) as reply,
    ):
        assert reply.status == 400
        assert "no action" in (await reply.json())["message"]


async def test_open_pages_do_not_hold_up_the_stop(client: Client) -> None:
    async with AsyncExitStack() as pages:
        async with console_on(client) as console:
            page = await pages.enter_async_context(page_of(console))
            await page.filled()
            asleep = await pages.enter_async_context(page_of(console))
            start = time.monotonic()
        assert time.monotonic() - start < 3
        for each in (page, asleep):
            with pytest.raises(AssertionError, match="the stream has ended"):
                await each.until(lambda _: False, within=5)
