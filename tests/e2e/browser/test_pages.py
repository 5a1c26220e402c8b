"""Every page of the console loads without errors and is accessible; the link is required."""

import json
import re
from typing import Literal

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.e2e.browser.console_cluster import ConsoleCluster, gang
from tests.harness.accessibility import (
    find_low_contrast_text,
    find_overflowing_elements,
    find_repeated_ids,
    find_unnamed_controls,
)
from tests.harness.browser import PageErrors

PAGES = ("fleet", "workloads", "queues", "nodes", "events")
WIDTHS = (1280, 390)


@pytest.fixture(scope="module")
def console_cluster(console_cluster: ConsoleCluster) -> ConsoleCluster:
    """A gang runs on three of four GPU nodes, and another needs two."""
    console_cluster.apply(gang("runs", replicas=3, gpus=8))
    console_cluster.wait_running("runs-0")
    console_cluster.apply(gang("waits", replicas=2, gpus=8))
    console_cluster.wait_unschedulable("waits-0")
    console_cluster.wait_queue_status("default", "pendingGangs", "1")
    return console_cluster


@pytest.mark.parametrize("name", PAGES)
def test_page_is_accessible(page: Page, name: str) -> None:
    open_page(page, name)
    expect(page.get_by_role("main")).to_have_count(1)
    expect(page.get_by_role("navigation", name="Pages")).to_be_visible()
    current = page.get_by_role("navigation", name="Pages").locator("[aria-current=page]")
    expect(current).to_have_text(name.title())
    assert page.title().startswith(name.title())
    assert find_unnamed_controls(page) == []
    assert find_repeated_ids(page) == []


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize(("name", "row"), [("workloads", "waits"), ("nodes", "h100-0")])
def test_details_are_accessible(
    page: Page, name: str, row: str, theme: Literal["light", "dark"]
) -> None:
    page.emulate_media(color_scheme=theme)
    open_page(page, name)
    page.get_by_role("row", name=re.compile(row)).first.click()
    expect(page.get_by_role("dialog", name=re.compile(row))).to_be_visible()
    assert find_unnamed_controls(page) == []
    assert find_repeated_ids(page) == []
    assert find_low_contrast_text(page) == []
    page.set_viewport_size({"width": 390, "height": 844})
    expect(page.get_by_role("dialog", name=re.compile(row))).to_be_in_viewport()
    assert find_overflowing_elements(page) == []


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_all_text_is_readable(page: Page, theme: Literal["light", "dark"]) -> None:
    page.emulate_media(color_scheme=theme)
    for name in PAGES:
        open_page(page, name)
        assert find_low_contrast_text(page) == [], name
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert is_dark(page, background) == (theme == "dark")


@pytest.mark.parametrize("width", WIDTHS)
def test_no_page_scrolls_horizontally(page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 844})
    for name in PAGES:
        open_page(page, name)
        assert find_overflowing_elements(page) == [], name


def test_navigation_links_to_every_page(page: Page) -> None:
    open_page(page, PAGES[0])
    for name in PAGES:
        page.get_by_role("navigation", name="Pages").get_by_role("link", name=name.title()).click()
        expect(page).to_have_url(re.compile(f"/{name}$"))
        expect(page.get_by_role("heading", level=1, name=name.title())).to_be_visible()


def test_title_names_the_page_and_the_cluster(page: Page) -> None:
    open_page(page, "nodes")
    expect(page).to_have_title("Nodes · kilonova")
    page.get_by_role("navigation", name="Pages").get_by_role("link", name="Events").click()
    expect(page).to_have_title("Events · kilonova")


def test_undecodable_address_is_shown_verbatim(page: Page) -> None:
    for name in ("workloads", "queues"):
        page.goto(f"/{name}/%zz")
        expect(page.get_by_role("heading", level=1, name=name.title())).to_be_visible()
    expect(page.get_by_role("dialog", name="%zz")).to_be_visible()


@pytest.mark.parametrize("path", ["/none", "/nodes/h100-0"])
def test_unknown_address_is_not_found(page: Page, browser_errors: PageErrors, path: str) -> None:
    response = page.goto(path)
    assert response is not None
    assert response.status == 404
    expect(page.get_by_role("heading", level=1, name="Not found")).to_be_visible()
    expect(page.get_by_text(f"There is no page at {path}")).to_be_visible()
    expect(page).to_have_title("Not found · kilonova")
    assert find_low_contrast_text(page) == []
    page.get_by_role("main").get_by_role("link", name="/nodes").click()
    expect(page.get_by_role("heading", level=1, name="Nodes")).to_be_visible()
    # Only the browser's own message about the status is expected.
    assert all("404" in each for each in browser_errors.take_all())


def test_default_queue_matches_the_command(page: Page, console_cluster: ConsoleCluster) -> None:
    assert console_cluster.run_kubectl("get queues -o name").split() == [
        "queue.scheduling.kilonova.dev/default"
    ]
    done = console_cluster.kilonova("queues", "-o", "json", "--data", console_cluster.data)
    (default_queue,) = json.loads(done.out)
    assert default_queue["name"] == "default"
    open_page(page, "queues")
    row = page.get_by_role("row", name=re.compile("default"))
    cells = row.get_by_role("cell")
    expect(cells.nth(2)).to_have_text(str(default_queue["used"]["nvidia.com/gpu"]))
    expect(cells.last).to_have_text(str(default_queue["pendingGangs"]))
    requested = default_queue["requested"]["nvidia.com/gpu"]
    expect(row.get_by_role("img", name=re.compile(f"requests {requested}"))).to_be_visible()
    row.click()
    details = page.get_by_role("dialog", name="default")
    expect(details.get_by_role("row", name=re.compile("GPU"))).to_contain_text(str(requested))


def test_no_actions_unless_allowed(page: Page, console_cluster: ConsoleCluster) -> None:
    for name, row in (("workloads", "runs"), ("nodes", "h100-0")):
        open_page(page, name)
        page.get_by_role("row", name=re.compile(row)).first.click()
        details = page.get_by_role("dialog", name=re.compile(row))
        expect(details).to_be_visible()
        actions = re.compile("^(Scale|Cordon|Uncordon|Drain|Delete)")
        expect(details.get_by_role("button", name=actions)).to_have_count(0)
    response = page.request.post(
        "/api/actions", data={"action": "cordon", "table": "nodes", "id": "h100-0"}
    )
    assert response.status == 403
    assert "--allow-actions" in response.json()["message"]
    assert console_cluster.run_kubectl("get node h100-0 -o jsonpath={.spec.unschedulable}") == ""


def test_token_is_removed_from_the_address(page: Page, console_cluster: ConsoleCluster) -> None:
    assert "token=" in console_cluster.link
    page.goto(console_cluster.link)
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    assert "token" not in page.url
    page.reload()
    expect(page.get_by_role("heading", level=1)).to_be_visible()


def test_page_without_token_explains_where_the_link_is(
    browser: Browser, console_cluster: ConsoleCluster
) -> None:
    with browser.new_context(base_url=console_cluster.address) as context:
        page = context.new_page()
        for path in ("/", "/workloads", "/?token=wrong"):
            response = page.goto(path)
            assert response is not None
            assert response.status == 401
            expect(page.get_by_text("kilonova status")).to_be_visible()
        assert page.request.get("/api/stream").status == 401


def open_page(page: Page, name: str) -> None:
    """Open a page, and wait until it is loaded."""
    page.goto(f"/{name}")
    expect(page.get_by_role("heading", level=1, name=name.title())).to_be_visible()
    expect(page.get_by_role("status").filter(has_text=re.compile("onnect|loading"))).to_have_count(
        0
    )


def is_dark(page: Page, colour: str) -> bool:
    red, green, blue = map(int, re.findall(r"\d+", colour)[:3])
    return red + green + blue < 3 * 128
