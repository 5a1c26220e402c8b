"""Rejected actions: invalid ones, and those of other origins; shutdown with open streams."""

import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
import pytest_asyncio

from kilonova.cli.install import install_definitions
from kilonova.console import Console
from kilonova.kube import Client
from tests.console.console_page import (
    console_address,
    http_session,
    open_page,
    post_action,
    running_console,
)
from tests.local.embedded_cluster import run_cluster

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client() -> AsyncIterator[Client]:
    async with run_cluster() as cluster:
        client = cluster.client("kilonova")
        await install_definitions(client)
        yield client


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def console(client: Client) -> AsyncIterator[Console]:
    async with running_console(client, allow_actions=True) as console:
        yield console


@pytest.mark.parametrize(
    ("action", "status", "text"),
    [
        ({"action": "delete", "table": "pods", "id": "default/none"}, 404, "not found"),
        ({"action": "cordon", "table": "nodes", "id": "none"}, 404, "not found"),
        ({"action": "drain", "table": "nodes", "id": "none"}, 404, "not found"),
        (
            {"action": "scale", "table": "sets", "id": "default/none", "value": 1},
            404,
            "not found",
        ),
        ({"action": "scale", "table": "sets", "id": "default/s"}, 400, "replicas is None"),
        ({"action": "scale", "table": "sets", "id": "a/s", "value": -1}, 400, "replicas is -1"),
        (
            {"action": "scale", "table": "pods", "id": "default/p"},
            400,
            "only cliques, deployments, sets and statefulsets",
        ),
        (
            {"action": "delete", "table": "nodes", "id": "n"},
            400,
            "only cliques, deployments, gangs, jobs, pods, sets and statefulsets",
        ),
        ({"action": "delete", "table": "pods", "id": "p"}, 400, "want NAMESPACE/NAME"),
        ({"action": "delete", "table": "pods", "id": "a/b/c"}, 400, "want NAMESPACE/NAME"),
        (
            {"action": "cordon", "table": "nodes", "id": ".."},
            400,
            "is not a valid id in table nodes: want NAME",
        ),
        ({"action": "delete", "table": "pods", "id": "../p"}, 400, "want NAMESPACE/NAME"),
        ({"action": "delete", "table": "pods", "id": "a/p?x=y"}, 400, "want NAMESPACE/NAME"),
        (
            {"action": "restart", "table": "jobs", "id": "a/j"},
            400,
            "only deployments and statefulsets",
        ),
        ({"action": "suspend", "table": "deployments", "id": "a/d"}, 400, "only jobs"),
        ({"action": "resume", "table": "jobs", "id": "default/none"}, 404, "not found"),
        ({"action": "restart", "table": "deployments", "id": "default/none"}, 404, "not found"),
        (
            {"action": "explode", "table": "pods", "id": "a/p"},
            400,
            "unknown action 'explode': want one of cordon, delete",
        ),
        ({"table": "pods"}, 400, "missing required field"),
    ],
)
async def test_invalid_actions_are_rejected_with_a_message(
    console: Console, action: dict[str, Any], status: int, text: str
) -> None:
    code, message = await post_action(console, **action)
    assert code == status
    assert text in message


async def test_actions_from_other_origins_are_forbidden(console: Console) -> None:
    action = '{"action": "cordon", "table": "nodes", "id": "n"}'
    as_json = "application/json; charset=utf-8"
    async with http_session(console) as session:
        for headers, status in (
            ({"content-type": "text/plain"}, 415),
            ({"content-type": as_json, "origin": "http://evil.example"}, 403),
            ({"content-type": as_json, "origin": "null"}, 403),
            ({"content-type": as_json, "origin": "null", "host": ""}, 403),
            ({"content-type": as_json, "origin": "http://["}, 403),
            ({"content-type": as_json, "origin": console_address(console)}, 404),
        ):
            async with session.post("/api/actions", data=action, headers=headers) as reply:
                assert reply.status == status, headers


async def test_deeply_nested_action_is_rejected_with_a_message(console: Console) -> None:
    action = b'{"action": "cordon", "table": "nodes", "id": "n", "more": ' + b"[" * 30_000
    headers = {"content-type": "application/json"}
    async with (
        http_session(console) as session,
        session.post("/api/actions", data=action, headers=headers) as reply,
    ):
        assert reply.status == 400
        assert "invalid action" in (await reply.json())["message"]


async def test_open_streams_do_not_delay_shutdown(client: Client) -> None:
    async with AsyncExitStack() as pages:
        async with running_console(client) as console:
            page = await pages.enter_async_context(open_page(console))
            await page.wait_for_tables()
            idle = await pages.enter_async_context(open_page(console))
            start = time.monotonic()
        assert time.monotonic() - start < 3
        for each in (page, idle):
            with pytest.raises(AssertionError, match="the stream has ended"):
                await each.wait_until(lambda _: False, within=5)
