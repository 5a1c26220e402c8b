"""What the tables of the page say is what the commands say, whatever runs."""

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
from tests.e2e.browser.place import SMALL_FLEET, Place, start
from tests.harness.variety import STATES, create_variety, let_go

GPU = "nvidia.com/gpu"
ODD = """
- name: odd
  count: 1
  gpu: {model: NVIDIA-X1, count: 3}
  start: 10ms-50ms
"""
"""A GPU whose price nobody knows."""


@pytest.fixture(scope="module")
def place(command: Kilonova, kubectl_path: Path) -> Iterator[Place]:
    """With workloads of all kinds, in states that are easily confused."""
    place = start(command, kubectl_path, SMALL_FLEET + ODD)
    on(place, create_variety)
    yield place
    on(place, let_go)


def on(place: Place, do: Callable[[Client], Any]) -> None:
    """Do something with a client; not in this thread, where the browser has its loop."""

    async def connected() -> None:
        async with connect(place.data / "kubeconfig") as client:
            await do(client)

    with ThreadPoolExecutor(1) as other:
        other.submit(asyncio.run, connected()).result()


@pytest.fixture
def page(page: Page) -> Page:
    """Wide enough for all columns."""
    page.set_viewport_size({"width": 1700, "height": 1000})
    return page


def test_workloads_have_the_states_and_numbers_of_the_command(page: Page, place: Place) -> None:
    page.goto("/workloads")
    for id, state in STATES.items():
        row = page.locator(f'[id="row-{id}"]')
        expect(row.get_by_role("gridcell").nth(3)).to_have_text(state)
    wanted = {
        f"{each['kind']}/{each['namespace']}/{each['name']}": (
            each["status"],
            f"{each['ready']}/{each['pods']}",
            f"{each['gpus']:g}" if each["gpus"] else "–",
            each["queue"],
        )
        for each in told(place, "workloads", "-A")
    }
    found = {id: (row[3], row[4], row[5], row[6]) for id, row in rows(page).items()}
    assert found == wanted


def test_nodes_have_the_states_and_numbers_of_the_command(page: Page, place: Place) -> None:
    page.goto("/nodes")
    expect(page.locator('[id="row-cpu-1"]')).to_contain_text("Ready, Cordoned")
    wanted = {
        each["name"]: (
            each["status"].replace(",", ", "),
            f"{each['gpusHeld']:g} / {each['gpus']}" if each["gpus"] else "none",
            str(each["pods"]),
        )
        for each in told(place, "nodes")
    }
    found = {id: (row[7], row[3], row[6]) for id, row in rows(page).items()}
    assert found == wanted


def test_queues_have_the_numbers_of_the_command(page: Page, place: Place) -> None:
    wanted = {
        each["name"]: (f"{gpus(each['used']):g}", str(each["pendingGangs"] or "–"))
        for each in told(place, "queues")
    }
    assert wanted == {"default": ("2.25", "–"), "team": ("8", "1")}
    page.goto("/queues")
    for name, (used, waiting) in wanted.items():
        cells = page.locator("table.queue-tree tbody tr").filter(has_text=name).get_by_role("cell")
        expect(cells.nth(2)).to_have_text(used)
        expect(cells.last).to_have_text(waiting)


def test_gpus_without_a_price_are_counted_beside_the_cost(page: Page, place: Place) -> None:
    page.goto("/fleet")
    figure = page.locator(".fleet-figure").filter(has_text="USD per hour")
    expect(figure).to_contain_text("+ 3 GPUs without a price")
    done = place.kilonova("top", "--once", "--data", place.data)
    assert "+ 3 GPUs without a price" in done.out


def test_allocation_is_called_so_also_by_old_links(page: Page) -> None:
    for colour in ("allocation", "utilisation"):
        page.goto(f"/fleet?colour={colour}")
        expect(page.get_by_role("radio", name="Allocation")).to_be_checked()
    expect(page.get_by_text("Utilisation")).to_have_count(0)


def told(place: Place, *words: str) -> list[dict[str, Any]]:
    done = place.kilonova(*words, "-o", "json", "--data", place.data)
    assert done.code == 0, done.err
    return json.loads(done.out)


def rows(page: Page) -> dict[str, list[str]]:
    """The texts of all cells of a table, the first line of each, by the ids of their rows."""
    read = """() => Object.fromEntries([...document.querySelectorAll('tr[id^="row-"]')].map((row) =>
        [row.id.slice(4), [...row.cells].map((cell) => cell.innerText.split("\\n")[0].trim())]))"""
    return page.evaluate(read)


def gpus(amounts: dict[str, Any]) -> float:
    """The command writes amounts as Kubernetes does."""
    written = str(amounts.get(GPU, 0))
    return int(written[:-1]) / 1000 if written.endswith("m") else float(written)
