"""Actions of the console with --allow-actions, each after a confirmation."""

import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.cli.command import Kilonova
from tests.e2e.browser.console_cluster import SMALL_FLEET, ConsoleCluster, gang, start_cluster


@pytest.fixture(scope="module")
def console_cluster(command: Kilonova, kubectl_path: Path) -> ConsoleCluster:
    """A console that allows actions, with workloads."""
    console_cluster = start_cluster(command, kubectl_path, SMALL_FLEET, "--allow-actions")
    console_cluster.apply(gang("grows", replicas=2, gpus=1), gang("goes", replicas=1, gpus=1))
    console_cluster.wait_running("grows-0", "goes-0")
    return console_cluster


def test_pod_clique_set_is_scaled(page: Page, console_cluster: ConsoleCluster) -> None:
    button(workload(page, "grows"), "Scale").click()
    dialog = confirmation_dialog(page)
    dialog.get_by_role("spinbutton", name="Replicas").fill("2")
    button(dialog, "Scale").click()
    confirm(dialog)
    assert console_cluster.run_kubectl("get pcs grows -o jsonpath={.spec.replicas}") == "2"


def test_pod_clique_is_scaled(page: Page, console_cluster: ConsoleCluster) -> None:
    workload(page, "goes").get_by_role("button", name="Scale goes-0-worker").click()
    dialog = confirmation_dialog(page)
    dialog.get_by_role("spinbutton", name="Replicas").fill("2")
    button(dialog, "Scale").click()
    confirm(dialog)
    assert (
        console_cluster.run_kubectl("get podclique goes-0-worker -o jsonpath={.spec.replicas}")
        == "2"
    )


def test_node_is_cordoned_and_uncordoned(page: Page, console_cluster: ConsoleCluster) -> None:
    details = node(page, "cpu-0")
    button(details, "Cordon").click()
    dialog = confirmation_dialog(page)
    button(dialog, "Cordon").click()
    confirm(dialog)
    assert console_cluster.run_kubectl("get node cpu-0 -o jsonpath={.spec.unschedulable}") == "true"
    button(details, "Uncordon").click()
    button(confirmation_dialog(page), "Uncordon").click()
    confirm(confirmation_dialog(page))
    assert console_cluster.run_kubectl("get node cpu-0 -o jsonpath={.spec.unschedulable}") == ""


def test_node_is_drained(page: Page, console_cluster: ConsoleCluster) -> None:
    pod, node_name = next(iter(console_cluster.nodes_of_pods("grows-0").items()))
    button(node(page, node_name), "Drain").click()
    dialog = confirmation_dialog(page)
    button(dialog, "Drain").click()
    confirm(dialog)
    assert (
        console_cluster.run_kubectl(f"get node {node_name} -o jsonpath={{.spec.unschedulable}}")
        == "true"
    )
    console_cluster.run_kubectl(f"wait --for=delete pod/{pod} --timeout=60s")
    assert node_name not in console_cluster.nodes_of_pods("grows-0").values()


def test_nothing_is_deleted_before_confirmation(
    page: Page, console_cluster: ConsoleCluster
) -> None:
    button(workload(page, "goes"), "Delete").click()
    button(confirmation_dialog(page), "Cancel").click()
    expect(page.get_by_role("dialog", name=re.compile("Delete"))).to_have_count(0)
    assert (
        console_cluster.run_kubectl("get pcs goes -o jsonpath={.metadata.deletionTimestamp}") == ""
    )
    button(page, "Delete").click()
    button(confirmation_dialog(page), "Delete").click()
    console_cluster.run_kubectl("wait --for=delete pcs/goes --timeout=60s")
    expect(page.get_by_role("row", name=re.compile("goes"))).to_have_count(0)


def test_deployment_is_scaled_restarted_and_deleted(
    page: Page, console_cluster: ConsoleCluster
) -> None:
    console_cluster.apply(deployment("web"))
    console_cluster.run_kubectl("rollout status deployment/web --timeout=60s")
    details = workload(page, "web")
    expect(details.get_by_role("row", name=re.compile("^Available"))).to_contain_text("True")
    button(details, "Scale").click()
    confirmation_dialog(page).get_by_role("spinbutton", name="Replicas").fill("2")
    button(confirmation_dialog(page), "Scale").click()
    confirm(confirmation_dialog(page))
    expect(details.get_by_text("2 of 2 ready, 2 updated, 2 available")).to_be_visible()
    before = console_cluster.run_kubectl("get pods -l app=web -o name").split()
    button(details, "Restart").click()
    button(confirmation_dialog(page), "Restart").click()
    confirm(confirmation_dialog(page))
    console_cluster.run_kubectl("rollout status deployment/web --timeout=60s")
    console_cluster.run_kubectl(f"wait --for=delete {' '.join(before)} --timeout=60s")
    button(details, "Delete").click()
    button(confirmation_dialog(page), "Delete").click()
    confirm(confirmation_dialog(page))
    console_cluster.run_kubectl("wait --for=delete deployment/web --timeout=60s")


def test_job_is_suspended_and_resumed(page: Page, console_cluster: ConsoleCluster) -> None:
    console_cluster.apply(job("train"))
    console_cluster.run_kubectl("wait --for=jsonpath={.status.ready}=1 job/train --timeout=60s")
    details = workload(page, "train")
    expect(details.get_by_text("0 of 1")).not_to_have_count(0)
    button(details, "Suspend").click()
    button(confirmation_dialog(page), "Suspend").click()
    confirm(confirmation_dialog(page))
    expect(details.locator(".panel-head")).to_contain_text("Suspended")
    button(details, "Resume").click()
    button(confirmation_dialog(page), "Resume").click()
    confirm(confirmation_dialog(page))
    expect(details.locator(".panel-head")).to_contain_text("Running")
    expect(button(details, "Delete")).to_be_visible()


def deployment(name: str) -> dict[str, Any]:
    """A Deployment of one pod."""
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": pod_spec()}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": spec,
    }


def job(name: str) -> dict[str, Any]:
    """A Job of one pod that runs for an hour."""
    metadata = {"annotations": {"sim.kilonova.dev/run-seconds": "3600"}}
    template = {"metadata": metadata, "spec": pod_spec() | {"restartPolicy": "Never"}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"template": template},
    }


def pod_spec() -> dict[str, Any]:
    return {
        "containers": [{"name": "main", "image": "registry.example.com/worker"}],
        "terminationGracePeriodSeconds": 0,
    }


def workload(page: Page, name: str) -> Locator:
    """The details of a workload."""
    page.goto("/workloads")
    page.get_by_role("row", name=re.compile(name)).first.click()
    details = page.get_by_role("dialog", name=re.compile(name))
    expect(details).to_be_visible()
    return details


def node(page: Page, name: str) -> Locator:
    """The details of a node."""
    page.goto("/nodes")
    page.get_by_role("row", name=re.compile(name)).click()
    details = page.get_by_role("dialog", name=re.compile(name))
    expect(details).to_be_visible()
    return details


def button(inside: Page | Locator, label: str) -> Locator:
    """The button with this label; an ellipsis announces a confirmation."""
    return inside.get_by_role("button", name=re.compile(f"^{label}…?$"))


def confirmation_dialog(page: Page) -> Locator:
    """The modal dialog."""
    dialog = page.locator("dialog:modal")
    expect(dialog).to_be_visible()
    return dialog


def confirm(dialog: Locator) -> None:
    """Wait until the action has succeeded, and close the dialog."""
    close = button(dialog, "Close")
    expect(close).to_be_visible()
    close.click()
    expect(dialog).to_have_count(0)
