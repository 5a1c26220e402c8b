"""The fixture itself: a genuine control plane comes up, works, and never stays behind."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.harness.access import Access
from tests.harness.controlplane import HOW_TO_GET, ControlPlane, binaries
from tests.harness.process import ServerDied, ServerProcess

pytestmark = pytest.mark.skipif(binaries() is None, reason=HOW_TO_GET)

_STARTER = """
import sys
from pathlib import Path
from tests.harness.controlplane import ControlPlane

plane = ControlPlane.start(Path(sys.argv[1]))
print(*(process.pid for process in plane.processes), flush=True)
sys.stdin.read()
"""


def test_it_serves_an_administrator_by_certificate_and_by_token(
    control_plane: ControlPlane,
) -> None:
    access = control_plane.access
    status, version = access.ask("GET", "/version")
    assert (status, version["gitVersion"]) == (200, "v1.36.3")
    assert _user_of_token(access) == "kubernetes-admin"


def test_a_default_service_account_shows_that_controllers_run(control_plane: ControlPlane) -> None:
    _wait(lambda: control_plane.access.ask("GET", _ACCOUNT)[0] == 200)


def test_with_all_parts_a_deployment_becomes_scheduled_pods(tmp_path: Path) -> None:
    with ControlPlane.start(tmp_path, controllers="*", with_scheduler=True) as plane:
        access = plane.access
        _make(access, "/api/v1/nodes", {"metadata": {"name": "node"}})
        _make_ready(access, "node")
        labels = {"app": "web"}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [_CONTAINER]}}
        spec = {"replicas": 2, "selector": {"matchLabels": labels}, "template": template}
        _make(
            access,
            "/apis/apps/v1/namespaces/default/deployments",
            {"metadata": {"name": "web"}, "spec": spec},
        )
        _wait(lambda: _nodes_of_pods(access) == ["node", "node"])


def test_nothing_is_left_when_the_test_run_is_killed(tmp_path: Path) -> None:
    root = str(Path(__file__).parents[2])
    path = os.pathsep.join([root, os.path.join(root, "src")])
    with subprocess.Popen(
        [sys.executable, "-c", _STARTER, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": path},
    ) as run:
        assert run.stdout is not None
        servers = [psutil.Process(int(pid)) for pid in run.stdout.readline().split()]
        assert len(servers) == 2
        run.send_signal(signal.SIGKILL)
    _gone, alive = psutil.wait_procs(servers, timeout=10)
    assert not alive


def test_a_server_that_dies_says_why(tmp_path: Path) -> None:
    process = ServerProcess("sh", ["/bin/sh", "-c", "echo no disk; exit 3"], tmp_path / "log")
    with pytest.raises(ServerDied, match=r"sh ended with 3.*\n.*no disk"):
        process.wait_until(lambda: False)


_ACCOUNT = "/api/v1/namespaces/default/serviceaccounts/default"
_CONTAINER = {"name": "c", "image": "registry.example.com/image"}


def _user_of_token(access: Access) -> str:
    review = {"spec": {"token": access.token}}
    _status, answer = access.ask("POST", "/apis/authentication.k8s.io/v1/tokenreviews", review)
    return answer["status"]["user"]["username"]


def _make(access: Access, path: str, body: object) -> None:
    status, answer = access.ask("POST", path, body)
    assert status == 201, answer


def _make_ready(access: Access, node: str) -> None:
    _status, found = access.ask("GET", f"/api/v1/nodes/{node}")
    found["spec"].pop("taints", None)
    access.ask("PUT", f"/api/v1/nodes/{node}", found)
    _status, found = access.ask("GET", f"/api/v1/nodes/{node}")
    found["status"] = {
        "capacity": {"cpu": "4", "memory": "8Gi", "pods": "10"},
        "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"},
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    status, answer = access.ask("PUT", f"/api/v1/nodes/{node}/status", found)
    assert status == 200, answer


def _nodes_of_pods(access: Access) -> list[str]:
    _status, pods = access.ask("GET", "/api/v1/namespaces/default/pods")
    return [pod["spec"].get("nodeName", "") for pod in pods["items"]]


def _wait(condition, timeout: float = 30) -> None:
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)
