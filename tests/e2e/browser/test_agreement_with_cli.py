"""The tables of the page agree with the output of the commands."""

import asyncio
import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from kilonova.kube import Client, connect
from tests.cli.command import Kilonova
from tests.e2e.browser.console_cluster import SMALL_FLEET, ConsoleCluster, start_cluster
from tests.harness.sample_workloads import (
    EXPECTED_STATES,
    create_sample_workloads,
    remove_finalizers,
)

GPU = "nvidia.com/gpu"
UNUSUAL_NODES = """
- name: odd
  count: 1
  gpu: {model: NVIDIA-X1, count: 3}
  start: 10ms-50ms
"""
"""A GPU model without a known price."""


@pytest.fixture(scope="module")
def console_cluster(command: Kilonova, kubectl_path: Path) -> Iterator[ConsoleCluster]:
    """A cluster with workloads of all kinds, in states that are easily confused."""
    console_cluster = start_cluster(command, kubectl_path, SMALL_FLEET + UNUSUAL_NODES)
    run_with_client(console_cluster, create_sample_workloads)
    console_cluster.wait_queue_status("team", "pendingGangs", "1")
    console_cluster.wait_queue_status("default", r"allocated.nvidia\.com/gpu", "2250m")
    yield console_cluster
    run_with_client(console_cluster, remove_finalizers)


def run_with_client(console_cluster: ConsoleCluster, function: Callable[[Client], Any]) -> None:
    """Call a function with a client, in a thread without the event loop of playwright."""

    async def call() -> None:
        async with connect(console_cluster.data / "kubeconfig") as client:
            await function(client)

    with ThreadPoolExecutor(1) as executor:
        executor.submit(asyncio.run, call()).result()


@pytest.fixture
def page(page: Page) -> Page:
    """Wide enough for all columns."""
    page.set_viewport_size({"width": 1700, "height": 1000})
    return page


def test_workloads_agree_with_the_command(page: Page, console_cluster: ConsoleCluster) -> None:
    page.goto("/workloads")
    for id, state in EXPECTED_STATES.items():
        row = page.locator(f'[id="row-{id}"]')
        expect(row.get_by_role("gridcell").nth(3)).to_have_text(state)
    expected = {
        f"{each['kind']}/{each['namespace']}/{each['name']}": (
            each["status"],
            f"{each['ready']}/{each['pods']}",
            f"{each['gpus']:g}" if each["gpus"] else "–",
            each["queue"],
        )
        for each in list_json(console_cluster, "workloads", "-A")
    }
    found = {id: (row[3], row[4], row[5], row[6]) for id, row in rows(page).items()}
    assert found == expected


def test_nodes_agree_with_the_command(page: Page, console_cluster: ConsoleCluster) -> None:
    page.goto("/nodes")
    expect(page.locator('[id="row-cpu-1"]')).to_contain_text("Ready, Cordoned")
    expected = {
        each["name"]: (
            each["status"].replace(",", ", "),
            f"{each['gpusAllocated']:g} / {each['gpus']}" if each["gpus"] else "none",
            str(each["pods"]),
        )
        for each in list_json(console_cluster, "nodes")
    }
    found = {id: (row[7], row[3], row[6]) for id, row in rows(page).items()}
    assert found == expected


def test_queues_agree_with_the_command(page: Page, console_cluster: ConsoleCluster) -> None:
    expected = {
        each["name"]: (f"{gpus(each['used']):g}", str(each["pendingGangs"] or "–"))
        for each in list_json(console_cluster, "queues")
    }
    assert expected == {"default": ("2.25", "–"), "team": ("8", "1")}
    page.goto("/queues")
    for name, (used, pending) in expected.items():
        cells = page.locator("table.queue-tree tbody tr").filter(has_text=name).get_by_role("cell")
        expect(cells.nth(2)).to_have_text(used)
        expect(cells.last).to_have_text(pending)


def test_gpus_without_a_price_are_counted_beside_the_cost(
    page: Page, console_cluster: ConsoleCluster
) -> None:
    page.goto("/fleet")
    figure = page.locator(".fleet-figure").filter(has_text="USD per hour")
    expect(figure).to_contain_text("+ 3 GPUs without a price")
    done = console_cluster.kilonova("top", "--once", "--data", console_cluster.data)
    assert "+ 3 GPUs without a price" in done.out


def test_old_links_open_the_allocation_mode(page: Page) -> None:
    for colour in ("allocation", "utilisation"):
        page.goto(f"/fleet?colour={colour}")
        expect(page.get_by_role("radio", name="Allocation")).to_be_checked()
    expect(page.get_by_text("Utilisation")).to_have_count(0)


def list_json(console_cluster: ConsoleCluster, *arguments: str) -> list[dict[str, Any]]:
    done = console_cluster.kilonova(*arguments, "-o", "json", "--data", console_cluster.data)
    assert done.code == 0, done.err
    return json.loads(done.out)


def rows(page: Page) -> dict[str, list[str]]:
    """The first line of each cell of a table, by row id."""
    script = """() => Object.fromEntries(
        [...document.querySelectorAll('tr[id^="row-"]')].map((row) => [row.id.slice(4),
        [...row.cells].map((cell) => cell.innerText.split("\\n")[0].trim())]))"""
    return page.evaluate(script)


def gpus(amounts: dict[str, Any]) -> float:
    """The GPUs of a resource list, whose values are quantities."""
    quantity = str(amounts.get(GPU, 0))
    return int(quantity[:-1]) / 1000 if quantity.endswith("m") else float(quantity)
