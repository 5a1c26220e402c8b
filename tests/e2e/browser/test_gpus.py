"""Single GPUs in the console: identity, MIG instances and their holders, health."""

import json
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.browser.console_cluster import ConsoleCluster

_NODE = "h100-0"


@pytest.fixture(scope="module")
def console_cluster(console_cluster: ConsoleCluster) -> ConsoleCluster:
    """A pod holds a MIG instance, and another one a whole GPU; the last GPU of the node is lost."""
    console_cluster.apply(
        pod("slice", {"nvidia.com/mig-1g.10gb": 1}), pod("whole", {"nvidia.com/gpu": 1})
    )
    console_cluster.run_kubectl(f"annotate node {_NODE} sim.kilonova.dev/lost-gpus=7")
    console_cluster.run_kubectl("wait --for=condition=Ready pod --all --timeout=60s")
    return console_cluster


def test_details_of_a_node_identify_its_gpus(page: Page, console_cluster: ConsoleCluster) -> None:
    page.goto(f"/nodes?node={_NODE}")
    details = page.get_by_role("dialog", name=_NODE)
    for index, gpu in enumerate(devices(console_cluster)):
        shown = details.get_by_role("listitem", name=f"GPU {index}")
        for text in (gpu["uuid"], f"PCI {gpu['pci']}", "132 SMs"):
            expect(shown).to_contain_text(text)
    first = details.get_by_role("listitem", name="GPU 1")
    expect(first).to_contain_text("Healthy")
    expect(first).to_contain_text("MIG disabled")
    lost = details.get_by_role("listitem", name="GPU 7")
    expect(lost).to_contain_text("Lost")
    expect(lost).to_contain_text("XID 79: GPU has fallen off the bus")


def test_details_of_a_node_name_the_holders_of_mig_instances(
    page: Page, console_cluster: ConsoleCluster
) -> None:
    index, profile, start = mig_instance_of(console_cluster, "slice")
    (instance,) = devices(console_cluster)[index]["instances"]
    page.goto(f"/nodes?node={_NODE}")
    shown = page.get_by_role("dialog", name=_NODE).get_by_role("listitem", name=f"GPU {index}")
    for text in ("MIG enabled", f"{profile}@{start}", instance["uuid"]):
        expect(shown).to_contain_text(text)
    shown.get_by_role("link", name="slice").first.click()
    expect(page.get_by_role("dialog", name="slice")).to_be_visible()


def test_tooltip_of_a_gpu_identifies_it(page: Page, console_cluster: ConsoleCluster) -> None:
    page.goto("/fleet")
    expect(page.get_by_role("application", name="Map of the fleet")).to_be_visible()
    gpus = devices(console_cluster)
    point = None
    while point is None:
        point = page.evaluate("(node) => window.kilonova.fleet.at(node)", _NODE)
    page.mouse.move(point["x"] + 16, point["y"] + 8)
    tooltip = page.locator(".map-tooltip")
    expect(tooltip).to_contain_text("GPU 4")
    for text in (gpus[4]["uuid"], f"PCI {gpus[4]['pci']}, 132 SMs, MIG disabled", "Free"):
        expect(tooltip).to_contain_text(text)
    # The loss of another GPU is none of its problems.
    expect(tooltip).not_to_contain_text("XID 79")


def devices(console_cluster: ConsoleCluster) -> list[dict[str, Any]]:
    """The GPUs of the node, as it publishes them."""
    node = json.loads(console_cluster.run_kubectl(f"get node {_NODE} -o json"))
    gpus = json.loads(node["metadata"]["annotations"]["gpu.kilonova.dev/topology"])["gpus"]
    assert len({gpu["uuid"] for gpu in gpus}) == 8
    return gpus


def mig_instance_of(console_cluster: ConsoleCluster, name: str) -> tuple[int, str, str]:
    """The MIG instance that a pod was assigned: device, profile, first memory slice."""
    found = json.loads(console_cluster.run_kubectl(f"get pod {name} -o json"))
    assert found["spec"]["nodeName"] == _NODE
    index, _, instance = found["metadata"]["annotations"]["gpu.kilonova.dev/devices"].partition(":")
    profile, _, start = instance.partition("@")
    return int(index), profile, start


def pod(name: str, limits: dict[str, int]) -> dict[str, Any]:
    """A pod on the node."""
    container = {
        "name": "main",
        "image": "registry.example.com/worker",
        "resources": {"limits": limits},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "schedulerName": "kilonova-scheduler",
            "nodeSelector": {"kubernetes.io/hostname": _NODE},
            "containers": [container],
        },
    }
