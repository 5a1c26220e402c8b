"""Clusters, rollouts and releases of a fleet in the console, and instances of models."""

import json
import re
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.e2e.browser.console_cluster import ConsoleCluster
from tests.harness.accessibility import (
    find_low_contrast_text,
    find_overflowing_elements,
    find_repeated_ids,
    find_unnamed_controls,
)

GROUP = "inference-engine.groq.io"


@pytest.fixture(scope="module", autouse=True)
def fleet(console_cluster: ConsoleCluster) -> None:
    """The kinds of a fleet, whose manager does not run: statuses are written here."""
    kubeconfig = console_cluster.data / "kubeconfig"
    done = console_cluster.kilonova("install", "--components", "fleet", "--kubeconfig", kubeconfig)
    assert done.code == 0, done.err


def details(page: Page, name: str) -> Locator:
    """The panel with the details of an object."""
    return page.get_by_role("dialog", name=name)


def write_status(cluster: ConsoleCluster, target: str, status: dict[str, Any]) -> None:
    patch = json.dumps({"status": status})
    cluster.run_kubectl(f"patch {target} --subresource=status --type=merge -p '{patch}'")


def test_pages_appear_with_the_first_object(page: Page, console_cluster: ConsoleCluster) -> None:
    page.goto("/nodes")
    pages = page.get_by_role("navigation", name="Pages")
    expect(pages.get_by_role("link", name="Nodes")).to_be_visible()
    expect(pages.get_by_role("link", name="Clusters")).to_have_count(0)
    console_cluster.apply(
        {
            "apiVersion": "fleet.kilonova.dev/v1alpha1",
            "kind": "Cluster",
            "metadata": {
                "name": "dal1",
                "annotations": {"fleet.kilonova.dev/console": "http://127.0.0.1:9/"},
            },
            "spec": {"region": "us-south"},
        }
    )
    write_status(
        console_cluster,
        "clusters.fleet.kilonova.dev/dal1",
        {"health": "Suspect", "reason": "Network", "instances": 3, "readyInstances": 2},
    )
    pages.get_by_role("link", name="Clusters").click()
    row = page.get_by_role("grid", name="Clusters").get_by_role("row").nth(1)
    expect(row).to_have_text(re.compile("dal1.*us-south.*Suspect.*3.*2"))
    page.goto("/clusters/dal1")
    console = details(page, "dal1").get_by_role("link", name="http://127.0.0.1:9/")
    expect(console).to_be_visible()


def test_rollout_shows_its_clusters_and_waves(page: Page, console_cluster: ConsoleCluster) -> None:
    console_cluster.apply(
        {
            "apiVersion": f"{GROUP}/v1",
            "kind": "Deployment",
            "metadata": {"name": "llama", "namespace": "default"},
            "spec": {"release": "llama-2", "replicas": 4},
        }
    )
    write_status(
        console_cluster,
        f"deployments.{GROUP}/llama",
        {
            "release": "llama-2",
            "desired": 4,
            "observed": 4,
            "ready": 3,
            "unallocatable": 0,
            "currentWave": "canary",
            "waves": [{"name": "canary", "phase": "Baking", "clusters": ["dal1"]}],
            "clusters": [
                {
                    "cluster": "dal1",
                    "desired": 4,
                    "observed": 4,
                    "ready": 3,
                    "reachable": False,
                    "release": "llama-2",
                    "reason": "no report for 30s",
                }
            ],
        },
    )
    page.goto("/global-deployments/default/llama")
    llama = details(page, "llama")
    lost = llama.get_by_role("row", name=re.compile("dal1.*Lost.*no report for 30s"))
    expect(lost).to_be_visible()
    expect(llama.get_by_role("row", name=re.compile("canary.*Baking.*dal1"))).to_be_visible()
    assert find_unnamed_controls(page) == []
    assert find_repeated_ids(page) == []
    assert find_low_contrast_text(page) == []
    assert find_overflowing_elements(page) == []
    llama.get_by_role("link", name="dal1").click()
    expect(page).to_have_url(re.compile("/clusters/dal1$"))
