"""Every page of the console loads without complaint, for everybody who has the link."""

import json
import re
from typing import Literal

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.e2e.browser.place import Place, gang
from tests.harness.audit import faint_text, nameless, repeated_ids, too_wide
from tests.harness.browser import Complaints

PAGES = ("fleet", "workloads", "queues", "nodes", "events")
WIDTHS = (1280, 390)


@pytest.fixture(scope="module")
def place(place: Place) -> Place:
    """With something to see: a gang runs on three of four GPU nodes, and another wants two."""
    place.apply(gang("runs", replicas=3, gpus=8))
    place.until_running("runs-0")
    place.apply(gang("waits", replicas=2, gpus=8))
    place.until_refused("waits-0")
    return place


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_usable_by_everybody(page: Page, name: str) -> None:
    open_page(page, name)
    expect(page.get_by_role("main")).to_have_count(1)
    expect(page.get_by_role("navigation", name="Pages")).to_be_visible()
    current = page.get_by_role("navigation", name="Pages").locator("[aria-current=page]")
    expect(current).to_have_text(name.title())
    assert page.title().startswith(name.title())
    assert nameless(page) == []
    assert repeated_ids(page) == []


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize(("name", "row"), [("workloads", "waits"), ("nodes", "h100-0")])
def test_details_are_usable_by_everybody(
    page: Page, name: str, row: str, theme: Literal["light", "dark"]
) -> None:
    page.emulate_media(color_scheme=theme)
    open_page(page, name)
    page.get_by_role("row", name=re.compile(row)).first.click()
    expect(page.get_by_role("dialog", name=re.compile(row))).to_be_visible()
    assert nameless(page) == []
    assert repeated_ids(page) == []
    assert faint_text(page) == []
    page.set_viewport_size({"width": 390, "height": 844})
    expect(page.get_by_role("dialog", name=re.compile(row))).to_be_in_viewport()
    assert too_wide(page) == []


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_all_text_is_readable(page: Page, theme: Literal["light", "dark"]) -> None:
    page.emulate_media(color_scheme=theme)
    for name in PAGES:
        open_page(page, name)
        assert faint_text(page) == [], name
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert is_dark(page, ground) == (theme == "dark")


@pytest.mark.parametrize("width", WIDTHS)
def test_no_page_scrolls_to_the_side(page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 844})
    for name in PAGES:
        open_page(page, name)
        assert too_wide(page) == [], name


def test_the_navigation_leads_to_every_page(page: Page) -> None:
    open_page(page, PAGES[0])
    for name in PAGES:
        page.get_by_role("navigation", name="Pages").get_by_role("link", name=name.title()).click()
        expect(page).to_have_url(re.compile(f"/{name}$"))
        expect(page.get_by_role("heading", level=1, name=name.title())).to_be_visible()


def test_the_title_names_the_page_and_the_cluster(page: Page) -> None:
    open_page(page, "nodes")
    expect(page).to_have_title("Nodes · kilonova")
    page.get_by_role("navigation", name="Pages").get_by_role("link", name="Events").click()
    expect(page).to_have_title("Events · kilonova")


def test_an_address_that_cannot_be_decoded_is_shown_as_it_stands(page: Page) -> None:
    for name in ("workloads", "queues"):
        page.goto(f"/{name}/%zz")
        expect(page.get_by_role("heading", level=1, name=name.title())).to_be_visible()
    expect(page.get_by_role("dialog", name="%zz")).to_be_visible()


@pytest.mark.parametrize("path", ["/none", "/nodes/h100-0"])
def test_an_address_that_no_page_has_is_not_found(
    page: Page, complaints: Complaints, path: str
) -> None:
    answer = page.goto(path)
    assert answer is not None
    assert answer.status == 404
    expect(page.get_by_role("heading", level=1, name="Not found")).to_be_visible()
    expect(page.get_by_text(f"There is no page at {path}")).to_be_visible()
    expect(page).to_have_title("Not found · kilonova")
    assert faint_text(page) == []
    page.get_by_role("main").get_by_role("link", name="/nodes").click()
    expect(page.get_by_role("heading", level=1, name="Nodes")).to_be_visible()
    # What the browser itself says of the status is all there is to complain of.
    assert all("404" in each for each in complaints.take())


def test_the_usual_queue_is_shown_as_the_command_shows_it(page: Page, place: Place) -> None:
    assert place.run("get queues -o name") == ""
    done = place.kilonova("queues", "-o", "json", "--data", place.data)
    (told,) = json.loads(done.out)
    assert told["name"] == "default"
    open_page(page, "queues")
    row = page.get_by_role("row", name=re.compile("default"))
    cells = row.get_by_role("cell")
    expect(cells.nth(2)).to_have_text(str(told["used"]["nvidia.com/gpu"]))
    expect(cells.last).to_have_text(str(told["pendingGangs"]))
    asked = told["requested"]["nvidia.com/gpu"]
    expect(row.get_by_role("img", name=re.compile(f"asks for {asked}"))).to_be_visible()
    row.click()
    details = page.get_by_role("dialog", name="default")
    expect(details.get_by_role("row", name=re.compile("GPU"))).to_contain_text(str(asked))


def test_nothing_can_be_done_unless_it_was_allowed(page: Page, place: Place) -> None:
    for name, row in (("workloads", "runs"), ("nodes", "h100-0")):
        open_page(page, name)
        page.get_by_role("row", name=re.compile(row)).first.click()
        details = page.get_by_role("dialog", name=re.compile(row))
        expect(details).to_be_visible()
        acts = re.compile("^(Scale|Cordon|Uncordon|Drain|Delete)")
        expect(details.get_by_role("button", name=acts)).to_have_count(0)
    answer = page.request.post(
        "/api/actions", data={"act": "cordon", "table": "nodes", "id": "h100-0"}
    )
    assert answer.status == 403
    assert "--allow-actions" in answer.json()["message"]
    assert place.run("get node h100-0 -o jsonpath={.spec.unschedulable}") == ""


def test_the_address_keeps_no_token(page: Page, place: Place) -> None:
    assert "token=" in place.link
    page.goto(place.link)
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    assert "token" not in page.url
    page.reload()
    expect(page.get_by_role("heading", level=1)).to_be_visible()


def test_without_the_token_it_says_where_the_link_is(browser: Browser, place: Place) -> None:
    with browser.new_context(base_url=place.address) as stranger:
        page = stranger.new_page()
        for path in ("/", "/workloads", "/?token=wrong"):
            answer = page.goto(path)
            assert answer is not None
            assert answer.status == 401
            expect(page.get_by_text("kilonova status")).to_be_visible()
        assert page.request.get("/api/stream").status == 401


def open_page(page: Page, name: str) -> None:
    """Go to a page, and wait until it shows what there is."""
    page.goto(f"/{name}")
    expect(page.get_by_role("heading", level=1, name=name.title())).to_be_visible()
    expect(page.get_by_role("status").filter(has_text=re.compile("onnect|reading"))).to_have_count(
        0
    )


def is_dark(page: Page, colour: str) -> bool:
    red, green, blue = map(int, re.findall(r"\d+", colour)[:3])
    return red + green + blue < 3 * 128
