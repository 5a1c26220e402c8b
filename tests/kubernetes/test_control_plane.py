"""The control plane fixture itself: it starts, works, and is always stopped."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.harness.access import ServerAccess
from tests.harness.control_plane import ControlPlane
from tests.harness.server_process import ServerExited, ServerProcess

pytestmark = pytest.mark.usefixtures("control_plane_binaries")

_STARTER_PROGRAM = """
import sys
from pathlib import Path
from tests.harness.control_plane import ControlPlane

plane = ControlPlane.start(Path(sys.argv[1]))
print(*(process.pid for process in plane.processes), flush=True)
sys.stdin.read()
"""


def test_administrator_is_authenticated_by_certificate_and_by_token(
    control_plane: ControlPlane,
) -> None:
    access = control_plane.access
    status, version = access.request("GET", "/version")
    assert (status, version["gitVersion"]) == (200, "v1.36.3")
    assert _get_token_user(access) == "kubernetes-admin"


def test_a_default_service_account_shows_that_controllers_run(control_plane: ControlPlane) -> None:
    _wait_until(lambda: control_plane.access.request("GET", _ACCOUNT)[0] == 200)


def test_deployment_becomes_scheduled_pods_with_all_components(tmp_path: Path) -> None:
    with ControlPlane.start(tmp_path, controllers="*", with_scheduler=True) as plane:
        access = plane.access
        _create_object(access, "/api/v1/nodes", {"metadata": {"name": "node"}})
        _mark_node_ready(access, "node")
        labels = {"app": "web"}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [_CONTAINER]}}
        spec = {"replicas": 2, "selector": {"matchLabels": labels}, "template": template}
        _create_object(
            access,
            "/apis/apps/v1/namespaces/default/deployments",
            {"metadata": {"name": "web"}, "spec": spec},
        )
        _wait_until(lambda: _list_pod_nodes(access) == ["node", "node"])


def test_no_process_is_left_when_the_test_run_is_killed(tmp_path: Path) -> None:
    root = str(Path(__file__).parents[2])
    path = os.pathsep.join([root, os.path.join(root, "src")])
    with subprocess.Popen(
        [sys.executable, "-c", _STARTER_PROGRAM, str(tmp_path)],
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


def test_server_that_exits_reports_why(tmp_path: Path) -> None:
    process = ServerProcess("sh", ["/bin/sh", "-c", "echo no disk; exit 3"], tmp_path / "log")
    with pytest.raises(ServerExited, match=r"sh ended with 3.*\n.*no disk"):
        process.wait_until(lambda: False)


_ACCOUNT = "/api/v1/namespaces/default/serviceaccounts/default"
_CONTAINER = {"name": "c", "image": "registry.example.com/image"}


def _get_token_user(access: ServerAccess) -> str:
    review = {"spec": {"token": access.token}}
    _status, answer = access.request("POST", "/apis/authentication.k8s.io/v1/tokenreviews", review)
    return answer["status"]["user"]["username"]


def _create_object(access: ServerAccess, path: str, body: object) -> None:
    status, answer = access.request("POST", path, body)
    assert status == 201, answer


def _mark_node_ready(access: ServerAccess, node: str) -> None:
    _status, found = access.request("GET", f"/api/v1/nodes/{node}")
    found["spec"].pop("taints", None)
    access.request("PUT", f"/api/v1/nodes/{node}", found)
    _status, found = access.request("GET", f"/api/v1/nodes/{node}")
    found["status"] = {
        "capacity": {"cpu": "4", "memory": "8Gi", "pods": "10"},
        "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"},
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    status, answer = access.request("PUT", f"/api/v1/nodes/{node}/status", found)
    assert status == 200, answer


def _list_pod_nodes(access: ServerAccess) -> list[str]:
    _status, pods = access.request("GET", "/api/v1/namespaces/default/pods")
    return [pod["spec"].get("nodeName", "") for pod in pods["items"]]


def _wait_until(condition, timeout: float = 30) -> None:
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, "timed out"
        time.sleep(0.05)
