"""On a real kubelet with containerd and runc: pods, and Kilonova itself as pods from its image."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from tests.cli.command import Kilonova
from tests.harness.kubectl import Kubectl
from tests.harness.realnode.cgroups import list_hierarchies
from tests.harness.realnode.node import NodeParts, RealNode, describe_node
from tests.harness.realnode.supervisor import GROUP_PREFIX, INTERFACE_PREFIX
from tools.image.kilonova_image import NAME, VERSION

ROOT = Path(__file__).parents[2]
IMAGE = f"kilonova:{VERSION}"
SYSTEM = "kilonova-system"
PATIENCE = 240
"""Seconds for what takes ten on a quiet machine."""

# The image is built and the node started within the first test.
pytestmark = pytest.mark.timeout(1200)

PROGRAM = "import time; print(time.time_ns(), flush=True); time.sleep(1e6)"
READY_PROBE = {
    "exec": {"command": ["python3", "-c", ""]},
    "periodSeconds": 1,
    "timeoutSeconds": 30,
}
STARTER_PROGRAM = """
import sys
from pathlib import Path
from tests.harness.realnode.node import start_supervisor
from tests.harness.realnode.spec import NodeSpec

supervisor = start_supervisor(NodeSpec.read(Path(sys.argv[1])))
print(supervisor.pid, supervisor.stdout.readline(), flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def deployed_kilonova(
    real_node: RealNode, kubectl_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> Kubectl:
    """Operator and scheduler as pods by the manifests of `deploy/`, with their own accounts."""
    folder = tmp_path_factory.mktemp("deployment")
    kubectl = Kubectl(kubectl_path, real_node.control_plane.access.kubeconfig, folder)
    done = Kilonova(folder)("install", "--kubeconfig", kubectl.kubeconfig)
    assert done.code == 0, done.err
    write_operator_overlay(folder / "operator")
    for path in (folder / "operator", ROOT / "deploy" / "scheduler"):
        run(kubectl, "apply", "-k", str(path))
    for name in ("operator", "scheduler"):
        wait = ("rollout", "status", "-n", SYSTEM, f"deployment/kilonova-{name}")
        run(kubectl, *wait, f"--timeout={PATIENCE}s")
    return kubectl


def write_operator_overlay(folder: Path) -> None:
    """`deploy/operator`, with cliques that wait in a container of the same image."""
    folder.mkdir()
    option = {
        "op": "add",
        "path": "/spec/template/spec/containers/0/command/-",
        "value": f"--startup-image={IMAGE}",
    }
    overlay = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [os.path.relpath(ROOT / "deploy" / "operator", folder)],
        "patches": [
            {
                "target": {"kind": "Deployment", "name": "kilonova-operator"},
                "patch": yaml.safe_dump([option]),
            }
        ],
    }
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(overlay))


def test_pod_runs_is_probed_logs_and_executes(node_kubectl: Kubectl) -> None:
    create(node_kubectl, build_pod("lone", build_container()))
    wait = ("wait", "--for=condition=Ready", "pod/lone", f"--timeout={PATIENCE}s")
    run(node_kubectl, *wait)
    assert run(node_kubectl, "logs", "lone").strip().isdigit()
    program = "import os; print(os.getuid(), os.uname().nodename)"
    # The image's own user, in the pod's own namespaces.
    assert run(node_kubectl, "exec", "lone", "--", "python3", "-c", program) == "65532 lone\n"
    run(node_kubectl, "delete", "pod", "lone", f"--timeout={PATIENCE}s")


def test_plugins_outside_of_the_node_reach_kubelet(real_node: RealNode) -> None:
    folder = real_node.spec.filesystem / "var/lib/kubelet"
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(folder / "device-plugins/kubelet.sock"))
    registration = folder / "plugins_registry"
    assert registration.is_dir()
    assert len(str(registration / "gpu.kilonova.dev-reg.sock")) < 108


def test_kubelet_that_ends_is_started_again(real_node: RealNode, node_kubectl: Kubectl) -> None:
    create(node_kubectl, build_pod("lasting", build_container()))
    ready = ("wait", "--for=condition=Ready", "pod/lasting", f"--timeout={PATIENCE}s")
    run(node_kubectl, *ready)
    first = find_kubelet(real_node)
    assert first is not None
    first.kill()
    deadline = time.monotonic() + PATIENCE
    while (now := find_kubelet(real_node)) is None or now.pid == first.pid:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    # Logs come from kubelet, and the container went on without it.
    while (log := node_kubectl("logs lasting")).code:
        assert time.monotonic() < deadline, log.err
        time.sleep(0.1)
    assert len(log.out.splitlines()) == 1
    pod = get(node_kubectl, "pod", "lasting")
    assert pod["status"]["containerStatuses"][0]["restartCount"] == 0
    run(node_kubectl, "delete", "pod", "lasting", f"--timeout={PATIENCE}s")


def test_operator_and_scheduler_run_as_pods_with_their_accounts(
    deployed_kilonova: Kubectl,
) -> None:
    pods = get(deployed_kilonova, "pods", "-n", SYSTEM, "--field-selector=status.phase=Running")
    accounts = {pod["spec"]["serviceAccountName"] for pod in pods["items"]}
    assert accounts == {"kilonova-operator", "kilonova-scheduler"}
    images = {each["image"] for pod in pods["items"] for each in pod["status"]["containerStatuses"]}
    assert images == {NAME}
    for pod in pods["items"]:
        log = run(deployed_kilonova, "logs", "-n", SYSTEM, pod["metadata"]["name"])
        words = ("forbidden", "not decoded")
        assert [line for line in log.splitlines() if any(w in line.lower() for w in words)] == []


def test_operator_in_a_pod_rejects_an_invalid_set(deployed_kilonova: Kubectl) -> None:
    cycle = build_set("cycle", {"a": ["b"], "b": ["a"]})
    refused = deployed_kilonova("apply -f -", stdin=json.dumps(cycle), timeout=PATIENCE)
    assert refused.code == 1
    assert "startup dependencies must not form a cycle: a → b → a" in refused.err


def test_containers_of_a_set_start_in_order(deployed_kilonova: Kubectl) -> None:
    order = {"last": ["middle"], "middle": ["first"], "first": []}
    create(deployed_kilonova, build_set("order", order))
    available = "--for=jsonpath={.status.availableReplicas}=1"
    run(deployed_kilonova, "wait", available, "pcs/order", f"--timeout={PATIENCE}s")
    pods = get(deployed_kilonova, "pods", "-l", "app.kubernetes.io/part-of=order")["items"]
    assert len(pods) == 4
    assert {pod["spec"]["schedulerName"] for pod in pods} == {"kilonova-scheduler"}
    started: dict[str, list[int]] = {"first": [], "middle": [], "last": []}
    for pod in pods:
        clique = pod["metadata"]["labels"]["grove.io/podclique"].removeprefix("order-0-")
        log = run(deployed_kilonova, "logs", pod["metadata"]["name"], "-c", "main")
        started[clique].append(int(log))
    assert max(started["first"]) < min(started["middle"])
    assert max(started["middle"]) < min(started["last"])
    run(deployed_kilonova, "delete", "pcs", "order", f"--timeout={PATIENCE}s")


def test_nothing_is_left_when_the_test_run_is_killed(
    real_node_part: NodeParts, tmp_path: Path
) -> None:
    spec = describe_node(tmp_path, real_node_part, "killed")
    spec.write()
    path = os.pathsep.join([str(ROOT), str(ROOT / "src")])
    with subprocess.Popen(
        [sys.executable, "-c", STARTER_PROGRAM, str(spec.path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": path},
    ) as starter:
        assert starter.stdout is not None
        supervisor, node = map(psutil.Process, map(int, starter.stdout.readline().split()))
        assert list_groups(supervisor.pid)
        processes = [supervisor, node, *node.children(recursive=True)]
        starter.send_signal(signal.SIGKILL)
    _gone, alive = psutil.wait_procs(processes, timeout=60)
    assert not alive
    assert list_groups(supervisor.pid) == []
    assert f"{INTERFACE_PREFIX}{supervisor.pid}" not in psutil.net_if_addrs()
    assert not spec.filesystem.exists()


def find_kubelet(node: RealNode) -> psutil.Process | None:
    """kubelet as this machine sees it."""
    option = f"--kubeconfig={node.spec.kubeconfig}"
    processes = psutil.process_iter(["cmdline"])
    return next((each for each in processes if option in (each.info["cmdline"] or ())), None)


def list_groups(supervisor: int) -> list[Path]:
    folders = (parent / f"{GROUP_PREFIX}{supervisor}" for parent in list_hierarchies().values())
    return [folder for folder in folders if folder.exists()]


def build_set(name: str, starts_after: dict[str, list[str]]) -> dict[str, Any]:
    """A PodCliqueSet by its cliques and what each starts after; `middle` has two pods."""
    cliques = [
        {
            "name": clique,
            "spec": {
                "roleName": clique,
                "replicas": 2 if clique == "middle" else 1,
                "startsAfter": after,
                "podSpec": {
                    "schedulerName": "kilonova-scheduler",
                    "terminationGracePeriodSeconds": 0,
                    "containers": [build_container()],
                },
            },
        }
        for clique, after in starts_after.items()
    ]
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": 1,
            "template": {"cliqueStartupType": "CliqueStartupTypeExplicit", "cliques": cliques},
        },
    }


def build_pod(name: str, container: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"terminationGracePeriodSeconds": 0, "containers": [container]},
    }


def build_container() -> dict[str, Any]:
    """Prints when it starts, in nanoseconds."""
    command = ["python3", "-c", PROGRAM]
    return {"name": "main", "image": IMAGE, "command": command, "readinessProbe": READY_PROBE}


def create(kubectl: Kubectl, manifest: dict[str, Any]) -> None:
    done = kubectl("create -f -", stdin=json.dumps(manifest), timeout=PATIENCE)
    assert done.code == 0, done.err


def get(kubectl: Kubectl, *words: str) -> Any:
    return json.loads(run(kubectl, "get", *words, "-o", "json"))


def run(kubectl: Kubectl, *words: str) -> str:
    done = kubectl(words, timeout=PATIENCE + 60)
    assert done.code == 0, f"{' '.join(words)}: {done.err}"
    return done.out
