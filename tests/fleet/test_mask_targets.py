"""Mask targets of the examples: what a repository applies, in virtual time."""

from pathlib import Path
from typing import Any

import yaml

from tests.fleet.support.fleet_lab import (
    CLUSTERS,
    DEPLOYMENTS,
    NAMESPACE,
    RELEASES,
    FleetLab,
    run_lab,
)
from tests.harness.kubectl import Kubectl
from tests.local.embedded_cluster import virtual_time

pytestmark = virtual_time

EXAMPLES = Path(__file__).parents[2] / "examples" / "fleet"
CAPACITY = {"dal1": 10, "msp2": 10, "fra3": 10}
KINDS = {"Cluster": CLUSTERS, "Release": RELEASES, "Deployment": DEPLOYMENTS}


async def apply(lab: FleetLab, kubectl: Kubectl, target: str) -> None:
    """Apply what kustomize makes of a target."""
    built = kubectl(["kustomize", str(EXAMPLES / target)])
    assert built.code == 0, built.err
    for body in yaml.safe_load_all(built.out):
        resource = KINDS.get(body["kind"])
        if resource is not None:
            body["metadata"].pop("namespace", None)
            namespace = NAMESPACE if resource.namespaced else None
            name = body["metadata"]["name"]
            await lab.client.apply(resource, name, body, namespace, field_manager="gitops")


async def wait_for_releases(lab: FleetLab, expected: dict[str, str]) -> Any:
    """Wait until all six instances are ready, of these releases by cluster; returns the status."""
    status: Any = {}

    async def holds() -> bool:
        nonlocal status
        status = await lab.get_status("llama")
        found = {
            each["cluster"]: each.get("observedRelease", "")
            for each in status.get("clusters", ())
            if each.get("observed")
        }
        return found == expected and status.get("ready") == 6

    try:
        await lab.wait_for(holds, within=300)
    except AssertionError:
        raise AssertionError(f"status: {status}") from None
    return status


async def test_mask_targets_leave_a_release_and_a_cluster_until_they_are_removed(
    kubectl_path: Path, tmp_path: Path
) -> None:
    kubectl = Kubectl(kubectl_path, tmp_path / "kubeconfig", tmp_path)
    async with run_lab(CAPACITY) as lab:
        await apply(lab, kubectl, "base")
        await wait_for_releases(lab, dict.fromkeys(CAPACITY, "llama-1"))
        await apply(lab, kubectl, "production")
        await wait_for_releases(lab, dict.fromkeys(CAPACITY, "llama-2"))

        await apply(lab, kubectl, "incident")
        await wait_for_releases(lab, {"dal1": "llama-1", "msp2": "llama-1"})
        found = await lab.client.get(DEPLOYMENTS, "llama", NAMESPACE)
        assert (found["spec"]["release"], found["spec"]["mask"]) == ("llama-2", ["llama-2"])
        release = await lab.client.get(RELEASES, "llama-2", NAMESPACE)
        assert release["status"]["masked"]

        await apply(lab, kubectl, "production")
        await wait_for_releases(lab, dict.fromkeys(CAPACITY, "llama-2"))
