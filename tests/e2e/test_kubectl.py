"""kubectl against each server, with commands that wait for each other."""

import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from typing import IO

from tests.conftest import Api
from tests.harness.kubectl import Kubectl

_DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 0
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: web, image: "registry.example.com/web:1"}]
"""


def test_manifest_is_applied_changed_and_deleted(api: Api, kubectl: Kubectl) -> None:
    _run(api, kubectl, "apply -f -", _DEPLOYMENT)
    changed = _DEPLOYMENT.replace("web:1", "web:2")
    assert _run(api, kubectl, "apply -f -", changed) == "deployment.apps/web configured\n"
    image = "get deployment web -o jsonpath={.spec.template.spec.containers[0].image}"
    assert _run(api, kubectl, image) == "registry.example.com/web:2"
    _run(api, kubectl, "delete -f -", changed)
    assert kubectl("get deployment web", namespace=api.namespace).code == 1


def test_watch_prints_changes_of_another_kubectl(api: Api, kubectl: Kubectl) -> None:
    _run(api, kubectl, "create configmap a")
    command = "get configmap a --watch --output-watch-events --no-headers"
    with _background(api, kubectl, command) as watching:
        assert watching.readline().split()[:2] == ["ADDED", "a"]
        _run(api, kubectl, "label configmap a x=z")
        assert watching.readline().split()[:2] == ["MODIFIED", "a"]
        _run(api, kubectl, "delete configmap a")
        assert watching.readline().split()[:2] == ["DELETED", "a"]


def test_delete_waits_until_the_finalizer_is_removed(api: Api, kubectl: Kubectl) -> None:
    _run(api, kubectl, "create configmap a")
    _patch(api, kubectl, "configmap a", '{"metadata":{"finalizers":["example.com/f"]}}')
    with _background(api, kubectl, "delete configmap a") as deleting:
        # Newer versions of kubectl append the namespace.
        assert deleting.readline().startswith('configmap "a" deleted')
        assert "terminating" not in _run(api, kubectl, "get configmap a -o name")
        _patch(api, kubectl, "configmap a", '{"metadata":{"finalizers":null}}')
        assert deleting.read() == ""
    assert kubectl("get configmap a", namespace=api.namespace).code == 1


def test_wait_returns_when_the_condition_is_met(api: Api, kubectl: Kubectl) -> None:
    _run(api, kubectl, "apply -f -", _DEPLOYMENT)
    command = "wait --for=condition=Available deployment/web --timeout=30s"
    with _background(api, kubectl, command) as waiting:
        status = '{"status":{"conditions":[{"type":"Available","status":"True"}]}}'
        _patch(api, kubectl, "deployment web --subresource=status", status)
        assert waiting.read() == "deployment.apps/web condition met\n"


def test_service_account_authenticates_with_its_token(api: Api, kubectl: Kubectl) -> None:
    _run(api, kubectl, "create serviceaccount robot")
    token = _run(api, kubectl, "create token robot").strip()
    config = "apiVersion: v1\nkind: Config\n"
    (kubectl.home / "empty").write_text(config)
    anonymous = Kubectl(kubectl.binary, kubectl.home / "empty", kubectl.home)
    access = f"--server={api.access.url} --certificate-authority={api.access.ca_file}"
    outcome = anonymous(f"auth whoami {access} --token={token} -o jsonpath={{.status.userInfo}}")
    assert outcome.code == 0, outcome.err
    assert f"system:serviceaccount:{api.namespace}:robot" in outcome.out
    assert "Unauthorized" in anonymous(f"auth whoami {access} --token=nonsense").err


def _run(api: Api, kubectl: Kubectl, command: str, stdin: str = "") -> str:
    outcome = kubectl(command, stdin=stdin, namespace=api.namespace)
    assert outcome.code == 0, outcome.err
    return outcome.out


def _patch(api: Api, kubectl: Kubectl, resource: str, patch: str) -> None:
    words = ["patch", *resource.split(), "--type=merge", "-p", patch]
    outcome = kubectl(words, namespace=api.namespace)
    assert outcome.code == 0, outcome.err


@contextmanager
def _background(api: Api, kubectl: Kubectl, command: str) -> Generator[IO[str]]:
    """The output of a running command."""
    with subprocess.Popen(
        [*kubectl.build_prefix(api.namespace), *command.split()],
        stdout=subprocess.PIPE,
        cwd=kubectl.home,
        env=kubectl.build_environment(),
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            yield process.stdout
        finally:
            process.kill()
