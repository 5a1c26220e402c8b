"""What can be done from the console: nothing by default; with --allow-actions, after a question."""

import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.cli.command import Kilonova
from tests.e2e.browser.place import SMALL_FLEET, Place, gang, start


@pytest.fixture(scope="module")
def place(command: Kilonova, kubectl_path: Path) -> Place:
    """A console that acts, and a workload to act on."""
    place = start(command, kubectl_path, SMALL_FLEET, "--allow-actions")
    place.apply(gang("grows", replicas=2, gpus=1), gang("goes", replicas=1, gpus=1))
    place.until_running("grows-0", "goes-0")
    return place


def test_a_set_is_scaled(page: Page, place: Place) -> None:
    button(workload(page, "grows"), "Scale").click()
    question = asked(page)
    question.get_by_role("spinbutton", name="Replicas").fill("2")
    button(question, "Scale").click()
    answered(question)
    assert place.run("get pcs grows -o jsonpath={.spec.replicas}") == "2"


def test_a_clique_is_scaled(page: Page, place: Place) -> None:
    workload(page, "goes").get_by_role("button", name="Scale goes-0-worker").click()
    question = asked(page)
    question.get_by_role("spinbutton", name="Replicas").fill("2")
    button(question, "Scale").click()
    answered(question)
    assert place.run("get podclique goes-0-worker -o jsonpath={.spec.replicas}") == "2"


def test_a_node_is_cordoned_and_uncordoned(page: Page, place: Place) -> None:
    details = node(page, "cpu-0")
    button(details, "Cordon").click()
    question = asked(page)
    button(question, "Cordon").click()
    answered(question)
    assert place.run("get node cpu-0 -o jsonpath={.spec.unschedulable}") == "true"
    button(details, "Uncordon").click()
    button(asked(page), "Uncordon").click()
    answered(asked(page))
    assert place.run("get node cpu-0 -o jsonpath={.spec.unschedulable}") == ""


def test_a_node_is_drained(page: Page, place: Place) -> None:
    pod, where = next(iter(place.pods("grows-0").items()))
    button(node(page, where), "Drain").click()
    question = asked(page)
    button(question, "Drain").click()
    answered(question)
    assert place.run(f"get node {where} -o jsonpath={{.spec.unschedulable}}") == "true"
    place.run(f"wait --for=delete pod/{pod} --timeout=60s")
    assert where not in place.pods("grows-0").values()


def test_nothing_is_deleted_before_the_question_is_answered(page: Page, place: Place) -> None:
    button(workload(page, "goes"), "Delete").click()
    button(asked(page), "Cancel").click()
    expect(page.get_by_role("dialog", name=re.compile("Delete"))).to_have_count(0)
    assert place.run("get pcs goes -o jsonpath={.metadata.deletionTimestamp}") == ""
    button(page, "Delete").click()
    button(asked(page), "Delete").click()
    place.run("wait --for=delete pcs/goes --timeout=60s")
    expect(page.get_by_role("row", name=re.compile("goes"))).to_have_count(0)


def test_a_deployment_is_scaled_restarted_and_deleted(page: Page, place: Place) -> None:
    place.apply(deployment("web"))
    place.run("rollout status deployment/web --timeout=60s")
    details = workload(page, "web")
    expect(details.get_by_role("row", name=re.compile("^Available"))).to_contain_text("True")
    button(details, "Scale").click()
    asked(page).get_by_role("spinbutton", name="Replicas").fill("2")
    button(asked(page), "Scale").click()
    answered(asked(page))
    expect(details.get_by_text("2 of 2 ready, 2 updated, 2 available")).to_be_visible()
    before = place.run("get pods -l app=web -o name").split()
    button(details, "Restart").click()
    button(asked(page), "Restart").click()
    answered(asked(page))
    place.run("rollout status deployment/web --timeout=60s")
    place.run(f"wait --for=delete {' '.join(before)} --timeout=60s")
    button(details, "Delete").click()
    button(asked(page), "Delete").click()
    answered(asked(page))
    place.run("wait --for=delete deployment/web --timeout=60s")


def test_a_job_is_suspended_and_resumed(page: Page, place: Place) -> None:
    place.apply(job("train"))
    place.run("wait --for=jsonpath={.status.ready}=1 job/train --timeout=60s")
    details = workload(page, "train")
    expect(details.get_by_text("0 of 1")).not_to_have_count(0)
    button(details, "Suspend").click()
    button(asked(page), "Suspend").click()
    answered(asked(page))
    expect(details.locator(".panel-head")).to_contain_text("Suspended")
    button(details, "Resume").click()
    button(asked(page), "Resume").click()
    answered(asked(page))
    expect(details.locator(".panel-head")).to_contain_text("Running")
    expect(button(details, "Delete")).to_be_visible()


def deployment(name: str) -> dict[str, Any]:
    """One pod that runs."""
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
    """One pod that runs for long."""
    patience = {"annotations": {"sim.kilonova.dev/run-seconds": "3600"}}
    template = {"metadata": patience, "spec": pod_spec() | {"restartPolicy": "Never"}}
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


def button(inside: Page | Locator, word: str) -> Locator:
    """The button that says this; dots tell that a question follows."""
    return inside.get_by_role("button", name=re.compile(f"^{word}…?$"))


def asked(page: Page) -> Locator:
    """The question that stands before everything else."""
    question = page.locator("dialog:modal")
    expect(question).to_be_visible()
    return question


def answered(question: Locator) -> None:
    """The console says that it is done, and lets one close the question."""
    close = button(question, "Close")
    expect(close).to_be_visible()
    close.click()
    expect(question).to_have_count(0)
