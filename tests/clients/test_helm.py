"""Helm installs, changes, takes back and removes the chart of the examples."""

import json
import os
import subprocess
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.clients.ground import PATIENCE, Ground

_CHART = Path(__file__).parents[2] / "examples" / "chart"
# A simulated pod ends by itself only when it is told to.
_BRIEFLY = "check.podAnnotations.sim\\.kilonova\\.dev/run-seconds=0.05"


@dataclass(frozen=True)
class Helm:
    """The helm of this environment, on an embedded cluster, in a namespace of its own."""

    ground: Ground
    namespace: str
    home: Path

    def __call__(self, *words: str, fails: bool = False) -> str:
        """What it prints; its complaint where it must fail."""
        done = subprocess.run(
            [Path(sysconfig.get_path("scripts")) / "helm", *words],
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(self.home),
                "KUBECONFIG": str(self.ground.access.kubeconfig),
                "HELM_NAMESPACE": self.namespace,
            },
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert (done.returncode != 0) == fails, done.stderr
        return done.stderr if fails else done.stdout

    def install(self, verb: str, *words: str) -> str:
        return self(
            verb,
            "board",
            str(_CHART),
            "--wait",
            "--timeout=60s",
            "--set-string",
            _BRIEFLY,
            *words,
        )

    def read(self, what: str) -> Any:
        return self.ground.read(what, self.namespace)


@pytest.fixture
def helm(ground: Ground, tmp_path: Path, request: pytest.FixtureRequest) -> Helm:
    namespace = request.node.name.replace("_", "-")[:40].rstrip("-")
    return Helm(ground, ground.namespace(namespace), tmp_path)


def test_a_release_is_installed_upgraded_rolled_back_and_removed(helm: Helm) -> None:
    assert "STATUS: deployed" in helm.install("install")
    assert helm.read("deployment board")["status"]["readyReplicas"] == 2
    assert helm.read("job board-check")["status"]["succeeded"] == 1

    helm.install("upgrade", "--set=replicas=3,message=Changed")
    assert helm.read("deployment board")["status"]["readyReplicas"] == 3
    assert helm.read("configmap board")["data"] == {"index.html": "Changed"}
    (release,) = json.loads(helm("list", "-o", "json"))
    assert (release["name"], release["revision"], release["status"]) == ("board", "2", "deployed")
    assert json.loads(helm("status", "board", "-o", "json"))["info"]["status"] == "deployed"
    assert "message: Changed" in helm("get", "values", "board")

    helm("rollback", "board", "1", "--wait", "--timeout=60s")
    assert helm.read("deployment board")["spec"]["replicas"] == 2
    assert helm.read("configmap board")["data"] == {"index.html": "Hello from a chart"}
    history = json.loads(helm("history", "board", "-o", "json"))
    assert [each["status"] for each in history] == ["superseded", "superseded", "deployed"]

    assert 'release "board" uninstalled' in helm("uninstall", "board", "--wait")
    left = helm.ground.names("all,secrets,configmaps -l app.kubernetes.io/instance", helm.namespace)
    assert left == ["board-check"], "hooks stay, as in any cluster"
    assert json.loads(helm("list", "-o", "json")) == []


def test_its_own_test_passes(helm: Helm) -> None:
    helm.install("install")
    assert "Phase:          Succeeded" in helm("test", "board", "--timeout=60s")


def test_a_dry_run_on_the_server_writes_nothing(helm: Helm) -> None:
    said = helm.install("install", "--dry-run=server")
    assert "STATUS: pending-install" in said
    assert "kind: Deployment" in said
    assert helm.ground.names("all,secrets", helm.namespace) == []


def test_a_manifest_that_the_api_refuses_fails_the_release(helm: Helm) -> None:
    complaint = helm("install", "board", str(_CHART), "--set=port=70000", fails=True)
    assert "must be between 1 and 65535" in complaint
    (release,) = json.loads(helm("list", "--all", "-o", "json"))
    assert release["status"] == "failed"
