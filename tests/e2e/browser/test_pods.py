"""The details of a pod: containers, restarts and logs."""

import re
from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.cli.command import Kilonova
from tests.e2e.browser.console_cluster import SMALL_FLEET, ConsoleCluster, start_cluster
from tests.harness.accessibility import (
    find_low_contrast_text,
    find_overflowing_elements,
    find_repeated_ids,
    find_unnamed_controls,
)

TICKS = "i=0; while :; do i=$((i+1)); echo tick $i; sleep 0.1; done"
ENDS = "echo run begun; exit 3"


@pytest.fixture(scope="module")
def console_cluster(command: Kilonova, kubectl_path: Path) -> ConsoleCluster:
    """Pods with logs on the process node: one of a Deployment, and one that exits repeatedly."""
    console_cluster = start_cluster(command, kubectl_path, SMALL_FLEET, "--process-node")
    labels = {"app": "writes"}
    template = {"metadata": {"labels": labels}, "spec": spec(main=TICKS, second="sleep 3600")}
    body = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    console_cluster.apply(
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "writes"}}
        | {"spec": body},
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "ends"}, "spec": spec(main=ENDS)},
    )
    console_cluster.run_kubectl("rollout status deployment/writes --timeout=60s")
    console_cluster.run_kubectl(
        "wait --for=jsonpath={.status.containerStatuses[0].restartCount}=2 pod/ends --timeout=60s"
    )
    return console_cluster


def spec(**commands: str) -> dict[str, Any]:
    """A pod spec for the process node."""
    return {
        "nodeSelector": {"kilonova.dev/node-kind": "process"},
        "containers": [
            {"name": name, "image": "shell", "command": ["sh", "-c", command]}
            for name, command in commands.items()
        ],
        "terminationGracePeriodSeconds": 0,
    }


def test_pod_shows_its_containers_and_follows_their_logs(
    page: Page, console_cluster: ConsoleCluster
) -> None:
    name = console_cluster.run_kubectl(
        "get pods -l app=writes -o jsonpath={.items[0].metadata.name}"
    )
    page.goto("/workloads/Deployment/default/writes")
    page.get_by_role("dialog", name="writes").get_by_role("link", name=name).click()
    details = page.get_by_role("dialog", name=name)
    for container in ("main", "second"):
        row = details.get_by_role("row", name=re.compile(f"^{container}"))
        expect(row).to_contain_text("Running")
        expect(row.get_by_role("cell").nth(2)).to_have_text("yes")
        expect(row.get_by_role("cell").last).to_have_text("0")
    log = details.get_by_role("log", name="Log of main")
    expect(log).to_contain_text("tick 1\n")
    tick = last_tick(log)
    expect(log).to_contain_text(f"tick {tick + 5}\n")
    expect(details.get_by_role("button", name="Previous run")).to_be_disabled()
    # A log that is not followed ends.
    details.get_by_role("button", name="Follow").click()
    expect(details.get_by_text("End of log")).to_be_visible()
    details.get_by_role("combobox", name="Container").select_option("second")
    expect(details.get_by_text("The log is empty")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog", name="writes", exact=True)).to_be_visible()


def last_tick(log: Locator) -> int:
    """The last number in the log."""
    return int(re.findall(r"tick (\d+)\n", log.inner_text() + "\n")[-1])


def test_terminated_container_offers_its_previous_log(page: Page) -> None:
    page.goto("/workloads/Pod/default/ends")
    details = page.get_by_role("dialog", name="ends")
    row = details.get_by_role("row", name=re.compile("^main"))
    expect(row).to_contain_text("Previous run: Error, exit code 3")
    expect(row.get_by_role("cell").last).to_have_text(re.compile("[2-9]"))
    details.get_by_role("button", name="Previous run").click()
    expect(details.get_by_role("log", name="Log of main")).to_contain_text("run begun")


def test_deleted_pod_shows_a_notice(page: Page) -> None:
    page.goto("/workloads/Deployment/default/writes?pod=default%2Fnone")
    details = page.get_by_role("dialog", name="none")
    expect(details.get_by_text("Pod not found")).to_be_visible()
    details.get_by_role("link", name="its workload").click()
    expect(page.get_by_role("dialog", name="writes", exact=True)).to_be_visible()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_pod_details_are_accessible(page: Page, theme: Literal["light", "dark"]) -> None:
    page.emulate_media(color_scheme=theme)
    page.goto("/workloads/Pod/default/ends")
    expect(page.get_by_role("log", name="Log of main")).to_be_visible()
    assert find_unnamed_controls(page) == []
    assert find_repeated_ids(page) == []
    assert find_low_contrast_text(page) == []
    page.set_viewport_size({"width": 390, "height": 844})
    expect(page.get_by_role("dialog", name="ends")).to_be_in_viewport()
    assert find_overflowing_elements(page) == []
