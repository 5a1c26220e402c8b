"""Many tabs of one console share the browser's limit of six connections."""

import re

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.e2e.browser.console_cluster import ConsoleCluster, gang
from tests.harness.browser import PageErrors

TABS = 7
# In a headless browser every tab is visible; this lets a test hide one.
_HIDEABLE_TABS = """
let state = "visible";
Object.defineProperty(document, "visibilityState", { get: () => state });
window.setVisibility = (next) => {
  state = next;
  document.dispatchEvent(new Event("visibilitychange"));
};
"""
_RECORD_BANNERS = """
() => {
  window.banners = [];
  new MutationObserver(() => {
    const text = document.querySelector(".banner-place").textContent;
    if (text) window.banners.push(text);
  }).observe(document.body, { subtree: true, childList: true, characterData: true });
}
"""


@pytest.fixture
def context(page: Page) -> BrowserContext:
    """An authenticated profile whose tabs can be hidden."""
    page.context.add_init_script(_HIDEABLE_TABS)
    page.close()
    return page.context


def new_tab(context: BrowserContext, browser_errors: PageErrors) -> Page:
    """A new visible tab; all others are hidden."""
    for other in context.pages:
        other.evaluate("setVisibility('hidden')")
    tab = context.new_page()
    browser_errors.listen(tab)
    return tab


def expect_state(tab: Page, state: str) -> None:
    expect(tab.get_by_role("navigation", name="Pages").locator(".live")).to_contain_text(state)


def test_every_tab_gets_its_rows(
    context: BrowserContext, console_cluster: ConsoleCluster, browser_errors: PageErrors
) -> None:
    console_cluster.apply(gang("early", replicas=1, gpus=0))
    for _ in range(TABS):
        tab = new_tab(context, browser_errors)
        tab.goto("/workloads")
        expect(tab.get_by_role("row", name=re.compile("early")).first).to_be_visible()
    for tab in context.pages[:-1]:
        expect_state(tab, "Paused")


def test_tab_visible_again_shows_changes_without_a_banner(
    context: BrowserContext, console_cluster: ConsoleCluster, browser_errors: PageErrors
) -> None:
    console_cluster.apply(gang("before", replicas=1, gpus=0))
    first = new_tab(context, browser_errors)
    first.goto("/workloads")
    expect(first.get_by_role("row", name=re.compile("before")).first).to_be_visible()
    first.evaluate(_RECORD_BANNERS)
    new_tab(context, browser_errors).goto("/nodes")
    expect_state(first, "Paused")
    console_cluster.apply(gang("meanwhile", replicas=1, gpus=0))
    console_cluster.run_kubectl("delete pcs before")
    first.evaluate("setVisibility('visible')")
    expect(first.get_by_role("row", name=re.compile("meanwhile")).first).to_be_visible()
    expect(first.get_by_role("row", name=re.compile("before"))).to_have_count(0)
    expect_state(first, "Live")
    assert first.evaluate("banners") == []
