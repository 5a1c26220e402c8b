"""Many tabs of one console: a browser has six connections for all of them together."""

import re

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.e2e.browser.place import Place, gang
from tests.harness.browser import Complaints

TABS = 7
# To a browser without windows every tab is in front; here one is where the test says so.
_CAN_BE_HIDDEN = """
let state = "visible";
Object.defineProperty(document, "visibilityState", { get: () => state });
window.becomes = (next) => {
  state = next;
  document.dispatchEvent(new Event("visibilitychange"));
};
"""
_NOTE_ALARMS = """
() => {
  window.alarms = [];
  new MutationObserver(() => {
    const said = document.querySelector(".banner-place").textContent;
    if (said) window.alarms.push(said);
  }).observe(document.body, { subtree: true, childList: true, characterData: true });
}
"""


@pytest.fixture
def window(page: Page) -> BrowserContext:
    """The profile of a page that came by the link, whose tabs can be hidden."""
    page.context.add_init_script(_CAN_BE_HIDDEN)
    page.close()
    return page.context


def new_tab(window: BrowserContext, complaints: Complaints) -> Page:
    """A tab in front of all others."""
    for other in window.pages:
        other.evaluate("becomes('hidden')")
    tab = window.new_page()
    complaints.listen(tab)
    return tab


def state_of(tab: Page, state: str) -> None:
    expect(tab.get_by_role("navigation", name="Pages").locator(".live")).to_contain_text(state)


def test_every_tab_gets_its_rows(
    window: BrowserContext, place: Place, complaints: Complaints
) -> None:
    place.apply(gang("early", replicas=1, gpus=0))
    for _ in range(TABS):
        tab = new_tab(window, complaints)
        tab.goto("/workloads")
        expect(tab.get_by_role("row", name=re.compile("early")).first).to_be_visible()
    for tab in window.pages[:-1]:
        state_of(tab, "Paused")


def test_a_tab_that_is_seen_again_has_what_changed_and_raises_no_alarm(
    window: BrowserContext, place: Place, complaints: Complaints
) -> None:
    place.apply(gang("before", replicas=1, gpus=0))
    first = new_tab(window, complaints)
    first.goto("/workloads")
    expect(first.get_by_role("row", name=re.compile("before")).first).to_be_visible()
    first.evaluate(_NOTE_ALARMS)
    new_tab(window, complaints).goto("/nodes")
    state_of(first, "Paused")
    place.apply(gang("meanwhile", replicas=1, gpus=0))
    place.run("delete pcs before")
    first.evaluate("becomes('visible')")
    expect(first.get_by_role("row", name=re.compile("meanwhile")).first).to_be_visible()
    expect(first.get_by_role("row", name=re.compile("before"))).to_have_count(0)
    state_of(first, "Live")
    assert first.evaluate("alarms") == []
