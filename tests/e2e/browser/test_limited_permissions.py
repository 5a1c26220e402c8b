"""A console whose service account may read nodes and pods only shows those and names the rest."""

import os
import re
import signal
from collections.abc import Iterator
from dataclasses import replace
from typing import Literal

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.conftest import Api
from tests.console.limited_account import NODES, OTHERS, PODS, LimitedAccount
from tests.e2e.browser.console_cluster import ConsoleCluster
from tests.harness.access import ServerAccess
from tests.harness.accessibility import (
    find_low_contrast_text,
    find_overflowing_elements,
    find_repeated_ids,
    find_unnamed_controls,
)
from tests.harness.server_process import ServerProcess
from tests.workloads.process.operator_process import write_token_kubeconfig

LINK = re.compile(r"The console is at (http://\S+)\n")
FORBIDDEN_NOTICES = {
    "workloads": (
        "Not authorized to read podcliquesets, podgangs, podcliques, deployments, statefulsets "
        "and jobs."
    ),
    "queues": "Not authorized to read queues and podgangs.",
    "events": "Not authorized to read events.",
}
QUEUE = {
    "apiVersion": "scheduling.kilonova.dev/v1alpha1",
    "kind": "Queue",
    "metadata": {"name": "research"},
    "spec": {},
}
SINGLE_POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "lone"},
    "spec": {"containers": [{"name": "main", "image": "registry.example.com/worker"}]},
}


@pytest.fixture(scope="module")
def viewer(console_cluster: ConsoleCluster) -> LimitedAccount:
    access = ServerAccess.from_kubeconfig(
        console_cluster.data / "kubeconfig", console_cluster.kilonova.home / "access"
    )
    viewer = LimitedAccount.create(Api("embedded", access, "default"))
    viewer.grant(NODES, PODS)
    return viewer


@pytest.fixture(scope="module")
def limited_cluster(
    console_cluster: ConsoleCluster, viewer: LimitedAccount
) -> Iterator[ConsoleCluster]:
    """The same cluster, with `kilonova run console` under the limited account."""
    console_cluster.apply(QUEUE, SINGLE_POD)
    home = console_cluster.kilonova.home
    kubeconfig = write_token_kubeconfig(
        viewer.account.api.access, home / "limited", viewer.account.request_token()
    )
    arguments = ("run", "console", "--kubeconfig", kubeconfig, "--port", "0", "--health-port", "0")
    log = home / "console.log"
    process = ServerProcess(
        "console",
        console_cluster.kilonova.command(*arguments),
        log,
        console_cluster.kilonova.environment(),
    )
    try:
        process.wait_until(lambda: LINK.search(log.read_text()) is not None)
        (link,) = LINK.findall(log.read_text())
        yield replace(console_cluster, link=link)
    finally:
        process.stop(grace=20)


@pytest.fixture
def limited_page(page: Page, limited_cluster: ConsoleCluster) -> Page:
    """A page of that console, at /nodes."""
    page.goto(limited_cluster.link)
    page.goto(f"{limited_cluster.address}/nodes")
    expect(page.get_by_role("row", name=re.compile("h100-0"))).to_be_visible()
    return page


def notice(page: Page) -> Locator:
    return page.get_by_role("status").filter(has_text="Not authorized")


def open_page(page: Page, name: str) -> None:
    link = page.get_by_role("navigation", name="Pages").get_by_role("link", name=name.title())
    link.click()
    expect(page.get_by_role("heading", level=1, name=name.title())).to_be_visible()


def test_pages_name_forbidden_tables_and_show_the_rest(limited_page: Page) -> None:
    expect(notice(limited_page)).to_have_count(0)
    expect(limited_page.get_by_role("navigation").get_by_text("Partly live")).to_be_visible()
    for name, text in FORBIDDEN_NOTICES.items():
        open_page(limited_page, name)
        expect(notice(limited_page)).to_contain_text(text)
        expect(limited_page.get_by_role("main")).not_to_contain_text("Loading")
    expect(limited_page.get_by_text("Events cannot be read")).to_be_visible()
    limited_page.get_by_text("Error messages").click()
    user = 'User "system:serviceaccount:default:viewer" cannot watch resource "events"'
    expect(limited_page.get_by_text(user)).to_be_visible()
    open_page(limited_page, "workloads")
    expect(limited_page.get_by_role("row", name=re.compile("lone"))).to_be_visible()
    open_page(limited_page, "fleet")
    expect(limited_page.get_by_role("application")).to_be_visible()
    expect(notice(limited_page)).to_have_count(0)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_permission_notices_are_accessible(
    limited_page: Page, theme: Literal["light", "dark"]
) -> None:
    limited_page.emulate_media(color_scheme=theme)
    for width in (1280, 390):
        limited_page.set_viewport_size({"width": width, "height": 844})
        for name, text in FORBIDDEN_NOTICES.items():
            open_page(limited_page, name)
            expect(notice(limited_page)).to_contain_text(text)
            limited_page.get_by_text("Error messages").click()
            assert find_low_contrast_text(limited_page) == [], name
            assert find_overflowing_elements(limited_page) == [], name
            assert find_unnamed_controls(limited_page) == []
            assert find_repeated_ids(limited_page) == []


def test_permission_granted_later_fills_the_page(
    limited_page: Page, viewer: LimitedAccount
) -> None:
    open_page(limited_page, "queues")
    expect(notice(limited_page)).to_be_visible()
    viewer.grant(*OTHERS)
    expect(limited_page.get_by_role("row", name=re.compile("research"))).to_be_visible()
    expect(notice(limited_page)).to_have_count(0)
    expect(limited_page.get_by_role("navigation").get_by_text("Live", exact=True)).to_be_visible()


def test_unreachable_cluster_is_reported_and_rows_stay(
    limited_page: Page, console_cluster: ConsoleCluster
) -> None:
    os.kill(console_cluster.kilonova.status(console_cluster.data)["pid"], signal.SIGKILL)
    unreachable = limited_page.get_by_role("status").filter(
        has_text="The API server is unreachable"
    )
    expect(unreachable).to_contain_text(re.compile(r"The page shows nodes and pods as of \d"))
    expect(limited_page.get_by_role("navigation").get_by_text("Not live")).to_be_visible()
    expect(limited_page.get_by_role("row", name=re.compile("h100-0"))).to_be_visible()
