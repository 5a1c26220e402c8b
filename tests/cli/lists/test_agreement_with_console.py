"""Lists of the command line and tables of the console agree."""

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
from tests.console.console_page import ConsolePage
from tests.harness.sample_workloads import (
    EXPECTED_STATES,
    create_sample_workloads,
    remove_finalizers,
)

FLEET = """
nodes:
- {name: h100, count: 4, gpu: {model: NVIDIA-H100-80GB-HBM3, count: 8}, start: 10ms-50ms}
- {name: cpu, count: 2, start: 10ms-50ms}
"""
GPU = "nvidia.com/gpu"


@pytest.fixture(scope="module")
def data(cluster_command: Kilonova) -> Iterator[Path]:
    """A cluster with operator, scheduler and console, and all kinds of workloads."""
    file = cluster_command.home / "fleet.yaml"
    file.write_text(FLEET)
    data = cluster_command.home / "varied"
    done = cluster_command.detach(data, "--console", "--no-demo", "--nodes", file)
    assert done.code == 0, done.err

    async def create() -> None:
        async with connect(data / "kubeconfig") as client:
            await create_sample_workloads(client)

    async def clean_up() -> None:
        async with connect(data / "kubeconfig") as client:
            await remove_finalizers(client)

    asyncio.run(create())
    yield data
    asyncio.run(clean_up())


@pytest.fixture(scope="module")
def link(cluster_command: Kilonova, data: Path) -> str:
    """The link to the console."""
    return cluster_command.status(data)["console"]


@pytest.fixture(scope="module")
def console_tables(link: str) -> dict[str, dict[str, Any]]:
    """The tables of the console, once all workloads are in their expected state."""
    return asyncio.run(_read_tables(link))


def test_workloads_have_the_same_states_and_numbers(
    cluster_command: Kilonova, data: Path, link: str
) -> None:
    listed, shown = _list_workloads(cluster_command, data), _read_workloads(link)
    attempts = 5
    # Numbers may still change after the states: of pods that end, for example.
    while listed != shown and (attempts := attempts - 1):
        listed, shown = _list_workloads(cluster_command, data), _read_workloads(link)
    assert listed == shown


def _list_workloads(kilonova: Kilonova, data: Path) -> dict[str, tuple[object, ...]]:
    return {
        f"{each['kind']}/{each['namespace']}/{each['name']}": (
            each["status"],
            each["ready"],
            each["pods"],
            each["gpus"],
            each["queue"],
            each["why"],
        )
        for each in _list_json(kilonova, data, "workloads", "-A")
    }


def _read_workloads(link: str) -> dict[str, tuple[object, ...]]:
    return {
        id: (
            row["state"],
            row.get("ready", 0),
            row.get("pods", 0),
            row.get("gpus", 0.0),
            row.get("queue", "default"),
            row.get("why", ""),
        )
        for id, row in asyncio.run(_read_tables(link))["workloads"].items()
    }


def test_nodes_have_the_same_states_and_used_gpus(
    cluster_command: Kilonova, data: Path, console_tables: dict[str, dict[str, Any]]
) -> None:
    used: dict[str, float] = defaultdict(float)
    for pod in console_tables["pods"].values():
        used[pod.get("node", "")] += pod.get("allocatedGpus", 0.0)
    assert {
        each["name"]: (each["status"], each["gpus"], each["gpusAllocated"])
        for each in _list_json(cluster_command, data, "nodes")
    } == {
        name: (row["state"], row.get("gpus", 0), round(used[name], 3))
        for name, row in console_tables["nodes"].items()
    }
    assert console_tables["nodes"]["cpu-1"]["state"] == "Ready,Cordoned"
    assert sum(used.values()) == 2 + 2 * 4 + 1 + 0.25


def test_queues_have_the_same_numbers(
    cluster_command: Kilonova, data: Path, console_tables: dict[str, dict[str, Any]]
) -> None:
    listed = {each["name"]: each for each in _list_json(cluster_command, data, "queues")}
    team = listed["team"]
    row = console_tables["queues"]["team"]
    assert (row["used"][GPU], row["requested"][GPU], row["pendingGangs"]) == (
        int(team["used"][GPU]),
        int(team["requested"][GPU]),
        team["pendingGangs"],
    )
    assert (row["used"][GPU], row["pendingGangs"]) == (8, 1)


def _list_json(kilonova: Kilonova, data: Path, *words: str) -> list[dict[str, Any]]:
    done = kilonova(*words, "-o", "json", "--data", data)
    assert done.code == 0, done.err
    return json.loads(done.out)


async def _read_tables(link: str) -> dict[str, dict[str, Any]]:
    address, _, token = link.partition("/?token=")
    headers = {"authorization": f"Bearer {token}"}
    async with (
        aiohttp.ClientSession(address, headers=headers) as session,
        session.get("/api/stream") as reply,
    ):
        page = ConsolePage(reply.content)
        await page.wait_until(
            lambda page: _states(page) == EXPECTED_STATES and _has_queue_usage(page), within=60
        )
        return page.tables


def _states(page: ConsolePage) -> dict[str, str]:
    return {id: row["state"] for id, row in page.tables.get("workloads", {}).items()}


def _has_queue_usage(page: ConsolePage) -> bool:
    """The scheduler writes the status of a queue after it has bound its gangs."""
    queue = page.row("queues", "team") or {}
    return queue.get("pendingGangs") == 1 and queue.get("used", {}).get(GPU) == 8
