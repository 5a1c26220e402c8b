"""Helm installs, upgrades, rolls back and uninstalls the chart of the examples."""

import json
from pathlib import Path

import pytest

from tests.clients.client_cluster import ClientCluster
from tests.clients.helm import CHART, Helm

# A simulated pod completes only with an annotation.
_SHORT_TIMEOUT = "check.podAnnotations.sim\\.kilonova\\.dev/run-seconds=0.05"


def run_helm_release(helm: Helm, verb: str, *words: str) -> str:
    """Install or upgrade, and wait until it is ready."""
    waiting = ("--wait", "--timeout=60s", "--set-string", _SHORT_TIMEOUT)
    return helm(verb, "board", str(CHART), *waiting, *words)


@pytest.fixture
def helm(client_cluster: ClientCluster, tmp_path: Path, request: pytest.FixtureRequest) -> Helm:
    namespace = request.node.name.replace("_", "-")[:40].rstrip("-")
    return Helm(client_cluster, client_cluster.create_namespace(namespace), tmp_path)


def test_a_release_is_installed_upgraded_rolled_back_and_removed(helm: Helm) -> None:
    assert "STATUS: deployed" in run_helm_release(helm, "install")
    assert helm.get_json("deployment board")["status"]["readyReplicas"] == 2
    assert helm.get_json("job board-check")["status"]["succeeded"] == 1

    run_helm_release(helm, "upgrade", "--set=replicas=3,message=Changed")
    assert helm.get_json("deployment board")["status"]["readyReplicas"] == 3
    assert helm.get_json("configmap board")["data"] == {"index.html": "Changed"}
    (release,) = json.loads(helm("list", "-o", "json"))
    assert (release["name"], release["revision"], release["status"]) == ("board", "2", "deployed")
    assert json.loads(helm("status", "board", "-o", "json"))["info"]["status"] == "deployed"
    assert "message: Changed" in helm("get", "values", "board")

    helm("rollback", "board", "1", "--wait", "--timeout=60s")
    assert helm.get_json("deployment board")["spec"]["replicas"] == 2
    assert helm.get_json("configmap board")["data"] == {"index.html": "Hello from a chart"}
    history = json.loads(helm("history", "board", "-o", "json"))
    assert [each["status"] for each in history] == ["superseded", "superseded", "deployed"]

    assert 'release "board" uninstalled' in helm("uninstall", "board", "--wait")
    left = helm.cluster.list_names(
        "all,secrets,configmaps -l app.kubernetes.io/instance", helm.namespace
    )
    assert left == ["board-check"], "hooks stay, as in any cluster"
    assert json.loads(helm("list", "-o", "json")) == []


def test_helm_test_passes(helm: Helm) -> None:
    run_helm_release(helm, "install")
    assert "Phase:          Succeeded" in helm("test", "board", "--timeout=60s")


def test_a_dry_run_on_the_server_writes_nothing(helm: Helm) -> None:
    said = run_helm_release(helm, "install", "--dry-run=server")
    assert "STATUS: pending-install" in said
    assert "kind: Deployment" in said
    assert helm.cluster.list_names("all,secrets", helm.namespace) == []


def test_a_manifest_that_the_api_rejects_fails_the_release(helm: Helm) -> None:
    complaint = helm("install", "board", str(CHART), "--set=port=70000", fails=True)
    assert "must be between 1 and 65535" in complaint
    (release,) = json.loads(helm("list", "--all", "-o", "json"))
    assert release["status"] == "failed"
