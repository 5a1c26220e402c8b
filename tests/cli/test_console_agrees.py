"""The commands and the console say the same of one cluster, whatever runs on it."""

import asyncio
import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from kilonova.kube import connect
from tests.cli.command import Kilonova
from tests.console.looking import Page
from tests.harness.variety import STATES, create_variety, let_go

FLEET = """
nodes:
- {name: h100, count: 4, gpu: {model: NVIDIA-H100-80GB-HBM3, count: 8}, start: 10ms-50ms}
- {name: cpu, count: 2, start: 10ms-50ms}
"""
GPU = "nvidia.com/gpu"


@pytest.fixture(scope="module")
def data(cluster_command: Kilonova) -> Iterator[Path]:
    """A cluster with operator, scheduler and console, on which all kinds of workloads are."""
    file = cluster_command.home / "fleet.yaml"
    file.write_text(FLEET)
    data = cluster_command.home / "varied"
    done = cluster_command.detach(data, "--console", "--no-demo", "--nodes", file)
    assert done.code == 0, done.err

    async def create() -> None:
        async with connect(data / "kubeconfig") as client:
            await create_variety(client)

    async def end() -> None:
        async with connect(data / "kubeconfig") as client:
            await let_go(client)

    asyncio.run(create())
    yield data
    asyncio.run(end())


@pytest.fixture(scope="module")
def shown(cluster_command: Kilonova, data: Path) -> dict[str, dict[str, Any]]:
    """The tables of the console, once all workloads are as they should be."""
    return asyncio.run(_tables(cluster_command.status(data)["console"]))


def test_workloads_are_in_the_same_state_with_the_same_numbers(
    cluster_command: Kilonova, data: Path, shown: dict[str, dict[str, Any]]
) -> None:
    told = _told(cluster_command, data, "workloads", "-A")
    assert {
        f"{each['kind']}/{each['namespace']}/{each['name']}": (
            each["status"],
            each["ready"],
            each["pods"],
            each["gpus"],
            each["queue"],
            each["why"],
        )
        for each in told
    } == {
        id: (
            row["state"],
            row.get("ready", 0),
            row.get("pods", 0),
            row.get("gpus", 0.0),
            row.get("queue", "default"),
            row.get("why", ""),
        )
        for id, row in shown["workloads"].items()
    }


def test_nodes_are_in_the_same_state_and_hold_the_same(
    cluster_command: Kilonova, data: Path, shown: dict[str, dict[str, Any]]
) -> None:
    held: dict[str, float] = defaultdict(float)
    for pod in shown["pods"].values():
        held[pod.get("node", "")] += pod.get("held", 0.0)
    assert {
        each["name"]: (each["status"], each["gpus"], each["gpusHeld"])
        for each in _told(cluster_command, data, "nodes")
    } == {
        name: (row["state"], row.get("gpus", 0), round(held[name], 3))
        for name, row in shown["nodes"].items()
    }
    assert shown["nodes"]["cpu-1"]["state"] == "Ready,Cordoned"
    assert sum(held.values()) == 2 + 2 * 4 + 1 + 0.25


def test_queues_have_the_same_numbers(
    cluster_command: Kilonova, data: Path, shown: dict[str, dict[str, Any]]
) -> None:
    told = {each["name"]: each for each in _told(cluster_command, data, "queues")}
    team = told["team"]
    row = shown["queues"]["team"]
    assert (row["used"][GPU], row["requested"][GPU], row["waiting"]) == (
        int(team["used"][GPU]),
        int(team["requested"][GPU]),
        team["pendingGangs"],
    )
    assert (row["used"][GPU], row["waiting"]) == (8, 1)


def _told(kilonova: Kilonova, data: Path, *words: str) -> list[dict[str, Any]]:
    done = kilonova(*words, "-o", "json", "--data", data)
    assert done.code == 0, done.err
    return json.loads(done.out)


async def _tables(link: str) -> dict[str, dict[str, Any]]:
    place, _, token = link.partition("/?token=")
    headers = {"authorization": f"Bearer {token}"}
    async with (
        aiohttp.ClientSession(place, headers=headers) as session,
        session.get("/api/stream") as reply,
    ):
        page = Page(reply.content)
        await page.until(lambda page: _states(page) == STATES and _is_told(page), within=60)
        return page.tables


def _states(page: Page) -> dict[str, str]:
    return {id: row["state"] for id, row in page.tables.get("workloads", {}).items()}


def _is_told(page: Page) -> bool:
    """The scheduler writes the figures of a queue a moment after it placed its gangs."""
    queue = page.row("queues", "team") or {}
    return queue.get("waiting") == 1 and queue.get("used", {}).get(GPU) == 8
