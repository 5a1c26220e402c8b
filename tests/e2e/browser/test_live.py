"""The console shows changes made by kubectl, and agrees with the commands."""

import re
import statistics
import time

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.browser.console_cluster import ConsoleCluster, gang

# Resolves with the time at which a text first appears in the page, by the test's clock.
_WATCH_FOR = """
(wanted) => {
  window.appeared = new Promise((resolve) => {
    const check = () => document.body.textContent.includes(wanted) && resolve(Date.now());
    new MutationObserver(check).observe(document.body, {
      subtree: true, childList: true, characterData: true });
    check();
  });
}
"""


@pytest.fixture(scope="module")
def console_cluster(console_cluster: ConsoleCluster) -> ConsoleCluster:
    """All GPU nodes but one are allocated, and a gang needs two."""
    console_cluster.apply(gang("runs", replicas=3, gpus=8))
    console_cluster.wait_running("runs-0")
    console_cluster.apply(gang("waits", replicas=2, gpus=8))
    console_cluster.wait_unschedulable("waits-0")
    return console_cluster


def test_change_is_shown_within_a_second(page: Page, console_cluster: ConsoleCluster) -> None:
    """A busy machine may delay one change, so the median of five counts: a page that polled would
    be late most of the time."""
    page.goto("/workloads")
    expect(page.get_by_text("runs").first).to_be_visible()
    delays: list[float] = []
    for number in range(5):
        name = f"fresh-{number}"
        page.evaluate(_WATCH_FOR, name)
        console_cluster.apply(gang(name, replicas=1, gpus=0))
        done = time.time()
        expect(page.get_by_text(name).first).to_be_visible()
        delays.append(page.evaluate("window.appeared") / 1000 - done)
    assert statistics.median(delays) <= 1, delays
    console_cluster.run_kubectl(
        "delete pcs --wait=false " + " ".join(f"fresh-{number}" for number in range(5))
    )
    expect(page.get_by_text("fresh-")).to_have_count(0)


def test_explanation_matches_the_why_command(page: Page, console_cluster: ConsoleCluster) -> None:
    page.goto("/workloads")
    page.get_by_role("row", name=re.compile("waits")).first.click()
    details = page.get_by_role("dialog", name=re.compile("waits"))
    answer = console_cluster.explain("waits-0")
    reason = "needs 2 pods, but only 1 fit"
    assert reason in answer
    expect(details.get_by_text(reason).first).to_be_visible()
    details.get_by_text("As text").click()
    shown = details.get_by_text(answer.splitlines()[0]).inner_text()
    assert without_times(shown) == without_times(answer)


def test_placed_gang_is_no_longer_waiting(page: Page, console_cluster: ConsoleCluster) -> None:
    console_cluster.apply(gang("patient", replicas=4, gpus=8))
    console_cluster.wait_unschedulable("patient-0")
    page.goto("/workloads")
    page.get_by_role("row", name=re.compile("patient")).first.click()
    details = page.get_by_role("dialog", name=re.compile("patient"))
    expect(details.get_by_role("heading", name="Why it is pending")).to_be_visible()
    console_cluster.run_kubectl("delete pcs runs waits --wait=false")
    expect(details.get_by_role("heading", name="Why it is pending")).to_have_count(0)
    console_cluster.wait_running("patient-0")
    expect(details).to_contain_text("Running")


def test_node_cordoned_by_kubectl_is_shown_as_cordoned(
    page: Page, console_cluster: ConsoleCluster
) -> None:
    page.goto("/nodes")
    row = page.get_by_role("row", name=re.compile("cpu-0"))
    expect(row).to_be_visible()
    expect(row).not_to_contain_text(re.compile("cordoned", re.IGNORECASE))
    console_cluster.run_kubectl("cordon cpu-0")
    expect(row).to_contain_text(re.compile("cordoned", re.IGNORECASE))
    console_cluster.run_kubectl("uncordon cpu-0")
    expect(row).not_to_contain_text(re.compile("cordoned", re.IGNORECASE))


def without_times(answer: str) -> list[str]:
    """The lines of an answer without expected times, which change as time passes."""
    return re.sub(r"\d{4}-\d\d-\d\dT[0-9:]+Z|\(in [^)]*\)", "then", answer).splitlines()


def test_new_events_do_not_move_visible_ones(page: Page, console_cluster: ConsoleCluster) -> None:
    page.set_viewport_size({"width": 1280, "height": 400})
    console_cluster.apply(*(event(number) for number in range(30)))
    page.goto("/events?q=Counted")
    grid = page.get_by_role("grid", name="Events")
    expect(grid.get_by_role("row", name=re.compile("Counted"))).not_to_have_count(0)
    expect(page.get_by_role("main").locator(".summary")).to_contain_text("30 of")
    read = grid.get_by_role("row", name=re.compile("number 14 "))
    page.locator(".table-box").evaluate("box => { box.scrollTop = 15 * 46 }")
    expect(read).to_be_in_viewport()
    before = read.bounding_box()
    console_cluster.apply(event(30), event(31), event(32))
    expect(page.get_by_role("main").locator(".summary")).to_contain_text("33 of")
    assert read.bounding_box() == before


def event(number: int) -> dict[str, object]:
    """An event `number` seconds after midnight."""
    at = f"2026-01-01T00:00:{number:02}Z"
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"counted.{number}", "namespace": "default"},
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": "worker"},
        "type": "Normal",
        "reason": "Counted",
        "message": f"number {number} of many",
        "firstTimestamp": at,
        "lastTimestamp": at,
    }
