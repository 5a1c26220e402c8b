"""Keyboard shortcuts, and filters and selection stored in the address."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.browser.console_cluster import ConsoleCluster, gang


@pytest.fixture(scope="module")
def console_cluster(console_cluster: ConsoleCluster) -> ConsoleCluster:
    """With two workloads."""
    console_cluster.apply(gang("alpha", replicas=1, gpus=8), gang("beta", replicas=1, gpus=1))
    console_cluster.wait_running("alpha-0", "beta-0")
    return console_cluster


@pytest.mark.parametrize(
    ("key", "title"),
    [("f", "Fleet"), ("w", "Workloads"), ("q", "Queues"), ("n", "Nodes"), ("e", "Events")],
)
def test_g_and_a_letter_opens_a_page(page: Page, key: str, title: str) -> None:
    page.goto("/events" if title != "Events" else "/nodes")
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    page.keyboard.press("g")
    page.keyboard.press(key)
    expect(page.get_by_role("heading", level=1, name=title)).to_be_visible()


def test_slash_focuses_the_filter_which_is_in_the_address(page: Page) -> None:
    page.goto("/workloads")
    alpha = page.get_by_role("row", name=re.compile("alpha")).first
    beta = page.get_by_role("row", name=re.compile("beta")).first
    expect(alpha).to_be_visible()
    expect(beta).to_be_visible()
    page.keyboard.press("/")
    page.keyboard.type("alph")
    expect(beta).to_have_count(0)
    expect(page).to_have_url(re.compile(r"[?&]q=alph(&|$)"))
    page.reload()
    expect(alpha).to_be_visible()
    expect(beta).to_have_count(0)
    expect(page.get_by_role("main").get_by_role("searchbox")).to_have_value("alph")
    page.get_by_role("main").get_by_role("searchbox").press("Escape")
    expect(beta).to_be_visible()


def test_escape_closes_details_and_the_list_of_shortcuts(page: Page) -> None:
    page.goto("/nodes")
    page.get_by_role("row", name=re.compile("h100-0")).click()
    details = page.get_by_role("dialog", name=re.compile("h100-0"))
    expect(details).to_be_visible()
    page.reload()
    expect(details).to_be_visible()
    page.keyboard.press("Escape")
    expect(details).to_have_count(0)
    page.keyboard.press("?")
    keys = page.get_by_role("dialog", name="Keys")
    expect(keys).to_be_visible()
    page.keyboard.press("Escape")
    expect(keys).to_have_count(0)


@pytest.mark.parametrize(("name", "row"), [("workloads", "alpha"), ("nodes", "h100-0")])
def test_back_closes_details_and_forward_opens_them(page: Page, name: str, row: str) -> None:
    page.goto(f"/{name}?q={row}")
    page.get_by_role("row", name=re.compile(row)).first.click()
    details = page.get_by_role("dialog", name=re.compile(row))
    expect(details).to_be_visible()
    page.go_back()
    expect(details).to_have_count(0)
    expect(page.get_by_role("main").get_by_role("searchbox")).to_have_value(row)
    page.go_forward()
    expect(details).to_be_visible()


def test_arrow_keys_select_rows(page: Page) -> None:
    page.goto("/nodes")
    grid = page.get_by_role("grid")
    expect(page.get_by_role("row", name=re.compile("h100-0"))).to_be_visible()
    grid.focus()
    grid.press("ArrowDown")
    grid.press("Enter")
    expect(page.get_by_role("dialog")).to_be_visible()


@pytest.mark.parametrize("name", ["nodes", "workloads"])
@pytest.mark.parametrize("key", ["ArrowDown", "ArrowUp"])
def test_first_arrow_key_on_a_new_page_selects_the_first_row(
    page: Page, name: str, key: str
) -> None:
    page.goto(f"/{name}")
    first = page.locator("tr[aria-rowindex='2']")
    expect(first).to_be_visible()
    page.keyboard.press(key)
    expect(first).to_have_class("active")
    expect(page.get_by_role("grid")).to_be_focused()
    selected = first.get_by_role("gridcell").first.inner_text().strip()
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog", name=re.compile(selected))).to_be_visible()


def test_arrow_keys_focus_queues_and_the_map_of_a_new_page(page: Page) -> None:
    page.goto("/queues")
    queue = page.get_by_role("link", name="default", exact=True).first
    expect(queue).to_be_visible()
    page.keyboard.press("ArrowDown")
    expect(queue).to_be_focused()
    page.goto("/fleet")
    expect(page.get_by_role("application", name="Map of the fleet")).to_be_visible()
    expect(page.locator(".fleet-figure").filter(has_text="Nodes ready")).to_contain_text("6")
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("application", name="Map of the fleet")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_be_visible()


def test_fast_typing_loses_no_characters(page: Page) -> None:
    page.goto("/workloads")
    box = page.get_by_role("main").get_by_role("searchbox")
    expect(page.get_by_role("row", name=re.compile("alpha")).first).to_be_visible()
    box.focus()
    # More changes of the address than browsers accept at once, and each key before the page has
    # rendered the previous one.
    text = "".join(chr(ord("a") + at % 26) for at in range(300))
    page.keyboard.type(text)
    expect(box).to_have_value(text)
    expect(page).to_have_url(re.compile(f"[?&]q={text}(&|$)"))


@pytest.mark.parametrize("name", ["alpha", "h100-2"])
def test_search_finds_objects_by_name(page: Page, name: str) -> None:
    page.goto("/queues")
    expect(page.get_by_role("heading", level=1, name="Queues")).to_be_visible()
    page.keyboard.press("Control+k")
    expect(page.get_by_role("dialog").get_by_role("combobox")).to_be_focused()
    page.keyboard.type(name)
    expect(page.get_by_role("option", name=re.compile(name)).first).to_be_visible()
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog", name=re.compile(name))).to_be_visible()
