"""A browser for each file of tests, a fresh profile for each test, and clusters to look at."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from tests.cli.command import Kilonova
from tests.e2e.browser.place import SMALL_FLEET, Place, start
from tests.harness.browser import PATIENCE, Complaints, chromium
from tools.chromium.get import HOW_TO_GET, find


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kilonova]:
    """The command, with a home of its own; what it started ends after the last test."""
    if find() is None:
        pytest.skip(HOW_TO_GET)
    kilonova = Kilonova(tmp_path_factory.mktemp("home"))
    yield kilonova
    kilonova.end()


@pytest.fixture(scope="module")
def browser(command: Kilonova) -> Iterator[Browser]:
    """One for each file: while it is there, an event loop runs, and async tests could not.

    So it comes after the command, whose end wants a loop of its own.
    """
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def place(command: Kilonova, kubectl_path: Path) -> Place:
    """A small cluster with operator and scheduler, its console read-only as it is by default."""
    return start(command, kubectl_path, SMALL_FLEET)


@pytest.fixture
def complaints() -> Iterator[Complaints]:
    """What is wrong with the page; whatever a test leaves here fails it."""
    complaints = Complaints()
    yield complaints
    assert complaints.take() == []


@pytest.fixture
def page(browser: Browser, place: Place, complaints: Complaints) -> Iterator[Page]:
    """An empty page in a profile that came by the link of `kilonova status`."""
    with browser.new_context(
        base_url=place.address, viewport={"width": 1280, "height": 800}
    ) as context:
        context.set_default_timeout(PATIENCE)
        # As the browser does, without the time to show a page that the test leaves at once.
        assert context.request.get(place.link).ok
        page = context.new_page()
        complaints.listen(page)
        yield page
