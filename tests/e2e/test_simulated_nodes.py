"""`kilonova up` with a fleet: pods of `kubectl run` become Running."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.embedded_server import EmbeddedServer
from tests.harness.kubectl import Kubectl

_FLEET = Path(__file__).parents[2] / "examples" / "fleet.yaml"


@pytest.fixture
def kubectl(tmp_path: Path, kubectl_path: Path) -> Iterator[Kubectl]:
    """kubectl on an embedded cluster with the example fleet."""
    options = ("--port", "0", "--scheduler", "--nodes", str(_FLEET))
    with EmbeddedServer.start(tmp_path / "data", *options) as server:
        yield Kubectl(kubectl_path, server.access.kubeconfig, tmp_path)


def test_pod_runs_has_logs_and_is_deleted(kubectl: Kubectl) -> None:
    _run(kubectl, "wait --for=create node --all --timeout=30s")
    _run(kubectl, "wait --for=condition=Ready nodes --all --timeout=30s")
    _run(kubectl, "run hello --image=registry.example.com/hello --restart=Never")
    _run(kubectl, "wait --for=condition=Ready pod/hello --timeout=30s")
    node = _run(kubectl, "get pod hello -o jsonpath={.spec.nodeName}")
    assert node in _run(kubectl, "get nodes -o name")
    assert "Running" in _run(kubectl, "get pod hello")
    assert "Started" in _run(kubectl, "describe pod hello")
    _run(kubectl, "logs hello")
    _run(kubectl, "delete pod hello")
    assert kubectl("get pod hello").code == 1


def test_unschedulable_pod_reports_its_reason(kubectl: Kubectl) -> None:
    _run(kubectl, "wait --for=create node --all --timeout=30s")
    spec = '{"spec":{"nodeSelector":{"no":"such"}}}'
    outcome = kubectl(["run", "lost", "--image=registry.example.com/x", f"--overrides={spec}"])
    assert outcome.code == 0, outcome.err
    _run(kubectl, "wait --for=condition=PodScheduled=False pod/lost --timeout=30s")
    condition = _run(kubectl, "get pod lost -o jsonpath={.status.conditions[0]}")
    assert '"Unschedulable"' in condition
    assert "0/50 nodes are available" in condition


def _run(kubectl: Kubectl, command: str) -> str:
    outcome = kubectl(command)
    assert outcome.code == 0, f"{command}: {outcome.err}"
    return outcome.out
