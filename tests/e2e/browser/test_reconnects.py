"""The page reports a lost connection, and reconnects when the server is back."""

import os
import signal
from pathlib import Path
from urllib.parse import urlsplit

from playwright.sync_api import Page, expect

from tests.cli.command import Kilonova
from tests.e2e.browser.console_cluster import SMALL_FLEET, ConsoleCluster, gang, start_cluster
from tests.harness.browser import PageErrors


def test_changes_during_a_lost_connection_are_shown_after_reconnect(
    page: Page,
    console_cluster: ConsoleCluster,
    browser_errors: PageErrors,
    command: Kilonova,
    kubectl_path: Path,
) -> None:
    console_cluster.apply(gang("before", replicas=1, gpus=1))
    page.goto("/workloads")
    expect(page.get_by_text("before").first).to_be_visible()
    os.kill(command.status(console_cluster.data)["pid"], signal.SIGKILL)
    lost = page.get_by_role("status").filter(has_text="Connection lost")
    expect(lost).to_be_visible()
    expect(page.get_by_text("before").first).to_be_visible()
    port = str(urlsplit(console_cluster.link).port)
    restarted = start_cluster(command, kubectl_path, SMALL_FLEET, "--console-port", port)
    assert restarted.link == console_cluster.link
    restarted.run_kubectl("delete pcs before")
    restarted.apply(gang("since", replicas=1, gpus=1))
    expect(page.get_by_text("since").first).to_be_visible()
    expect(page.get_by_text("before")).to_have_count(0)
    expect(lost).to_have_count(0)
    # The browser logs each failed attempt; no other errors are expected.
    assert [line for line in browser_errors.take_all() if "net::ERR_" not in line] == []
