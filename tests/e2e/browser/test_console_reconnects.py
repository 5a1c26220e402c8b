"""The console's page outlives its server: it says that it is cut off, and comes back by itself."""

import os
import signal
from pathlib import Path
from urllib.parse import urlsplit

from playwright.sync_api import Page, expect

from tests.cli.command import Kilonova
from tests.e2e.browser.place import SMALL_FLEET, Place, gang, start
from tests.harness.browser import Complaints


def test_it_shows_what_changed_while_it_was_cut_off(
    page: Page, place: Place, complaints: Complaints, command: Kilonova, kubectl_path: Path
) -> None:
    place.apply(gang("before", replicas=1, gpus=1))
    page.goto("/workloads")
    expect(page.get_by_text("before").first).to_be_visible()
    os.kill(command.status(place.data)["pid"], signal.SIGKILL)
    lost = page.get_by_role("status").filter(has_text="Connection lost")
    expect(lost).to_be_visible()
    expect(page.get_by_text("before").first).to_be_visible()
    port = str(urlsplit(place.link).port)
    again = start(command, kubectl_path, SMALL_FLEET, "--console-port", port)
    assert again.link == place.link
    again.run("delete pcs before")
    again.apply(gang("since", replicas=1, gpus=1))
    expect(page.get_by_text("since").first).to_be_visible()
    expect(page.get_by_text("before")).to_have_count(0)
    expect(lost).to_have_count(0)
    # The browser itself writes down each try that failed; nothing else may have gone wrong.
    assert [line for line in complaints.take() if "net::ERR_" not in line] == []
