"""A console whose account may read nodes and pods only: it says so, and shows what it may."""

import os
import re
import signal
from collections.abc import Iterator
from dataclasses import replace
from typing import Literal

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.conftest import Api
from tests.console.fewrights import NODES, OTHERS, PODS, Viewer
from tests.e2e.browser.place import Place
from tests.harness.access import Access
from tests.harness.audit import faint_text, nameless, repeated_ids, too_wide
from tests.harness.process import ServerProcess
from tests.workloads.process.operator_process import token_kubeconfig

LINK = re.compile(r"The console is at (http://\S+)\n")
REFUSED = {
    "workloads": (
        "No right to read podcliquesets, podgangs, podcliques, deployments, statefulsets and jobs."
    ),
    "queues": "No right to read queues and podgangs.",
    "events": "No right to read events.",
}
QUEUE = {
    "apiVersion": "scheduling.kilonova.dev/v1alpha1",
    "kind": "Queue",
    "metadata": {"name": "research"},
    "spec": {},
}
LONE_POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "lone"},
    "spec": {"containers": [{"name": "main", "image": "registry.example.com/worker"}]},
}


@pytest.fixture(scope="module")
def viewer(place: Place) -> Viewer:
    access = Access.from_kubeconfig(place.data / "kubeconfig", place.kilonova.home / "access")
    viewer = Viewer.create(Api("embedded", access, "default"))
    viewer.grant(NODES, PODS)
    return viewer


@pytest.fixture(scope="module")
def limited(place: Place, viewer: Viewer) -> Iterator[Place]:
    """The same cluster, looked at by `kilonova run console` with the rights of the viewer."""
    place.apply(QUEUE, LONE_POD)
    home = place.kilonova.home
    kubeconfig = token_kubeconfig(viewer.account.api.access, home / "few", viewer.account.token())
    words = ("run", "console", "--kubeconfig", kubeconfig, "--port", "0", "--health-port", "0")
    log = home / "console.log"
    process = ServerProcess(
        "console", place.kilonova.command(*words), log, place.kilonova.environment()
    )
    try:
        process.wait_until(lambda: LINK.search(log.read_text()) is not None)
        (link,) = LINK.findall(log.read_text())
        yield replace(place, link=link)
    finally:
        process.stop(grace=20)


@pytest.fixture
def few(page: Page, limited: Place) -> Page:
    """A page of that console, at /nodes."""
    page.goto(limited.link)
    page.goto(f"{limited.address}/nodes")
    expect(page.get_by_role("row", name=re.compile("h100-0"))).to_be_visible()
    return page


def notice(page: Page) -> Locator:
    return page.get_by_role("status").filter(has_text="No right")


def open_page(page: Page, name: str) -> None:
    link = page.get_by_role("navigation", name="Pages").get_by_role("link", name=name.title())
    link.click()
    expect(page.get_by_role("heading", level=1, name=name.title())).to_be_visible()


def test_pages_say_what_they_may_not_show_and_show_the_rest(few: Page) -> None:
    expect(notice(few)).to_have_count(0)
    expect(few.get_by_role("navigation").get_by_text("Partly live")).to_be_visible()
    for name, words in REFUSED.items():
        open_page(few, name)
        expect(notice(few)).to_contain_text(words)
        expect(few.get_by_role("main")).not_to_contain_text("Reading the cluster")
    expect(few.get_by_text("Events cannot be read")).to_be_visible()
    few.get_by_text("The exact words").click()
    user = 'User "system:serviceaccount:default:viewer" cannot watch resource "events"'
    expect(few.get_by_text(user)).to_be_visible()
    open_page(few, "workloads")
    expect(few.get_by_role("row", name=re.compile("lone"))).to_be_visible()
    open_page(few, "fleet")
    expect(few.get_by_role("application")).to_be_visible()
    expect(notice(few)).to_have_count(0)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_what_is_said_is_for_everybody(few: Page, theme: Literal["light", "dark"]) -> None:
    few.emulate_media(color_scheme=theme)
    for width in (1280, 390):
        few.set_viewport_size({"width": width, "height": 844})
        for name, words in REFUSED.items():
            open_page(few, name)
            expect(notice(few)).to_contain_text(words)
            few.get_by_text("The exact words").click()
            assert faint_text(few) == [], name
            assert too_wide(few) == [], name
            assert nameless(few) == []
            assert repeated_ids(few) == []


def test_a_right_that_comes_later_fills_the_page(few: Page, viewer: Viewer) -> None:
    open_page(few, "queues")
    expect(notice(few)).to_be_visible()
    viewer.grant(*OTHERS)
    expect(few.get_by_role("row", name=re.compile("research"))).to_be_visible()
    expect(notice(few)).to_have_count(0)
    expect(few.get_by_role("navigation").get_by_text("Live", exact=True)).to_be_visible()


def test_a_cluster_that_goes_away_is_told_and_what_was_seen_stays(few: Page, place: Place) -> None:
    os.kill(place.kilonova.status(place.data)["pid"], signal.SIGKILL)
    away = few.get_by_role("status").filter(has_text="The cluster does not answer")
    expect(away).to_contain_text(re.compile(r"What you see of nodes and pods is as it was at \d"))
    expect(few.get_by_role("navigation").get_by_text("Not live")).to_be_visible()
    expect(few.get_by_role("row", name=re.compile("h100-0"))).to_be_visible()
