"""What the console shows follows what kubectl does, in the words of the commands."""

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
