"""What the console shows follows what kubectl does, in the words of the commands."""

import re
import statistics
import time

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.browser.place import Place, gang

# Tells when a text first stood in the page, by the clock that the test has too.
_WATCH_FOR = """
(wanted) => {
  window.appeared = new Promise((resolve) => {
    const look = () => document.body.textContent.includes(wanted) && resolve(Date.now());
    new MutationObserver(look).observe(document.body, {
      subtree: true, childList: true, characterData: true });
    look();
  });
}
"""


@pytest.fixture(scope="module")
def place(place: Place) -> Place:
    """Every GPU node but one is taken, and a gang wants two."""
    place.apply(gang("runs", replicas=3, gpus=8))
    place.until_running("runs-0")
    place.apply(gang("waits", replicas=2, gpus=8))
    place.until_refused("waits-0")
    return place


def test_a_change_is_shown_within_a_second(page: Page, place: Place) -> None:
    """One late change may be the fault of a busy machine, so the middle of five counts: a page
    that asked now and then, or was told late, would be late most of the time."""
    page.goto("/workloads")
    expect(page.get_by_text("runs").first).to_be_visible()
    delays: list[float] = []
    for number in range(5):
        name = f"fresh-{number}"
        page.evaluate(_WATCH_FOR, name)
        place.apply(gang(name, replicas=1, gpus=0))
        done = time.time()
        expect(page.get_by_text(name).first).to_be_visible()
        delays.append(page.evaluate("window.appeared") / 1000 - done)
    assert statistics.median(delays) <= 1, delays
    place.run("delete pcs --wait=false " + " ".join(f"fresh-{number}" for number in range(5)))
    expect(page.get_by_text("fresh-")).to_have_count(0)


def test_why_something_waits_is_told_as_the_command_tells_it(page: Page, place: Place) -> None:
    page.goto("/workloads")
    page.get_by_role("row", name=re.compile("waits")).first.click()
    details = page.get_by_role("dialog", name=re.compile("waits"))
    told = place.why("waits-0")
    reason = "needs room for 2 pods and there is room for 1"
    assert reason in told
    expect(details.get_by_text(reason).first).to_be_visible()
    details.get_by_text("As text").click()
    shown = details.get_by_text(told.splitlines()[0]).inner_text()
    assert without_times(shown) == without_times(told)


def test_a_gang_that_gets_its_place_no_longer_waits(page: Page, place: Place) -> None:
    place.apply(gang("patient", replicas=4, gpus=8))
    place.until_refused("patient-0")
    page.goto("/workloads")
    page.get_by_role("row", name=re.compile("patient")).first.click()
    details = page.get_by_role("dialog", name=re.compile("patient"))
    expect(details.get_by_role("heading", name="Why it waits")).to_be_visible()
    place.run("delete pcs runs waits --wait=false")
    expect(details.get_by_role("heading", name="Why it waits")).to_have_count(0)
    place.until_running("patient-0")
    expect(details).to_contain_text("Running")


def test_a_node_that_kubectl_cordons_is_shown_so(page: Page, place: Place) -> None:
    page.goto("/nodes")
    row = page.get_by_role("row", name=re.compile("cpu-0"))
    expect(row).to_be_visible()
    expect(row).not_to_contain_text(re.compile("cordoned", re.IGNORECASE))
    place.run("cordon cpu-0")
    expect(row).to_contain_text(re.compile("cordoned", re.IGNORECASE))
    place.run("uncordon cpu-0")
    expect(row).not_to_contain_text(re.compile("cordoned", re.IGNORECASE))


def without_times(told: str) -> list[str]:
    """The lines of an answer; when somebody should end moves on as time does."""
    return re.sub(r"\d{4}-\d\d-\d\dT[0-9:]+Z|\(in [^)]*\)", "then", told).splitlines()


def test_new_events_do_not_move_those_one_reads(page: Page, place: Place) -> None:
    page.set_viewport_size({"width": 1280, "height": 400})
    place.apply(*(event(number) for number in range(30)))
    page.goto("/events?q=Counted")
    grid = page.get_by_role("grid", name="Events")
    expect(grid.get_by_role("row", name=re.compile("Counted"))).not_to_have_count(0)
    expect(page.get_by_role("main").locator(".summary")).to_contain_text("30 of")
    read = grid.get_by_role("row", name=re.compile("number 14 "))
    page.locator(".table-box").evaluate("box => { box.scrollTop = 15 * 46 }")
    expect(read).to_be_in_viewport()
    before = read.bounding_box()
    place.apply(event(30), event(31), event(32))
    expect(page.get_by_role("main").locator(".summary")).to_contain_text("33 of")
    assert read.bounding_box() == before


def event(number: int) -> dict[str, object]:
    """One that happened `number` seconds after midnight."""
    at = f"2026-01-01T00:00:{number:02}Z"
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"counted.{number}", "namespace": "default"},
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": "somebody"},
        "type": "Normal",
        "reason": "Counted",
        "message": f"number {number} of many",
        "firstTimestamp": at,
        "lastTimestamp": at,
    }
