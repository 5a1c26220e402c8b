"""A pod on the page: its containers, how often they started again, and what they write."""

import re
from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.cli.command import Kilonova
from tests.e2e.browser.place import SMALL_FLEET, Place, start
from tests.harness.audit import faint_text, nameless, repeated_ids, too_wide

TICKS = "i=0; while :; do i=$((i+1)); echo tick $i; sleep 0.1; done"
ENDS = "echo run begun; exit 3"


@pytest.fixture(scope="module")
def place(command: Kilonova, kubectl_path: Path) -> Place:
    """Pods on this machine, which write: a Deployment's that goes on, and one that ends again and
    again."""
    place = start(command, kubectl_path, SMALL_FLEET, "--process-node")
    labels = {"app": "writes"}
    template = {"metadata": {"labels": labels}, "spec": spec(main=TICKS, second="sleep 3600")}
    body = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    place.apply(
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "writes"}}
        | {"spec": body},
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "ends"}, "spec": spec(main=ENDS)},
    )
    place.run("rollout status deployment/writes --timeout=60s")
    place.run(
        "wait --for=jsonpath={.status.containerStatuses[0].restartCount}=2 pod/ends --timeout=60s"
    )
    return place


def spec(**commands: str) -> dict[str, Any]:
    """Containers that run as processes of this machine."""
    return {
        "nodeSelector": {"kilonova.dev/node-kind": "process"},
        "containers": [
            {"name": name, "image": "shell", "command": ["sh", "-c", command]}
            for name, command in commands.items()
        ],
        "terminationGracePeriodSeconds": 0,
    }


def test_the_containers_of_a_pod_and_what_they_write_live(page: Page, place: Place) -> None:
    name = place.run("get pods -l app=writes -o jsonpath={.items[0].metadata.name}")
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
    seen = last_tick(log)
    expect(log).to_contain_text(f"tick {seen + 5}\n")
    expect(details.get_by_role("button", name="Previous run")).to_be_disabled()
    # What is not followed stands still.
    details.get_by_role("button", name="Follow").click()
    expect(details.get_by_text("The end")).to_be_visible()
    details.get_by_role("combobox", name="Container").select_option("second")
    expect(details.get_by_text("It has written nothing")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog", name="writes", exact=True)).to_be_visible()


def last_tick(log: Locator) -> int:
    """The number that was written last."""
    return int(re.findall(r"tick (\d+)\n", log.inner_text() + "\n")[-1])


def test_a_container_that_ends_tells_its_last_run(page: Page) -> None:
    page.goto("/workloads/Pod/default/ends")
    details = page.get_by_role("dialog", name="ends")
    row = details.get_by_role("row", name=re.compile("^main"))
    expect(row).to_contain_text("Last run: Error, exit code 3")
    expect(row.get_by_role("cell").last).to_have_text(re.compile("[2-9]"))
    details.get_by_role("button", name="Previous run").click()
    expect(details.get_by_role("log", name="Log of main")).to_contain_text("run begun")


def test_a_pod_that_is_gone_is_told_so(page: Page) -> None:
    page.goto("/workloads/Deployment/default/writes?pod=default%2Fnone")
    details = page.get_by_role("dialog", name="none")
    expect(details.get_by_text("It is not there")).to_be_visible()
    details.get_by_role("link", name="its workload").click()
    expect(page.get_by_role("dialog", name="writes", exact=True)).to_be_visible()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_details_of_a_pod_are_usable_by_everybody(
    page: Page, theme: Literal["light", "dark"]
) -> None:
    page.emulate_media(color_scheme=theme)
    page.goto("/workloads/Pod/default/ends")
    expect(page.get_by_role("log", name="Log of main")).to_be_visible()
    assert nameless(page) == []
    assert repeated_ids(page) == []
    assert faint_text(page) == []
    page.set_viewport_size({"width": 390, "height": 844})
    expect(page.get_by_role("dialog", name="ends")).to_be_in_viewport()
    assert too_wide(page) == []
