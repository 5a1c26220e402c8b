"""Browser fixtures: a browser per module, a profile per test, and a cluster with a console."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from tests.cli.command import Kilonova
from tests.e2e.browser.console_cluster import SMALL_FLEET, ConsoleCluster, start_cluster
from tests.harness.browser import TIMEOUT_MS, PageErrors, launch_chromium
from tools.realparts.parts.chromium import MISSING_CHROMIUM_MESSAGE, find_command


@pytest.fixture(scope="session")
def chromium_command() -> object:
    """The system's Chromium."""
    found = find_command()
    if found is None:
        pytest.skip(MISSING_CHROMIUM_MESSAGE)
    return found


@pytest.fixture(scope="module")
def command(
    chromium_command: object, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Kilonova]:
    """The command with its own home directory; its clusters are stopped after the module."""
    kilonova = Kilonova(tmp_path_factory.mktemp("home"))
    yield kilonova
    kilonova.stop_all()


@pytest.fixture(scope="module")
def browser(command: Kilonova) -> Iterator[Browser]:
    """One per module: playwright runs an event loop in this thread, so async tests cannot.

    Depends on `command`, whose teardown needs an event loop of its own and so has to run last.
    """
    with launch_chromium() as started:
        yield started


@pytest.fixture(scope="module")
def console_cluster(command: Kilonova, kubectl_path: Path) -> ConsoleCluster:
    """A small cluster with operator and scheduler; its console is read-only, the default."""
    return start_cluster(command, kubectl_path, SMALL_FLEET)


@pytest.fixture
def browser_errors() -> Iterator[PageErrors]:
    """Errors of the page; a test fails if any are left at its end."""
    browser_errors = PageErrors()
    yield browser_errors
    assert browser_errors.take_all() == []


@pytest.fixture
def page(
    browser: Browser, console_cluster: ConsoleCluster, browser_errors: PageErrors
) -> Iterator[Page]:
    """An empty page in a profile authenticated by the link of `kilonova status`."""
    with browser.new_context(
        base_url=console_cluster.address, viewport={"width": 1280, "height": 800}
    ) as context:
        context.set_default_timeout(TIMEOUT_MS)
        # Sets the cookie as opening the link does, without rendering a page.
        assert context.request.get(console_cluster.link).ok
        page = context.new_page()
        browser_errors.listen(page)
        yield page
